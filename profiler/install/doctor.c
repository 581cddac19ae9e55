/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/doctor.h"

#include <stdarg.h>

const struct check doctor_links[] = {
	{"kernel", doctor_kernel, true},
	{"perf_event_paranoid", doctor_paranoid, true},
	{"capabilities", doctor_caps, true},
	{"security module", doctor_lsm, true},
	{"cgroups", doctor_cgroups, true},
	{"locked memory", doctor_memlock, true},
	{"engines", doctor_engines, false},
	{"hooks.d", doctor_hooksd, false},
	{"hook", doctor_hook, false},
	{"runtime handlers", doctor_handlers, false},
	{"kill switch", doctor_switch, false},
	{"settings", doctor_settings, false},
	{"policy", doctor_policy, false},
	{"service", doctor_service, true},
	{"spool", doctor_spool, true},
	{"push", doctor_push, true},
	{0},
};

void check_report(struct check_result *f, enum finding_state state, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
	f->state = state;
}

void check_suggest_fix(struct check_result *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->way, sizeof(f->way), fmt, ap);
	va_end(ap);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tells why a container has a profile, or has none: the first reason on the way. */
#include "profiler/install/doctor.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/runtime/bundle.h"
#include "oci/runtime/engine_lookup.h"
#include "oci/runtime/hook_input_child.h"
#include "oci/runtime/policy.h"
#include "profiler/view/target_table.h"
#include "shim/protocol/service_client.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_NS (10 * NSEC_PER_SEC)

static char shown[ERR_SHOWN]; /* its name or id, for sentences */

/* --- the container ------------------------------------------------------------------------------------------- */

static int find_container(const char *what, struct engine_container *c, struct err *e)
{
	struct engine_container by_id = {0};
	const int64_t deadline = deadline_in(ASK_NS);
	if (what[strspn(what, "0123456789")] || strlen(what) > 7)
		return engine_lookup_find(what, deadline, c, e);
	*c = (struct engine_container){.pid = (pid_t)atoi(what)};
	if (proc_status_parent(c->pid) < 0)
		return err_say(e, -ESRCH, "there is no process %s", what);
	if (bundle_id(c->pid, c->id, sizeof(c->id)) < 0)
		return err_say(e, -ENOENT, "process %s is in no container's cgroup: 'pillion attach %s' profiles it",
			what, what);
	if (engine_lookup_find(c->id, deadline, &by_id, NULL) == 0) /* its init, where that is another one */
		*c = by_id;
	return 0;
}

/* --- is it being profiled ------------------------------------------------------------------------------------- */

static bool service_has(const struct settings *s, const struct engine_container *c)
{
	struct target_table l = {0};
	struct err unheard;
	bool has = false;
	fd_auto sock = service_client_connect_anyway(s->paths.control, &unheard);
	if (sock >= 0 && target_table_ask(sock, deadline_in(ASK_NS), &l, &unheard) == 0)
		for (size_t i = 0; i < l.n; i++)
			has = has || l.targets[i].host_pid == c->pid || (c->id[0] && !strcmp(l.targets[i].id, c->id));
	target_table_done(&l);
	return has;
}

/* Finds a session by its cgroup (shim/protocol/session_start.h), in any hierarchy. */
static bool session_has(const struct engine_container *c)
{
	static const char *const tops[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/*"};
	char pattern[300], procs[16];
	uint64_t start = 0;
	bool has = false;
	if (proc_stat_start_time(c->pid, &start) < 0)
		return false;
	for (size_t i = 0; !has && i < 2; i++) {
		glob_t g = {0};
		snprintf(pattern, sizeof(pattern), "%s/pillion/session-%.100s@%" PRIu64 "/cgroup.procs", tops[i], c->id,
			start);
		if (glob(pattern, GLOB_NOSORT, NULL, &g) == 0)
			has = fd_read_text(AT_FDCWD, g.gl_pathv[0], procs, sizeof(procs)) >= 0 && procs[0];
		globfree(&g);
	}
	return has;
}

/* --- runtimes with processes that this kernel does not see ---------------------------------------------------- */

static const char *find_foreign_runtime(const struct engine_container *c)
{
	static const struct {
		const char *part, *sentence;
	} monitors[] = {
		{"kata", "kata runs it in a virtual machine: its processes are not this kernel's"},
		{"runsc", "gVisor runs it: its system calls and threads are not this kernel's"},
		{"spin", "it is WebAssembly: its runtime would be profiled, and not the program"},
		{"wasm", "it is WebAssembly: its runtime would be profiled, and not the program"},
	};
	char monitor[128], exe[4096], link[64];
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)c->pid);
	const ssize_t n = readlink(link, exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = 0;
	const char *slash = strrchr(exe, '/'), *program = slash ? slash + 1 : exe;
	bundle_monitor(c->pid, monitor, sizeof(monitor));
	for (size_t i = 0; i < sizeof(monitors) / sizeof(monitors[0]); i++)
		if ((strstr(monitor, "shim") && strstr(monitor, monitors[i].part)) ||
			!strncmp(program, monitors[i].part, strlen(monitors[i].part)))
			return monitors[i].sentence;
	return !strncmp(program, "qemu-system", 11) || !strcmp(program, "cloud-hypervisor") ||
			       !strcmp(program, "firecracker")
		       ? monitors[0].sentence
		       : NULL;
}

/* --- its request ---------------------------------------------------------------------------------------------- */

/* Runs the hook's own reader, without privilege, on the hook's input. */
static int read_asked(const struct engine_container *c, struct container *ret, struct err *e)
{
	struct hook_input_child in = {.said = -1};
	char state[sizeof(c->bundle) + 512];
	int ends[2];
	snprintf(state, sizeof(state),
		"{\"ociVersion\": \"1.0\", \"id\": \"%s\", \"status\": \"running\", \"pid\": %d, \"bundle\": \"%s\"}",
		c->id, (int)c->pid, c->bundle);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe");
	int r = fd_write_all(ends[1], state, strlen(state));
	fd_close(ends[1]);
	const int64_t deadline = deadline_in(ASK_NS);
	if (r == 0)
		r = hook_input_child_start(&in, ends[0], e);
	if (r == 0) {
		hook_input_child_asked(&in, deadline);
		r = hook_input_child_finish(&in, deadline, ret, e);
		if (r == -EPIPE)
			r = hook_input_child_explain(&in, deadline, e);
	}
	hook_input_child_done(&in);
	fd_close(ends[0]);
	return r;
}

static bool names_hook(const struct engine_container *c)
{
	char path[sizeof(c->bundle) + 16], *text = NULL;
	size_t len;
	snprintf(path, sizeof(path), "%s/config.json", c->bundle);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	bool names = fd >= 0 && fd_slurp(fd, 16 << 20, &text, &len) == 0 && memmem(text, len, "pillion-hook", 12);
	free(text);
	return names;
}

/* True, with a report: the verdict is no wish for a profile. */
static bool not_asked(const struct container *asked, struct check_result *f)
{
	switch ((enum profile_decision)asked->verdict) {
	case DECISION_OFF:
		if (!strcmp(asked->request.events, "off")) {
			check_report(f, FINDING_WARNING, "%s is not profiled: its annotation io.pillion.profile is off",
				shown);
		} else {
			check_report(f, FINDING_WARNING, "%s is not profiled: it has no annotation io.pillion.profile",
				shown);
			check_suggest_fix(
				f, "start it with --annotation io.pillion.profile=cpu; or 'pillion attach' now");
		}
		return true;
	case DECISION_SANDBOX:
		check_report(f, FINDING_WARNING, "%s is not profiled: it is a Pod's sandbox (pause)", shown);
		check_suggest_fix(f, "ask about a container of the Pod");
		return true;
	case DECISION_INVALID:
		check_report(f, FINDING_BROKEN, "%s is not profiled: %.320s", shown, asked->reason);
		check_suggest_fix(f, "start it anew with the annotation corrected");
		return true;
	default:
		return false;
	}
}

static void why_not(const struct doctor *d, const struct engine_container *c, struct check_result *f)
{
	static struct container asked;
	const struct settings *s = &d->options.settings;
	struct err e = {0};
	if (read_asked(c, &asked, &e) < 0) {
		check_report(f, FINDING_BROKEN, "%s: %s", shown, e.text);
	} else if (not_asked(&asked, f)) {
		return;
	} else if (policy_permits(s, &asked, &e) < 0) {
		check_report(f, FINDING_WARNING, "%s is not profiled: %s", shown, e.text);
		check_suggest_fix(f, "that is the administrator's to change");
	} else if (!container_sampled(asked.id, s->policy.sample)) {
		check_report(f, FINDING_WARNING,
			"%s is not profiled: policy has one container of %u, and this is another", shown,
			s->policy.sample);
		check_suggest_fix(f, "'pillion attach' profiles it now");
	} else if (!names_hook(c)) {
		check_report(f, FINDING_BROKEN, "%s asks for %.60s, but its config.json names no pillion-hook", shown,
			asked.request.events);
		check_suggest_fix(f, "it was created before 'pillion install', or by an engine that reads no hooks.d "
				     "(containerd, Docker: "
				     "runtime pillion, or pillion-nri): create it anew; or 'pillion attach' now");
	} else {
		check_report(f, FINDING_BROKEN, "%s asks for %.60s and has the hook, but nobody profiles it (any more)",
			shown, asked.request.events);
		check_suggest_fix(f,
			"the hook's log says why: journalctl -t pillion-hook, or /var/log/pillion/pillion.log, "
			"'container=%.60s'",
			c->id);
	}
}

void doctor_container(const struct doctor *d, struct check_result *f)
{
	static struct engine_container c;
	struct err e = {0};
	const char *sentence;
	err_shown(d->container, strlen(d->container), shown);
	if (find_container(d->container, &c, &e) < 0) {
		check_report(f, FINDING_BROKEN, "%s", e.text);
	} else if (service_has(&d->options.settings, &c)) {
		check_report(f, FINDING_OK, "%s is profiled by the service ('pillion ps')", shown);
	} else if (session_has(&c)) {
		check_report(f, FINDING_OK, "%s is profiled by a session of its own", shown);
	} else if (options_off(d->options.settings.paths.etc) == 1) {
		check_report(f, FINDING_BROKEN, "%s is not profiled: nothing is on this host (%s/off)", shown,
			d->options.settings.paths.etc);
		check_suggest_fix(f, "sudo pillion on, then start it anew");
	} else if ((sentence = find_foreign_runtime(&c))) {
		check_report(f, FINDING_WARNING, "%s is not profiled: %s", shown, sentence);
		check_suggest_fix(f, "'pillion run' inside of it may help");
	} else if (!c.bundle[0] && bundle_find(c.pid, c.id, c.bundle, sizeof(c.bundle)) < 0) {
		check_report(f, FINDING_WARNING,
			"%s is not profiled, and its config.json is not found, which says what it asked for", shown);
		check_suggest_fix(f, "name it as its engine does, in place of its pid");
	} else {
		why_not(d, &c, f);
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_strategy - the ways to attach events to a container, best first, as one table.
 *
 *	cgroup	PERF_FLAG_PID_CGROUP per CPU: everything in the container, exec'ed, setuid and later processes
 *		included. Needs CAP_PERFMON (or perf_event_paranoid <= 0) and a cgroup of the container's own.
 *	process	per CPU on the init with inherit and enable_on_exec: works unprivileged; misses processes that the
 *		init did not fork (exec sessions), and those that exec a setuid or unreadable program.
 *	threads	per CPU on every thread that there is, with inherit: for a running target, unprivileged as well.
 *	timers	no perf events at all: CPU timers of its threads, by libpillion in the program
 *		(shim/libpillion/cputime/cpu_timers.h).
 *
 * Each but the last comes with and without kernel frames. `auto` tries them in that order; every refusal is kept as a
 * sentence. `process` cannot attach to a running target, and a target that has not begun needs no `threads`; `timers`
 * are for a target with a socket for libpillion (TARGET_APP), where perf is refused.
 */
#pragma once

#include "oci/config/options.h"
#include "shim/event/target_desc.h"

struct attach_method {
	enum strategy strategy;
	bool kernel;
	const char *name; /* "cgroup", "process, user code only" */
};

/*
 * Returns row `i` of the table for the requested method; NULL behind the last. running: the target runs already; app:
 * TARGET_APP.
 */
const struct attach_method *strategy_attempt(enum attach asked, bool running, bool app, size_t i);
const char *strategy_name(enum strategy strategy); /* "cgroup" */

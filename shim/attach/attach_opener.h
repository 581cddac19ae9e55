/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_opener - the opener for a target that runs already: the program `pillion-opener`, started by
 * shim/attach/attach.c from a sealed copy of itself. What it looks at and joins may be hostile, so before it does it
 * cannot be dumped, traced or rewritten from there.
 *
 *	outer	whoever called. Looks at the target, joins its pid namespace, forks, joins its mount namespace for the
 *		detached tree. Opens no perf event.
 *	inner	born in the target's pid namespace, so that records carry the target's own pids. Of root's capabilities
 *		it keeps CAP_PERFMON (and CAP_SYS_ADMIN where only that opens the gate) for the events, and
 *		CAP_SYS_PTRACE for /proc/PID/maps; it enters seccomp, opens, passes, reports, ends.
 *
 * Who may not join (a plain user and another pid namespace) stays outside: records then carry the host's pids.
 */
#pragma once

#include "shim/attach/event_open.h"

#include <stdbool.h>

#define ATTACH_OPENER_LINE                                                                                             \
	3 /* SEQPACKET socket to who started us: struct attach_job comes, with TARGET_APP and TARGET_FILES as far as   \
	     job.request.desc.fds names them; struct attach_report goes */
#define ATTACH_OPENER_PROFILER 4 /* SEQPACKET socket to the profiler, greeted */

struct attach_job {
	struct event_open_request request; /* desc.host_pid and start_time say whom */
	bool container;			   /* all that is in its cgroup; else the process and its descendants */
	pid_t except;			   /* of these none, nor what is below it; 0: there is none */
	bool remap;			   /* no events: what it consists of, for a profiler that had to begin anew */
	pid_t caller;
	int64_t deadline; /* CLOCK_MONOTONIC, ns */
};

struct attach_report {
	int code;	 /* 0: armed, -errno */
	char text[320];	 /* why not */
	char notes[512]; /* what is less than asked for */
};

_Noreturn void attach_opener_run(void);

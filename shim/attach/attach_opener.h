/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_opener - the opener for a running target: the program `pillion-opener`, started by shim/attach/attach.c from a
 * sealed copy of itself. The target that it looks at and joins may be hostile: so before that, it makes sure that it
 * cannot be dumped, traced or rewritten from there.
 *
 *	outer	started by the caller. Looks at the target, joins its pid namespace, forks, joins its mount namespace
 *		for the detached tree. Opens no perf event.
 *	inner	born in the target's pid namespace, so that records carry the target's own pids. Of root's capabilities
 *		it keeps CAP_PERFMON (and CAP_SYS_ADMIN where only that opens the gate) for the events, and
 *		CAP_SYS_PTRACE for /proc/PID/maps; it enters seccomp, opens, passes, reports, ends.
 *
 * If the opener may not join (a plain user's, and another pid namespace), inner stays outside: records then carry the
 * host's pids.
 */
#pragma once

#include "shim/attach/event_open.h"

#include <stdbool.h>

#define ATTACH_OPENER_LINE                                                                                             \
	3 /* SEQPACKET socket to the caller: receives struct attach_job, with TARGET_APP and TARGET_FILES as far as    \
	     job.request.desc.fds names them; sends struct attach_report */
#define ATTACH_OPENER_PROFILER 4 /* SEQPACKET socket to the profiler, greeted */

struct attach_job {
	struct event_open_request request; /* desc.host_pid and start_time identify the target */
	bool container;			   /* everything in its cgroup; else the process and its descendants */
	pid_t except;			   /* excluded, with its descendants; 0: none */
	bool remap;			   /* no events: only processes and mappings, for a restarted profiler */
	pid_t caller;
	int64_t deadline; /* CLOCK_MONOTONIC, ns */
};

struct attach_report {
	int code;	 /* 0: armed, -errno */
	char text[320];	 /* why not */
	char notes[512]; /* how the profile falls short of the request */
};

_Noreturn void attach_opener_run(void);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener - the short-lived privileged process that opens perf events for one container and hands them to a profiler.
 *
 * Two processes, so that each holds as little as its step needs:
 *
 *	outer	root of the host. Opens the container's pidfd, cgroup and namespaces, joins its pid namespace, forks,
 *		joins its mount namespace for the detached tree. Opens no perf event.
 *	inner	born in the container's pid namespace, so that records carry the container's own pids. Becomes the
 *		service user with CAP_PERFMON alone (CAP_SYS_ADMIN as well where perf_event_paranoid >= 3, a kernel
 *		before 5.8 or, if policy allows them, uprobes demand it), enters seccomp, opens events, passes them in
 *		lock-step, and ends.
 *
 * A container's start waits for all this, so the steps overlap and no process relays for another: outer is forked
 * before anything is known, hears from the reader (oci/runtime/hook_input_child.h) itself, looks at the init as soon as
 * it has a pid, and decides. The hook only waits, for a bounded time, and starts a session when inner finds no service.
 * Both die with the hook. Neither holds the runtime's stdio.
 */
#pragma once

#include "oci/config/options.h"
#include "oci/runtime/hook_input_child.h"

enum opener_outcome {
	OPENER_DIED,	  /* killed, or crashed */
	OPENER_NO_ANSWER, /* from the reader */
	OPENER_NOTHING,	  /* no profile is requested */
	OPENER_UNSAMPLED, /* requested, and policy chose other containers */
	OPENER_FORBIDDEN, /* requested, and policy forbids it, with a sentence */
	OPENER_STOPPED,	  /* the container has ended */
	OPENER_FAILED,
	OPENER_ARMED,
};

struct opener {
	const struct settings *settings;
	struct hook_input_child *intake;
	int64_t deadline;
	struct opener_shared *shared;
	struct container container; /* a copy, checked; all zero when there is none */
	struct opener_report *report;
	pid_t hook, outer;
	int line;	 /* socket to both; EOF: both are done */
	bool in_session; /* a session was started for the container */
};

/* Forks the opener. `op` is zeroed, `in` has been started; both are borrowed until opener_done. 0 or -errno. */
int opener_start(struct opener *op, struct hook_input_child *in, const struct settings *settings, int64_t deadline,
	struct err *e);
/*
 * Waits until the container is armed or is not going to be. Never returns OPENER_DIED nor OPENER_NO_ANSWER: those
 * become OPENER_FAILED, with a sentence in `e`. `notes`: how the profile falls short of the request, or "".
 */
enum opener_outcome opener_wait(struct opener *op, char *notes, size_t notes_size, struct err *e);
void opener_done(struct opener *op); /* leaves no process */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom_score - makes the kernel kill children first when memory is short, the cgroup's or the machine's: they are
 * restarted or can be missed, whereas everything would end with the supervisor. By oom_score_adj (proc(5)), which
 * children inherit; it is raised around a fork, and needs no privilege to get back to the old value.
 *
 * During a fork the parent is as expendable as its child. A process that may fork without free memory holds a reserve.
 * It releases the reserve for the fork and takes it again afterwards: so the fork takes no other memory. A child that
 * takes much memory at once waits until then (supervisor.c).
 */
#pragma once

#include <stdbool.h>

struct oom_score {
	int fd; /* opened while we may write to /proc; -1: no effect */
	int own;
	void *reserve;
};

struct oom_score oom_score_open(void);
/*
 * A fork's memory in the kernel and for the parent's pages, with room: with one target a fork succeeded with 300 KB to
 * spare, and failed with 200 KB (kernel 6.18).
 */
#define OOM_SCORE_RESERVE (512u << 10)
/* A child forked between these calls is killed before us on OOM; 1: own helper, 2: a user's, killed first. NULL: no
 * effect. */
void oom_score_before_fork(struct oom_score *o, unsigned how);
void oom_score_after_fork(struct oom_score *o); /* in the parent; takes the reserve, unless fd is -1 */

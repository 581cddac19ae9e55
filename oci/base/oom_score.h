/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom_score - who goes first when the kernel ends processes for want of memory, the cgroup's or the machine's:
 * children, which are started again or can be missed, and not the supervisor, with which everything would go. By
 * oom_score_adj (proc(5)), which children inherit; it is raised around a fork, and what was may be had back without
 * privilege.
 *
 * In a fork the one that forks is as expendable as its child. Who forks when there may be no memory left holds a
 * reserve, which is let go for the fork and had again behind it: the fork then takes nothing from elsewhere. A child
 * that takes much memory at once waits for that (supervisor.c).
 */
#pragma once

#include <stdbool.h>

struct oom_score {
	int fd; /* opened while /proc is ours to write; -1: nothing happens */
	int own;
	void *reserve;
};

struct oom_score oom_score_open(void);
/*
 * What a fork takes in the kernel and for the parent's pages, and room: with one target it went through with 300 KB to
 * spare, and not with 200 (kernel 6.18).
 */
#define OOM_SCORE_RESERVE (512u << 10)
/* Who is forked between the two goes before us: ours (1), or a user's (2: before those). NULL: nothing happens. */
void oom_score_before_fork(struct oom_score *o, unsigned how);
void oom_score_after_fork(struct oom_score *o); /* in the parent; takes a reserve, but where scores are not changed */

/*
 * oom - who goes first when the kernel ends processes for want of memory, the cgroup's or the machine's: children,
 * which are started again or can be missed, and not the supervisor, with which everything would go. By oom_score_adj
 * (proc(5)), which children inherit; it is raised around a fork, and what was may be had back without privilege.
 */
#pragma once

#include <stdbool.h>

struct oom {
	int fd; /* opened while /proc is ours to write; -1: nothing happens */
	int own;
};

struct oom oom_open(void);
/* Whoever is forked meanwhile: not before us (0), ours (1), or a user's (2: before those). */
void oom_expendable(const struct oom *o, unsigned how);

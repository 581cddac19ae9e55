/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup - finds a container's cgroup and makes one for the profiler, on v1, hybrid and v2, without
 * systemd (cgroups(7), kernel Documentation/admin-guide/cgroup-v2.rst).
 *
 * Reads the hierarchies from /proc/self/mountinfo. If the v2 hierarchy exists but is not mounted in our mount
 * namespace, uses a detached mount of our own (fsmount(2)).
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The cgroup of a container, as far as perf is concerned. */
struct cgroup_target {
	int perf_dir;	  /* directory for PERF_FLAG_PID_CGROUP, or -1 */
	int events_dir;	  /* v2 directory with cgroup.events and cpu.stat, or -1; may be the same cgroup */
	char path[1024];  /* as /proc/PID/cgroup says */
	bool v1;	  /* `path` is in the v1 hierarchy of perf_event */
	char reason[200]; /* why perf_dir is -1 */
};

/*
 * Opens the cgroup of the container with the init `pid`. perf_dir is opened only if the cgroup is the container's
 * own: not the root, not ours, and no process in it but the init. Never fails as a whole.
 */
void cgroup_find(pid_t pid, struct cgroup_target *ret);
/*
 * The same for a running container: the cgroup at or above `pid`'s that has the container's id in its name, else
 * `pid`'s. No process of our own mount namespace may be in it (the container's monitor, the user's other programs).
 */
void cgroup_find_running(pid_t pid, const char *id, struct cgroup_target *ret);
/* Reads a process's path in /proc/PID/cgroup for a v1 controller, or for v2 (NULL). 0, -ESRCH, -ENODATA, -errno. */
int cgroup_path(pid_t pid, const char *controller, char *ret, size_t size);
void cgroup_target_done(struct cgroup_target *t);

struct cgroup_limits {
	uint64_t memory;      /* bytes, 0 = none */
	uint32_t cpu_percent; /* of one CPU, 0 = none */
	uint32_t pids;	      /* 0 = none */
};

#define CGROUP_BASE "pillion"
#define CGROUP_HIERARCHIES_MAX 8

/* A cgroup of our own: one directory per hierarchy. */
struct cgroup {
	unsigned n;
	int dirs[CGROUP_HIERARCHIES_MAX];
	char name[128]; /* "pillion/session-x" */
};

/*
 * Makes (or opens) /pillion/<name> in the cpu, memory and pids hierarchies and in v2, with limits. Skips hierarchies
 * that it cannot write. If none is left: -ENOENT, or the error of the first, with a sentence.
 */
int cgroup_create(const char *name, const struct cgroup_limits *limits, struct cgroup *ret, struct err *e);
/* Moves a process (0 = this one) into it. */
int cgroup_enter(const struct cgroup *c, pid_t pid, struct err *e);
/*
 * Makes a cgroup and moves this process into it; tries again if another start sweeps it in between. alone: -EALREADY if
 * a process is in it.
 */
int cgroup_enter_own(const char *name, const struct cgroup_limits *limits, bool alone, struct err *e);
void cgroup_done(struct cgroup *c); /* closes, does not remove */
bool cgroup_is_empty(const struct cgroup *c);
/* Removes every empty /pillion/<prefix>*. Returns the number of removed directories; -EBUSY: one holds processes. */
int cgroup_sweep(const char *prefix);
/* The same, but waits until the deadline (CLOCK_MONOTONIC, ns) for processes that are about to end. */
void cgroup_sweep_until(const char *prefix, int64_t deadline);

/*
 * Reads `events`, an open cgroup.events of v2: 1 populated, 0 empty, -ENODEV removed, -errno. The next poll(2) for
 * POLLPRI waits only after a read of this very descriptor (fs/kernfs/file.c).
 */
int cgroup_populated(int events);
/* Reads usage_usec of an open cpu.stat of v2. */
int cgroup_cpu_usage(int stat, uint64_t *ret_usec);

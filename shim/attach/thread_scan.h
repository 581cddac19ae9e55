/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_scan - the processes and threads of a target that runs already, by /proc: taken again and again while they
 * come and go. Opens files below /proc for reading and nothing else.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define THREAD_SCAN_MAX 65536 /* threads */

/* What belongs to the target. */
struct thread_scan_scope {
	pid_t root;	     /* this process and its descendants, unless ... */
	pid_t except;	     /* ... they are this one, or below it (0: none), or ... */
	char controller[16]; /* v1 controller whose hierarchy `cgroup` is in, "" = v2 */
	char cgroup[1024];   /* ... here stands a path: everything in this cgroup and below */
	unsigned depth;	     /* of our pid namespace below that of /proc, which is 1; 0 as well: it is that one */
};

struct thread_scan_task {
	pid_t proc_pid, proc_tid; /* as /proc has them */
	pid_t pid, tid;		  /* as our pid namespace has them: what perf_event_open(2) takes and records carry */
	char name[16];
	bool alive; /* as of the last look */
	bool done;  /* the caller's */
};

struct thread_scan;
int thread_scan_new(const struct thread_scan_scope *scope, struct thread_scan **ret); /* the scope is copied */
struct thread_scan *thread_scan_free(struct thread_scan *c);			      /* NULL is fine */
/* Look again. How many tasks are new, or -errno: -E2BIG more than THREAD_SCAN_MAX. */
int thread_scan_look(struct thread_scan *c);
size_t thread_scan_count(const struct thread_scan *c); /* tasks ever seen; indices stay */
struct thread_scan_task *thread_scan_at(struct thread_scan *c, size_t i);
void thread_scan_rename(struct thread_scan_task *t); /* as it is called by now */

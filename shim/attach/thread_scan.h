/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_scan - the processes and threads of a running target, by /proc: scanned again and again while they come and
 * go. Opens files below /proc for reading and nothing else.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define THREAD_SCAN_MAX 65536 /* threads */

/* The processes of the target. */
struct thread_scan_scope {
	pid_t root;	     /* this process and its descendants, unless ... */
	pid_t except;	     /* ... they are this one, or below it (0: none), or ... */
	char controller[16]; /* v1 controller of the hierarchy of `cgroup`, "" = v2 */
	char cgroup[1024];   /* ... this is a path: everything in this cgroup and below */
	unsigned depth;	     /* depth of our pid namespace, where that of /proc is 1; 0 means 1 */
};

struct thread_scan_task {
	pid_t proc_pid, proc_tid; /* as /proc has them */
	pid_t pid, tid;		  /* in our pid namespace: as perf_event_open(2) and records have them */
	char name[16];
	bool alive; /* as of the last scan */
	bool done;  /* for the caller to use */
};

struct thread_scan;
int thread_scan_new(const struct thread_scan_scope *scope, struct thread_scan **ret); /* the scope is copied */
struct thread_scan *thread_scan_free(struct thread_scan *c);			      /* NULL is fine */
/* Scans again. Returns the number of new tasks, or -errno: -E2BIG more than THREAD_SCAN_MAX. */
int thread_scan_look(struct thread_scan *c);
size_t thread_scan_count(const struct thread_scan *c); /* tasks ever seen; indices stay */
struct thread_scan_task *thread_scan_at(struct thread_scan *c, size_t i);
void thread_scan_rename(struct thread_scan_task *t); /* reads its current name */

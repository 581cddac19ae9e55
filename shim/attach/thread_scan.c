/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/thread_scan.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 64
#define BUCKETS (2 * THREAD_SCAN_MAX)

struct connection {
	pid_t pid, parent;
	bool member;
};

struct thread_scan {
	struct thread_scan_scope scope;
	struct thread_scan_task *tasks;
	size_t n, room;
	uint32_t *buckets; /* by proc_tid: index + 1, open addressing */
	struct connection *processes;
	size_t n_processes, processes_room;
};

int thread_scan_new(const struct thread_scan_scope *scope, struct thread_scan **ret)
{
	struct thread_scan *c = calloc(1, sizeof(*c));
	if (c)
		c->buckets = calloc(BUCKETS, sizeof(*c->buckets));
	if (!c || !c->buckets) {
		free(c);
		return -ENOMEM;
	}
	c->scope = *scope;
	*ret = c;
	return 0;
}

struct thread_scan *thread_scan_free(struct thread_scan *c)
{
	if (c) {
		free(c->tasks);
		free(c->buckets);
		free(c->processes);
	}
	free(c);
	return NULL;
}

size_t thread_scan_count(const struct thread_scan *c)
{
	return c->n;
}

struct thread_scan_task *thread_scan_at(struct thread_scan *c, size_t i)
{
	return &c->tasks[i];
}

/* --- threads ------------------------------------------------------------------------------------------- */

static uint32_t *find_task_slot(const struct thread_scan *c, pid_t proc_tid)
{
	uint32_t at = (uint32_t)proc_tid * 2654435761u % BUCKETS;
	while (c->buckets[at] && c->tasks[c->buckets[at] - 1].proc_tid != proc_tid)
		at = (at + 1) % BUCKETS;
	return &c->buckets[at];
}

void thread_scan_rename(struct thread_scan_task *t)
{
	char path[64], text[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)t->proc_pid, (int)t->proc_tid);
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) == 0)
		snprintf(t->name, sizeof(t->name), "%.15s", text);
}

/* 1: it is new. A thread that is gone already is 0. */
static int add_task(struct thread_scan *c, pid_t proc_pid, pid_t proc_tid)
{
	uint32_t *at = find_task_slot(c, proc_tid);
	if (*at) {
		c->tasks[*at - 1].alive = true;
		return 0;
	}
	if (c->n == THREAD_SCAN_MAX)
		return -E2BIG;
	struct thread_scan_task t = {
		.proc_pid = proc_pid, .proc_tid = proc_tid, .pid = proc_pid, .tid = proc_tid, .alive = true};
	/* a thread that our pid namespace does not show cannot be attached to from there */
	if (c->scope.depth > 1 && (proc_status_nspid_at(proc_tid, c->scope.depth, &t.tid) < 0 ||
					  proc_status_nspid_at(proc_pid, c->scope.depth, &t.pid) < 0))
		return 0;
	int r = array_reserve(&c->tasks, &c->room, c->n + 1, sizeof(*c->tasks), ROOM_FIRST);
	if (r < 0)
		return r;
	thread_scan_rename(&t);
	c->tasks[c->n++] = t;
	*at = (uint32_t)c->n;
	return 1;
}

/* --- directories of numbers ---------------------------------------------------------------------------- */

typedef int number_fn(struct thread_scan *c, pid_t owner, pid_t number);

/*
 * Returns the sum of fn's results for the numbers in a directory of /proc, or its first error. A directory that is gone
 * has none.
 */
static int each_number(struct thread_scan *c, const char *path, pid_t owner, number_fn *fn)
{
	int sum = 0, fd = fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ESRCH ? 0 : fd;
	DIR *d = fdopendir(fd);
	if (!d)
		return fd_close(fd), -ENOMEM;
	for (struct dirent *de; sum >= 0 && (de = readdir(d));) {
		char *end;
		long number = strtol(de->d_name, &end, 10);
		int r = *end || number <= 0 ? 0 : fn(c, owner, (pid_t)number);
		sum = r < 0 ? r : sum + r;
	}
	closedir(d);
	return sum;
}

static int add_threads(struct thread_scan *c, pid_t pid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	return each_number(c, path, pid, add_task);
}

/* --- processes ----------------------------------------------------------------------------------------- */

static bool is_below(const char *path, const char *cgroup)
{
	size_t n = strlen(cgroup);
	return !strncmp(path, cgroup, n) && (!path[n] || path[n] == '/');
}

static bool in_cgroup(const struct thread_scan *c, pid_t pid)
{
	char path[1024];
	const char *controller = c->scope.controller[0] ? c->scope.controller : NULL;
	return cgroup_path(pid, controller, path, sizeof(path)) == 0 && is_below(path, c->scope.cgroup);
}

/* A process that was a member once stays one, even if its parent has changed. */
static bool was_member(const struct thread_scan *c, pid_t pid)
{
	uint32_t at = *find_task_slot(c, pid);
	return at && c->tasks[at - 1].proc_pid == pid;
}

static int add_process(struct thread_scan *c, pid_t none, pid_t pid)
{
	int r = array_reserve(&c->processes, &c->processes_room, c->n_processes + 1, sizeof(*c->processes), ROOM_FIRST);
	if (r < 0)
		return r;
	struct connection p = {.pid = pid};
	if (c->scope.cgroup[0]) {
		p.member = in_cgroup(c, pid);
	} else {
		p.member = pid == c->scope.root || was_member(c, pid);
		p.parent = p.member ? 0 : proc_status_parent(pid);
	}
	c->processes[c->n_processes++] = p;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct connection *p = a, *q = b;
	return (p->pid > q->pid) - (p->pid < q->pid);
}

static bool is_member(const struct thread_scan *c, pid_t pid)
{
	struct connection key = {.pid = pid};
	const struct connection *p = bsearch(&key, c->processes, c->n_processes, sizeof(key), by_pid);
	return p && p->member;
}

/* Children of members are members, until there are no more. */
static void mark_descendants(struct thread_scan *c)
{
	bool more = true;
	qsort(c->processes, c->n_processes, sizeof(*c->processes), by_pid);
	while (more) {
		more = false;
		for (size_t i = 0; i < c->n_processes; i++) {
			struct connection *p = &c->processes[i];
			if (!p->member && p->parent > 0 && p->pid != c->scope.except && is_member(c, p->parent))
				p->member = more = true;
		}
	}
}

int thread_scan_look(struct thread_scan *c)
{
	for (size_t i = 0; i < c->n; i++)
		c->tasks[i].alive = false;
	c->n_processes = 0;
	int r = each_number(c, "/proc", 0, add_process), new = 0;
	if (r < 0)
		return r;
	if (!c->scope.cgroup[0])
		mark_descendants(c);
	for (size_t i = 0; r >= 0 && i < c->n_processes; i++) {
		r = c->processes[i].member ? add_threads(c, c->processes[i].pid) : 0;
		new += r > 0 ? r : 0;
	}
	return r < 0 ? r : new;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/target_registry.h"

#include "oci/base/array.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLOSING_MAX 16
#define HURRY_NS (10 * NSEC_PER_MSEC)

enum place { PLACE_CGROUP = 2, PLACE_EXE, PLACE_OPENED };

/*
 * Opens the files of the cgroup that the worker, which has no paths, reads again and again. Where the cgroup has no
 * such file, or is gone, the worker does without.
 */
static void open_cgroup_files(struct registered_target *r)
{
	static const char *const names[] = {"cgroup.events", "cpu.stat"};
	int dir = r->fds[PLACE_CGROUP];
	for (unsigned i = 0; dir >= 0 && i < sizeof(names) / sizeof(names[0]); i++) {
		if (r->fds[PLACE_OPENED + i] >= 0)
			continue;
		int fd = fd_open(dir, names[i], O_RDONLY | O_NONBLOCK, 0);
		r->fds[PLACE_OPENED + i] = fd < 0 ? -1 : fd;
		r->desc.fds |= fd < 0 ? 0 : 1u << (PLACE_OPENED + i);
	}
}

struct registered_target *registered_new(const struct target_desc *d, const int *fds)
{
	struct registered_target *r = calloc(1, sizeof(*r));
	size_t next = 0;
	for (unsigned i = 0; i < TARGET_FDS_ALL; i++) {
		int fd = d->fds & 1u << i ? fds[next++] : -1;
		if (r)
			r->fds[i] = fd;
		else
			fd_close(fd);
	}
	if (!r)
		return NULL;
	r->desc = *d;
	r->link.sock = r->link.far = r->link.source.fd = -1;
	open_cgroup_files(r);
	return r;
}

static int make_room(struct registered_target *r, uint32_t n)
{
	uint32_t room = r->room ? r->room : 16;
	while (room < r->n_events + n)
		room *= 2;
	if (room == r->room)
		return 0;
	struct event_desc *events = realloc(r->events, room * sizeof(*events));
	r->events = events ? events : r->events;
	int *fds = events ? realloc(r->event_fds, room * sizeof(*fds)) : NULL;
	r->event_fds = fds ? fds : r->event_fds;
	r->room = fds ? room : r->room;
	return fds ? 0 : -ENOMEM;
}

int registered_add(struct registered_target *r, const struct msg_events *m, const int *fds)
{
	int error = r->total ? -EPROTO : make_room(r, m->n);
	for (uint32_t i = 0; i < m->n; i++)
		if (error < 0) {
			fd_close(fds[i]);
		} else {
			r->events[r->n_events] = m->events[i];
			r->event_fds[r->n_events++] = fds[i];
		}
	if (error == 0)
		r->total = m->total;
	return error;
}

void registered_remember(struct registered_target *r, uint32_t key, int fd)
{
	uint32_t i = 0;
	while (i < r->n_memories && r->memories[i].key != key)
		i++;
	if (i < r->n_memories) {
		fd_close(r->memories[i].fd);
		r->memories[i] = r->memories[--r->n_memories];
	}
	struct registered_memory *more = fd >= 0 && r->n_memories < REGISTERED_MEMORIES
						 ? reallocarray(r->memories, r->n_memories + 1, sizeof(*more))
						 : NULL;
	if (!more) {
		fd_close(fd);
		return;
	}
	r->memories = more;
	r->memories[r->n_memories++] = (struct registered_memory){key, fd};
}

bool registered_is_complete(const struct registered_target *r)
{
	return r->total || r->desc.strategy == STRATEGY_TIMERS;
}

int registered_cgroup(const struct registered_target *r)
{
	return r->fds[PLACE_CGROUP];
}

size_t registered_list(const struct registered_target *r, int ret[static TARGET_FDS_ALL])
{
	size_t n = 0;
	for (unsigned i = 0; i < TARGET_FDS_ALL; i++)
		if (r->desc.fds & 1u << i)
			ret[n++] = r->fds[i];
	return n;
}

uint32_t registered_fds(const struct registered_target *r)
{
	return r->n_events + r->n_memories + (uint32_t)__builtin_popcount(r->desc.fds) + 1;
}

/* Processes that close one descriptor each. */
static struct closer {
	pid_t pid; /* 0: this place is free */
	int fd;
} closing[CLOSING_MAX];

/* Descriptors that are still to be closed: there was no place, or their process was killed before it had begun. */
static struct {
	int *fds;
	size_t n, room;
} late;

static void close_later(int fd)
{
	if (array_reserve(&late.fds, &late.room, late.n + 1, sizeof(*late.fds), 64) < 0)
		return; /* the descriptor stays open */
	late.fds[late.n++] = fd;
}

/* A file that takes the number of the file that is closed. Its close(2) never waits. -1: not opened yet. */
static int placeholder = -1;

int close_possibly_blocking_prepare(void)
{
	if (placeholder < 0)
		placeholder = memfd_create("pillion-closing", MFD_CLOEXEC);
	return placeholder < 0 ? -errno : 0;
}

void close_possibly_blocking_done(void)
{
	placeholder = fd_close(placeholder);
}

/*
 * dup3(2) puts the placeholder at the number and closes the file that was there. It does the first at once, and only
 * the second may wait. The flag FD_CLOEXEC is of the number, not of the file: it tells which of the two files is there,
 * also after the process was killed at any point.
 */
static bool closer_has_begun(int fd)
{
	return !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void end_closer(struct closer *c)
{
	c->pid = 0;
	if (closer_has_begun(c->fd))
		fd_close(c->fd);
	else
		close_later(c->fd);
}

static bool start_closer(struct closer *c, int fd)
{
	if (close_possibly_blocking_prepare() < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return false;
	long pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid == 0) {
		dup3(placeholder, fd, 0);
		_exit(0);
	}
	if (pid > 0)
		*c = (struct closer){(pid_t)pid, fd};
	return pid > 0;
}

void registered_reap(void)
{
	for (unsigned i = 0; i < CLOSING_MAX; i++)
		if (closing[i].pid && waitpid(closing[i].pid, NULL, WNOHANG) != 0)
			end_closer(&closing[i]);
	for (unsigned i = 0; i < CLOSING_MAX && late.n; i++)
		if (!closing[i].pid) {
			if (!start_closer(&closing[i], late.fds[late.n - 1]))
				break;
			late.n--;
		}
}

/*
 * Returns a free place, or NULL. When all places are taken, waits for one process and kills it; not for one that has
 * had no CPU yet, as its descriptor would still be open.
 */
static struct closer *find_place(void)
{
	static unsigned last;
	registered_reap();
	for (unsigned i = 0; i < CLOSING_MAX; i++)
		if (!closing[i].pid)
			return &closing[i];
	struct closer *oldest = &closing[last++ % CLOSING_MAX];
	if (!closer_has_begun(oldest->fd) || child_process_wait(oldest->pid, clock_now() + HURRY_NS) == -ETIMEDOUT)
		return NULL;
	end_closer(oldest);
	return oldest;
}

/*
 * The target chose the file system, and close(2) of a file there may wait for ever (FUSE, flush). So a child that
 * shares our table of descriptors closes it, and only the child waits. While all places wait, or there is no process
 * to be had, a descriptor stays open and is closed later: descriptors have a limit that refuses targets, but processes
 * are shared with others, too.
 */
void close_possibly_blocking(int fd)
{
	if (fd < 0)
		return;
	struct closer *place = find_place();
	if (!place || !start_closer(place, fd))
		close_later(fd);
}

struct registered_target *registered_free(struct registered_target *r)
{
	if (!r)
		return NULL;
	for (uint32_t i = 0; i < r->n_events; i++)
		fd_close(r->event_fds[i]);
	for (unsigned i = 0; i < TARGET_FDS_ALL; i++)
		if (i == PLACE_EXE)
			close_possibly_blocking(r->fds[i]);
		else
			fd_close(r->fds[i]);
	while (r->n_memories)
		fd_close(r->memories[--r->n_memories].fd);
	fd_close(r->link.sock);
	fd_close(r->link.far);
	free(r->memories);
	free(r->events);
	free(r->event_fds);
	free(r);
	return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/perf/cpu_rings.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/perf/record.h"
#include "shim/event/perf_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define RING_PAGES_MIN 8 /* 32 KiB: less holds no sample */

struct one {
	int cpu, fd;
	struct ring *ring;
	const struct perf_event_header *next; /* peeked */
	uint64_t id, time;
	uint64_t damaged; /* not yet told by cpu_rings_damaged */
};

struct cpu_rings {
	unsigned n;
	size_t size;
	struct one *all;
};

/*
 * Opens an event that counts nothing and owns the ring; CPU-wide where we may, else on ourselves. It wakes the reader
 * when `mark` bytes are in its ring; 0: half of it, whatever its size (kernel/events/ring_buffer.c).
 */
static int open_owner(int cpu, uint32_t mark)
{
	struct perf_want want = {.role = PERF_OWNER, .kernel = true};
	struct perf_event_attr attr;
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	attr.wakeup_watermark = mark;
	int fd = perf_open(&attr, -1, cpu, 0);
	if (fd != -EACCES && fd != -EPERM)
		return fd;
	attr.exclude_kernel = 1;
	return perf_open(&attr, 0, cpu, 0);
}

static int open_owners(struct cpu_rings *r, const int *cpus, int n, uint32_t mark)
{
	for (int i = 0; i < n; i++) {
		int fd = open_owner(cpus[i], mark);
		if (fd >= 0)
			r->all[r->n++] = (struct one){.cpu = cpus[i], .fd = fd};
		else if (fd != -ENODEV) /* that one is offline by now */
			return fd;
	}
	return 0;
}

static int create_rings(struct cpu_rings **ret, uint32_t mark, struct err *e)
{
	static int cpus[CPU_RINGS_CPUS_MAX];
	int n = perf_online_cpus(cpus, CPU_RINGS_CPUS_MAX);
	struct cpu_rings *r = n > 0 ? calloc(1, sizeof(*r)) : NULL;
	if (r)
		r->all = calloc((size_t)n, sizeof(*r->all));
	if (!r || !r->all) {
		free(r);
		return err_set(e, n < 0 ? n : -ENOMEM, "cannot make rings");
	}
	int error = open_owners(r, cpus, n, mark);
	if (error < 0) {
		cpu_rings_close(r);
		return perf_explain(error, "ring on a CPU", e);
	}
	*ret = r;
	return 0;
}

int cpu_rings_none(struct cpu_rings **ret)
{
	struct cpu_rings *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	*ret = r;
	return 0;
}

int cpu_rings_reserve(struct cpu_rings **ret, struct err *e)
{
	return create_rings(ret, 0, e);
}

/* Maps a ring of this size for every CPU, or none at all: memory that the first ones take is missing for the last. */
static int map_all(struct cpu_rings *r, size_t pages)
{
	int error = 0;
	for (unsigned i = 0; error == 0 && i < r->n; i++)
		error = ring_open(r->all[i].fd, pages, &r->all[i].ring);
	if (error < 0)
		cpu_rings_unmap(r);
	return error;
}

int cpu_rings_fit(struct cpu_rings *r, char *note, size_t size, struct err *e)
{
	const size_t page_size = (size_t)sysconf(_SC_PAGESIZE), wanted = PERF_RING_BYTES / page_size;
	size_t pages = wanted;
	note[0] = 0;
	int error = map_all(r, pages);
	while ((error == -EPERM || error == -ENOMEM) && pages > RING_PAGES_MIN)
		error = map_all(r, pages /= 2);
	if (error == -EPERM || error == -ENOMEM)
		return err_say(e, error,
			"cannot map a ring of 32 KiB per CPU: the locked-memory limit (ulimit -l, "
			"kernel.perf_event_mlock_kb) is too small");
	if (error < 0)
		return perf_explain(error, "ring on a CPU", e);
	r->size = pages * page_size;
	if (pages < wanted)
		snprintf(note, size, "rings of %zu KiB instead of %u KiB per CPU: locked-memory limit", r->size >> 10,
			PERF_RING_BYTES >> 10);
	return 0;
}

/*
 * Opens rings of the wanted size. It is known before they are mapped, so they may wake the reader later than half full.
 */
static int open_whole(struct cpu_rings **ret)
{
	const size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	int error = create_rings(ret, PERF_RING_MARK, NULL);
	if (error == 0 && (error = map_all(*ret, PERF_RING_BYTES / page_size)) < 0)
		cpu_rings_close(*ret);
	if (error == 0)
		(*ret)->size = PERF_RING_BYTES;
	return error;
}

int cpu_rings_open(struct cpu_rings **ret, char *note, size_t size, struct err *e)
{
	struct cpu_rings *r;
	note[0] = 0;
	if (open_whole(ret) == 0)
		return 0;
	int error = cpu_rings_reserve(&r, e);
	if (error == 0 && (error = cpu_rings_fit(r, note, size, e)) < 0)
		cpu_rings_close(r);
	if (error == 0)
		*ret = r;
	return error;
}

struct cpu_rings *cpu_rings_close(struct cpu_rings *r)
{
	for (unsigned i = 0; r && i < r->n; i++) {
		ring_close(r->all[i].ring);
		fd_close(r->all[i].fd);
	}
	free(r ? r->all : NULL);
	free(r);
	return NULL;
}

unsigned cpu_rings_count(const struct cpu_rings *r)
{
	return r->n;
}

size_t cpu_rings_size(const struct cpu_rings *r)
{
	return r->size;
}

int cpu_rings_fd(const struct cpu_rings *r, unsigned i)
{
	return r->all[i].fd;
}

void cpu_rings_unmap(struct cpu_rings *r)
{
	for (unsigned i = 0; i < r->n; i++)
		r->all[i].ring = ring_close(r->all[i].ring);
}

int cpu_rings_map(struct cpu_rings *r)
{
	int error = 0;
	size_t pages = r->size / (size_t)sysconf(_SC_PAGESIZE);
	for (unsigned i = 0; error == 0 && i < r->n; i++) {
		r->all[i].next = NULL;
		ring_abandon(r->all[i].ring); /* mappings of rings are not inherited (VM_DONTCOPY) */
		error = ring_open(r->all[i].fd, pages, &r->all[i].ring);
		if (error < 0)
			r->all[i].ring = NULL;
	}
	return error;
}

int cpu_rings_adopt(struct cpu_rings **ret, const int *cpus, const int *fds, unsigned n, size_t size)
{
	size_t pages = size / (size_t)sysconf(_SC_PAGESIZE);
	struct cpu_rings *r = calloc(1, sizeof(*r));
	if (r)
		r->all = calloc(n, sizeof(*r->all));
	int error = r && r->all ? pages & (pages - 1) || !pages ? -EINVAL : 0 : -ENOMEM;
	for (unsigned i = 0; error == 0 && i < n; i++) {
		error = ring_open(fds[i], pages, &r->all[i].ring);
		r->all[i].cpu = cpus[i];
		r->all[i].fd = fds[i];
		r->n += error == 0;
	}
	if (error < 0) {
		for (unsigned i = 0; r && i < r->n; i++)
			ring_close(r->all[i].ring);
		free(r ? r->all : NULL);
		free(r);
		return error;
	}
	r->size = size;
	*ret = r;
	return 0;
}

int cpu_rings_cpu(const struct cpu_rings *r, unsigned i)
{
	return r->all[i].cpu;
}

int cpu_rings_has(const struct cpu_rings *r, int cpu)
{
	for (unsigned i = 0; i < r->n; i++)
		if (r->all[i].cpu == cpu)
			return 0;
	return -ENODEV;
}

int cpu_rings_redirect(struct cpu_rings *r, int cpu, int fd)
{
	for (unsigned i = 0; i < r->n; i++)
		if (r->all[i].cpu == cpu)
			return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->all[i].fd) < 0 ? -errno : 0;
	return -ENODEV;
}

static void peek_next_record(struct one *o)
{
	for (;;) {
		const uint64_t before = ring_damaged(o->ring);
		o->next = ring_peek(o->ring);
		o->damaged += ring_damaged(o->ring) - before;
		if (!o->next || record_peek(o->next, &o->id, &o->time) == 0)
			return;
		ring_take(o->ring); /* too short to be one of ours */
	}
}

/* The ring with the oldest record. CPUs are few and records cost microseconds to unwind: a scan is enough. */
static struct one *find_oldest_ring(struct cpu_rings *r)
{
	struct one *best = NULL;
	for (unsigned i = 0; i < r->n; i++)
		if (r->all[i].next && (!best || r->all[i].time < best->time))
			best = &r->all[i];
	return best;
}

bool cpu_rings_drain(struct cpu_rings *r, int64_t until, int64_t deadline, cpu_rings_fn *fn, void *arg, uint64_t *ret_n)
{
	uint64_t handed = 0;
	bool late = false;
	struct one *o;
	for (unsigned i = 0; i < r->n; i++) {
		ring_look(r->all[i].ring);
		peek_next_record(&r->all[i]);
	}
	while ((o = find_oldest_ring(r)) && o->time < (uint64_t)until && !late) {
		fn(arg, o->next, o->id);
		ring_take(o->ring);
		peek_next_record(o);
		late = ++handed % CPU_RINGS_LOOK == 0 && deadline != INT64_MAX && clock_now() >= deadline;
	}
	*ret_n = handed;
	return !o || o->time >= (uint64_t)until;
}

uint64_t cpu_rings_damaged(struct cpu_rings *r)
{
	uint64_t n = 0;
	for (unsigned i = 0; i < r->n; i++) {
		n += r->all[i].damaged;
		r->all[i].damaged = 0;
	}
	return n;
}

int64_t cpu_rings_oldest(struct cpu_rings *r)
{
	const struct one *o = find_oldest_ring(r);
	return o && o->time < INT64_MAX ? (int64_t)o->time : INT64_MAX;
}

size_t cpu_rings_left(const struct cpu_rings *r)
{
	size_t most = 0;
	for (unsigned i = 0; i < r->n; i++) {
		size_t left = ring_left(r->all[i].ring);
		most = left > most ? left : most;
	}
	return most;
}

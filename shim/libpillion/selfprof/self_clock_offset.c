/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_clock_offset.h"

#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/selfprof/self_error.h"
#include "shim/libpillion/selfprof/self_event.h"
#include "shim/libpillion/selfprof/self_mmap_alloc.h"
#include "shim/libpillion/selfprof/self_procfs.h"
#include "shim/libpillion/selfprof/self_record.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define TRIES 64

static const struct pillion_event_spec faults = {.size = sizeof(faults),
	.type = PERF_TYPE_SOFTWARE,
	.config = PERF_COUNT_SW_PAGE_FAULTS,
	.period = 1,
	.flags = PILLION_USER_ONLY};

/* The time of the last sample in its ring; 0: there is none. */
static uint64_t take_time(struct pillion_event *e)
{
	struct perf_event_mmap_page *page = e->ring.page;
	const uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	struct pillion_record r = {0};
	for (uint64_t at = page->data_tail; at != head;) {
		const struct perf_event_header *h =
			(const struct perf_event_header *)(e->ring.data + (at & (e->ring.size - 1)));
		/* the ring is read after each fault: records wrap only if 4096 is no multiple of their size */
		if (h->size < sizeof(*h) || (at & (e->ring.size - 1)) + h->size > e->ring.size)
			break;
		if (h->type != PERF_RECORD_SAMPLE || self_record_parse(h, &e->layout, &r) < 0)
			r.time = 0;
		at += h->size;
	}
	__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
	return r.time;
}

/* Measures the offset of the CPU of this thread, and its error. */
static int measure_here(struct pillion_event *e, int64_t *ret_offset, uint64_t *ret_error)
{
	char *pages = self_map(TRIES * PAGE);
	*ret_error = UINT64_MAX;
	if (!pages)
		return -ENOMEM;
	for (int i = 0; i < TRIES; i++) {
		const uint64_t before = self_clock();
		*(volatile char *)(pages + (size_t)i * PAGE) = 1;
		const uint64_t after = self_clock(), time = take_time(e);
		if (time && (after - before) / 2 < *ret_error) {
			*ret_error = (after - before) / 2;
			*ret_offset = (int64_t)(before + (after - before) / 2 - time);
		}
	}
	self_unmap(pages, TRIES * PAGE);
	return *ret_error == UINT64_MAX ? -ENODATA : 0;
}

static int measure_on(int cpu, int64_t *ret_offset, uint64_t *ret_error)
{
	uint64_t only[SELF_CPUS_MAX / 64] = {0};
	struct pillion_event e;
	only[cpu / 64] = 1ull << cpu % 64;
	int r = (int)sys_call(sched_setaffinity, 0, sizeof(only), only);
	if (r < 0)
		return r;
	r = self_event_open(&e, &faults, 0, cpu, PILLION_PERF_CLOCK);
	if (r < 0)
		return r;
	r = self_event_map(&e, PAGE);
	if (r == 0)
		r = measure_here(&e, ret_offset, ret_error);
	self_event_close(&e);
	return r;
}

int self_clock_offset_measure(struct self_clock_offset_offsets *c)
{
	uint64_t mask[SELF_CPUS_MAX / 64] = {0}, worst = 0, error = 0;
	int64_t offset = 0;
	bool is_known[SELF_CPUS_MAX] = {false};
	int known = 0, last = -ENODEV;
	const long size = sys_call(sched_getaffinity, 0, sizeof(mask), mask);
	c->n = self_cpus(c->cpus, SELF_CPUS_MAX);
	for (int i = 0; i < c->n; i++) {
		const int cpu = c->cpus[i], r = cpu < SELF_CPUS_MAX ? measure_on(cpu, &offset, &error) : -EINVAL;
		last = r < 0 ? r : last;
		if (r < 0)
			continue;
		is_known[cpu] = true;
		c->offset[cpu] = offset;
		worst = error > worst ? error : worst;
		known++;
	}
	if (size > 0)
		sys_call(sched_setaffinity, 0, size, mask);
	if (!known)
		return self_fail(last, "session: the kernel's clock cannot be measured (errno %ld)", -(long)last);
	c->on = true;
	c->error = worst;
	c->measured = self_clock();
	/* a CPU where this thread may not run: as on another one */
	for (int i = 0; i < c->n; i++)
		for (int j = 0; !is_known[c->cpus[i]] && j < c->n; j++)
			if (is_known[c->cpus[j]])
				c->offset[c->cpus[i]] = c->offset[c->cpus[j]];
	return 0;
}

uint64_t self_clock_offset_monotonic(const struct self_clock_offset_offsets *c, uint32_t cpu, uint64_t time)
{
	return c->on && cpu < SELF_CPUS_MAX ? time + (uint64_t)c->offset[cpu] : time;
}

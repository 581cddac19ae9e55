/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_reader.h"

#include "shim/libpillion/core/export.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/selfprof/self_error.h"
#include "shim/libpillion/selfprof/self_mmap_alloc.h"
#include "shim/libpillion/selfprof/self_record.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#define RECORD_MAX 65536 /* perf_event_header.size has 16 bits */
#define INTERVAL_MS 100

/* --- rings -------------------------------------------------------------------------------------------------- */

static void copy_out(const struct self_ring *r, uint64_t from, void *to, size_t n)
{
	const size_t at = from & (r->size - 1), first = r->size - at < n ? r->size - at : n;
	memcpy(to, r->data + at, first);
	memcpy((uint8_t *)to + first, r->data, n - first);
}

/* Each record from `at` to the head; returns the head. A callback may add a source, and so move them all. */
static uint64_t each_record(struct pillion_reader *r, size_t source, uint64_t at, self_record_fn *fn, void *arg)
{
	struct self_source *s = &r->sources[source];
	const struct self_ring of = s->ring, *ring = &of;
	/* pairs with the kernel's barrier before it publishes data_head (kernel/events/ring_buffer.c) */
	const uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	while (at != head) {
		struct perf_event_header h; /* records are 8-byte aligned, so it never wraps */
		copy_out(ring, at, &h, sizeof(h));
		if (h.size < sizeof(h) || h.size % 8 || h.size > head - at) {
			s->bad++;
			return head;
		}
		const size_t place = at & (ring->size - 1);
		const bool whole = place + h.size <= ring->size;
		if (!whole)
			copy_out(ring, at, r->joined, h.size);
		s->at = at + h.size;
		fn(arg, s, (const struct perf_event_header *)(whole ? ring->data + place : r->joined));
		s = &r->sources[source];
		if (!s->ring.page) /* the callback has closed its event */
			return head;
		at += h.size;
	}
	return head;
}

static void drain_one(struct pillion_reader *r, size_t source)
{
	struct perf_event_mmap_page *page = r->sources[source].ring.page;
	if (!page)
		return;
	const uint64_t tail = page->data_tail;
	const uint64_t head = each_record(r, source, tail, r->record, r->arg);
	if (r->sources[source].ring.page)
		__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

void self_reader_drain(struct pillion_reader *r)
{
	for (size_t i = 0; i < r->n; i++)
		drain_one(r, i);
}

void self_reader_scan(struct pillion_reader *r, self_record_fn *fn, void *arg)
{
	for (size_t i = 0; i < r->n; i++) {
		struct self_source *s = &r->sources[i];
		if (s->ring.page)
			s->scanned = each_record(r, i,
				s->scanned > s->ring.page->data_tail ? s->scanned : s->ring.page->data_tail, fn, arg);
	}
}

int self_reader_add(struct pillion_reader *r, const struct self_source *s)
{
	const int e = self_grow((void **)&r->sources, &r->room, (r->n + 1) * sizeof(*s));
	if (e < 0)
		return self_fail(e, "reader: no memory");
	r->sources[r->n++] = *s;
	return 0;
}

/* --- a run -------------------------------------------------------------------------------------------------- */

int self_reader_begin(struct pillion_reader *r)
{
	uint32_t none = 0;
	if (r->pid != (uint32_t)sys_call(getpid))
		return self_fail(-ECHILD, "run: it is the parent's");
	if (!__atomic_compare_exchange_n(&r->running, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return self_fail(-EBUSY, "run: it runs already, in another thread or around this callback");
	return 0;
}

void self_reader_end(struct pillion_reader *r)
{
	uint64_t count;
	sys_call(read, r->stop, &count, sizeof(count));
	__atomic_store_n(&r->running, 0, __ATOMIC_RELEASE);
}

static int fill_polls(struct pillion_reader *r)
{
	const int e = self_grow((void **)&r->polls, &r->polls_room, (r->n + 1) * sizeof(*r->polls));
	if (e < 0)
		return e;
	r->polls[0] = (struct pollfd){.fd = r->stop, .events = POLLIN};
	for (size_t i = 0; i < r->n; i++)
		r->polls[i + 1] = (struct pollfd){.fd = r->timed ? -1 : r->sources[i].poll, .events = POLLIN};
	return 0;
}

/* An event of an ended thread would wake us for ever. */
static void hang_up(struct pillion_reader *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->polls[i + 1].revents & (POLLHUP | POLLERR | POLLNVAL))
			r->sources[i].poll = -1;
}

/* True: the run is to stop. */
static bool poll_sources(struct pillion_reader *r)
{
	const long ms = r->busy ? 0 : r->interval_ms;
	const struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
	if (fill_polls(r) < 0) {
		struct pollfd stop = {.fd = r->stop, .events = POLLIN};
		return sys_call(ppoll, &stop, 1, &wait, 0, 8) > 0;
	}
	const long n = sys_call(ppoll, r->polls, r->timed ? 1 : r->n + 1, &wait, 0, 8);
	if (n <= 0)
		return false;
	if (!r->timed)
		hang_up(r);
	return r->polls[0].revents != 0;
}

int self_reader_run(struct pillion_reader *r)
{
	for (bool over = false; !over;) {
		over = poll_sources(r);
		self_reader_drain(r);
		if (r->tick)
			r->tick(r->arg);
	}
	if (r->listener.stopped)
		r->listener.stopped(r->listener.arg);
	return 0;
}

int self_reader_stop(struct pillion_reader *r)
{
	const uint64_t one = 1;
	const long n = sys_call(write, r->stop, &one, sizeof(one));
	return n == sizeof(one) || n == -EAGAIN ? 0 : (int)n;
}

/* --- opening and closing --------------------------------------------------------------------------------------- */

int self_reader_init(struct pillion_reader *r, const struct pillion_listener *l, unsigned interval_ms, bool timed)
{
	memset(r, 0, sizeof(*r));
	const int e = self_take_listener(l, &r->listener);
	if (e < 0)
		return e;
	r->interval_ms = interval_ms ? interval_ms : INTERVAL_MS;
	r->timed = timed;
	r->pid = (uint32_t)sys_call(getpid);
	r->joined = self_map(RECORD_MAX);
	if (!r->joined)
		return self_fail(-ENOMEM, "reader: no memory");
	r->stop = (int)sys_call(eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->stop >= 0)
		return 0;
	self_unmap(r->joined, RECORD_MAX);
	return r->stop == -EMFILE || r->stop == -ENFILE
		       ? self_fail_descriptors(r->stop, "reader")
		       : self_fail(r->stop, "reader: no eventfd (errno %ld)", -(long)r->stop);
}

void self_reader_done(struct pillion_reader *r)
{
	sys_call(close, r->stop);
	self_unmap(r->joined, RECORD_MAX);
	self_unmap(r->sources, r->room);
	self_unmap(r->polls, r->polls_room);
	self_unmap(r->events, r->events_room);
}

/* --- for programs ------------------------------------------------------------------------------------------- */

/* A record's size does not tell its event: the ring does or, if several write to it, the id. */
static uint32_t spec_of(const struct pillion_reader *r, const struct self_source *s, uint64_t id)
{
	uint32_t only = UINT32_MAX, writers = 0;
	for (uint32_t i = 0; i < r->n_events; i++) {
		if (r->events[i]->id == id && (r->events[i] == s->owner || r->events[i]->to == s->owner))
			return i;
		if (r->events[i] == s->owner || r->events[i]->to == s->owner) {
			only = i;
			writers++;
		}
	}
	return writers == 1 ? only : UINT32_MAX;
}

static void on_record(void *arg, struct self_source *s, const struct perf_event_header *h)
{
	struct pillion_reader *r = arg;
	struct pillion_record record;
	const uint32_t spec = spec_of(r, s, self_record_id(h));
	const struct self_layout *l = spec != UINT32_MAX ? &r->events[spec]->layout : &s->owner->layout;
	if (self_record_parse(h, l, &record) < 0) {
		s->bad++;
		return;
	}
	record.spec = spec;
	self_tell(&r->listener, &record);
}

PILLION_API int pillion_reader_open(
	const struct pillion_listener *l, unsigned interval_ms, int timed, struct pillion_reader **ret)
{
	struct pillion_reader *r = self_map(sizeof(*r));
	if (!r)
		return self_fail(-ENOMEM, "reader: no memory");
	const int e = self_reader_init(r, l, interval_ms, timed);
	if (e < 0) {
		self_unmap(r, sizeof(*r));
		return e;
	}
	r->record = on_record;
	r->arg = r;
	*ret = r;
	return 0;
}

PILLION_API int pillion_reader_add(struct pillion_reader *r, struct pillion_event *e)
{
	if (!e->ring.page && !e->to)
		return self_fail(-EINVAL, "reader: the event has no ring: map it, or redirect it to one that has");
	int error = self_grow((void **)&r->events, &r->events_room, (r->n_events + 1) * sizeof(e));
	if (error < 0)
		return self_fail(error, "reader: no memory");
	if (e->ring.page)
		error = self_reader_add(r, &(struct self_source){.ring = e->ring, .owner = e, .poll = e->fd});
	if (error == 0)
		r->events[r->n_events++] = e;
	return error;
}

PILLION_API int pillion_reader_run(struct pillion_reader *r)
{
	const int e = self_reader_begin(r);
	if (e < 0)
		return e;
	self_reader_run(r);
	self_reader_end(r);
	return 0;
}

PILLION_API int pillion_reader_stop(struct pillion_reader *r)
{
	return self_reader_stop(r);
}

PILLION_API struct pillion_reader *pillion_reader_close(struct pillion_reader *r)
{
	if (r) {
		self_reader_done(r);
		self_unmap(r, sizeof(*r));
	}
	return NULL;
}

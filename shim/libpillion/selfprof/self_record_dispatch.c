/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_mmap_alloc.h"
#include "shim/libpillion/selfprof/self_record.h"
#include "shim/libpillion/selfprof/self_session.h"

#define LATE_LOSS_NS 1000000000u
#define SIDEBAND UINT32_MAX /* a kind of its own for self_heard */

static struct pillion_event *event_of(const struct pillion_session *s, uint64_t id)
{
	size_t low = 0, high = s->open.n;
	while (low < high) {
		const size_t mid = (low + high) / 2;
		if (s->open.events[mid]->id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->open.n && s->open.events[low]->id == id ? s->open.events[low] : NULL;
}

static void layout_of(const struct pillion_session *s, uint32_t spec, struct self_layout *ret)
{
	const struct pillion_event_spec *from = &s->events_spec[spec];
	*ret = (struct self_layout){.fields = from->fields,
		.tail = s->tail[spec],
		.regs = from->fields & PILLION_REGS ? from->regs ? from->regs : SELF_REGS : 0,
		.stack = from->stack,
		.shared = self_is_shared(from)};
}

static bool parse_as_spec(
	const struct pillion_session *s, const struct perf_event_header *h, uint32_t spec, struct pillion_record *ret)
{
	struct self_layout l;
	layout_of(s, spec, &l);
	if (self_record_parse(h, &l, ret) < 0)
		return false;
	ret->spec = spec;
	return true;
}

/*
 * A sample of a counter with shared ids (self_event.h): its length tells the spec. *e becomes NULL if the id tells
 * another.
 */
static bool parse_shared(const struct pillion_session *s, const struct perf_event_header *h, struct pillion_event **e,
	struct pillion_record *ret)
{
	if (*e && parse_as_spec(s, h, (*e)->spec, ret))
		return true;
	*e = NULL;
	for (uint32_t i = 0; i < s->spec.n_events; i++)
		if (self_is_shared(&s->events_spec[i]) && parse_as_spec(s, h, i, ret))
			return true;
	return false;
}

static bool parse_record(const struct pillion_session *s, const struct self_source *source,
	const struct perf_event_header *h, struct pillion_event **ret_event, struct pillion_record *ret)
{
	struct pillion_event *e = source->only ? source->only : event_of(s, self_record_id(h));
	const struct self_layout none = {0};
	bool well;
	if (h->type != PERF_RECORD_SAMPLE)
		well = self_record_parse(h, &none, ret) == 0;
	else if (source->only || (e && !e->layout.shared))
		well = parse_as_spec(s, h, e->spec, ret);
	else
		well = parse_shared(s, h, &e, ret);
	ret->time = self_clock_offset_monotonic(&s->clock, ret->cpu, ret->time);
	*ret_event = e;
	return well;
}

/* --- the events of threads -------------------------------------------------------------------------------------- */

static bool is_ours(const struct pillion_session *s, uint32_t pid)
{
	return pid == s->pid;
}

/* The thread is not within clone(2): threads that it makes from here on have all its events. */
static bool is_out(const struct pillion_record *r)
{
	const bool user = (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
	return (r->type == PERF_RECORD_SAMPLE && user) || r->type == PERF_RECORD_MMAP || r->type == PERF_RECORD_MMAP2;
}

/* The record of a thread without events may be among them. */
static void learn_of_loss(struct pillion_session *s)
{
	if (self_clock() - s->last_own < LATE_LOSS_NS)
		s->look_again = true;
}

static void update_threads(struct pillion_session *s, const struct pillion_event *e, const struct pillion_record *r)
{
	if (e && e->last && e->tid != r->tid)
		self_threads_heir(&s->threads, r->tid);
	if (is_out(r))
		self_threads_out(&s->threads, r->tid, r->time);
	if (r->type == PERF_RECORD_LOST)
		learn_of_loss(s);
	if ((r->type != PERF_RECORD_FORK && r->type != PERF_RECORD_EXIT) || !is_ours(s, r->of_pid))
		return;
	if (r->type == PERF_RECORD_EXIT) {
		self_threads_exit(&s->threads, r->of_tid, r->time);
		return;
	}
	self_event_dedup_forget(&s->heard, r->of_tid, r->time);
	if (self_threads_fork(&s->threads, r->of_tid, r->parent_tid, r->time) == SELF_UNSURE)
		s->unsure = true;
}

void self_foresee(void *session, struct self_source *source, const struct perf_event_header *h)
{
	struct pillion_session *s = session;
	struct pillion_event *e;
	struct pillion_record r;
	if (h->type != PERF_RECORD_LOST && parse_record(s, source, h, &e, &r) && is_ours(s, r.pid))
		update_threads(s, e, &r);
}

/* --- no thread twice ------------------------------------------------------------------------------------------- */

/* Closes it later: that takes the kernel long if many threads have inherited it, and rings go on filling. */
static void find_superfluous(struct pillion_session *s, struct pillion_event *e)
{
	if (e->superfluous || self_grow((void **)&s->superfluous.events, &s->superfluous.room,
				      (s->superfluous.n + 1) * sizeof(e)) < 0)
		return;
	e->superfluous = true;
	s->superfluous.events[s->superfluous.n++] = e;
}

void self_close_superfluous(struct pillion_session *s, uint64_t end)
{
	while (s->superfluous.n && self_clock() < end) {
		struct pillion_event *e = s->superfluous.events[--s->superfluous.n];
		if (e->fd < 0 && !e->ring.page)
			continue;
		self_session_close_event(s, e);
		s->status.superfluous++;
	}
}

/* The events of a thread lie together. */
static struct pillion_event *own_event(const struct pillion_session *s, const struct pillion_record *r)
{
	const struct self_thread *t = self_threads_find(&s->threads, r->tid);
	for (size_t i = t && t->having == SELF_OWN ? t->first : SIZE_MAX;
		i < s->open.n && s->open.events[i]->tid == r->tid; i++)
		if (s->open.events[i]->cpu == (int)r->cpu && s->open.events[i]->spec == r->spec)
			return s->open.events[i];
	return NULL;
}

/* A thread with the side-band event has all events that were opened with it. */
static void find_all_superfluous(struct pillion_session *s, struct pillion_event *e)
{
	for (size_t i = 0; !e->superfluous && i < s->open.n; i++)
		if (s->open.events[i]->tid == e->tid && s->open.events[i]->cpu == e->cpu && s->open.events[i] != e)
			find_superfluous(s, s->open.events[i]);
	find_superfluous(s, e);
}

static bool is_of_who_has_it(uint32_t type)
{
	return type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT || type == PERF_RECORD_COMM ||
	       type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2 || type == PERF_RECORD_SWITCH;
}

/* In a ring of its own an event is known without its id. */
static bool shares_ids(const struct pillion_session *s, uint32_t spec)
{
	return s->ids_shared && !s->timed && self_is_shared(&s->events_spec[spec]);
}

static bool is_taken(struct pillion_session *s, struct pillion_event *e, struct pillion_record *r)
{
	const bool sample = r->type == PERF_RECORD_SAMPLE;
	struct pillion_event *superfluous;
	if (!s->strategy->follow || (!sample && !is_of_who_has_it(r->type)))
		return true;
	/* a tracepoint's event on one thread may report the work of another (perf_tp_event) */
	if (sample && s->events_spec[r->spec].type == PERF_TYPE_TRACEPOINT)
		return !e || e->fd >= 0 || e->ring.page;
	const uint32_t spec = r->spec;
	r->spec = sample ? spec : SIDEBAND;
	const enum self_verdict v = self_heard(&s->heard, r, e, sample && shares_ids(s, spec), &superfluous);
	r->spec = spec;
	if (v == SELF_LEAVE_TWICE)
		superfluous = own_event(s, r);
	if (superfluous && sample)
		find_superfluous(s, superfluous);
	else if (superfluous)
		find_all_superfluous(s, superfluous);
	s->status.twice += v != SELF_TAKE;
	return v == SELF_TAKE;
}

void self_demux(void *session, struct self_source *source, const struct perf_event_header *h)
{
	struct pillion_session *s = session;
	struct pillion_event *e;
	struct pillion_record r;
	if (!parse_record(s, source, h, &e, &r)) {
		source->bad++;
		return;
	}
	if (r.type == PERF_RECORD_LOST || r.type == PERF_RECORD_LOST_SAMPLES)
		s->status.lost += r.lost;
	else if (r.type != PERF_RECORD_THROTTLE && r.type != PERF_RECORD_UNTHROTTLE && !is_ours(s, r.pid))
		return; /* a child's, if the kernel cannot leave them out */
	if (!is_taken(s, e, &r))
		return;
	if (s->strategy->follow && source->at > source->scanned)
		update_threads(s, e, &r);
	s->status.records++;
	s->status.samples += r.type == PERF_RECORD_SAMPLE;
	self_tell(&s->reader.listener, &r);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_event_dedup.h"

#include "shim/libpillion/selfprof/self_event.h"

struct self_said {
	struct self_said *next;
	uint32_t tid, cpu, spec;
	struct pillion_event *by; /* NULL: not known yet, or closed */
	uint64_t time, ip, addr;  /* of the last record that was taken */
	uint64_t until;		  /* records of `by` up to this time came by another event, too */
};

static struct self_said *find_dedup_entry(struct self_event_dedup *h, const struct pillion_record *r)
{
	struct self_said *s = h->buckets[r->tid % SELF_EVENT_DEDUP_BUCKETS];
	while (s && (s->tid != r->tid || s->cpu != r->cpu || s->spec != r->spec))
		s = s->next;
	return s;
}

static struct self_said *add_dedup_entry(
	struct self_event_dedup *h, const struct pillion_record *r, struct pillion_event *e)
{
	struct self_said *s = h->spare, **bucket = &h->buckets[r->tid % SELF_EVENT_DEDUP_BUCKETS];
	if (h->n >= SELF_EVENT_DEDUP_MAX)
		return NULL;
	if (s)
		h->spare = s->next;
	else
		s = self_take(&h->pool, sizeof(*s));
	if (!s)
		return NULL;
	*s = (struct self_said){*bucket, r->tid, r->cpu, r->spec, e, r->time, r->ip, r->addr, 0};
	*bucket = s;
	h->n++;
	return s;
}

static bool is_same(const struct self_said *s, const struct pillion_record *r)
{
	return s->time == r->time && s->ip == r->ip && s->addr == r->addr;
}

static bool is_closed(const struct pillion_event *e)
{
	return e->fd < 0 && !e->ring.page;
}

static void store_last_record(struct self_said *s, const struct pillion_record *r)
{
	s->time = r->time;
	s->ip = r->ip;
	s->addr = r->addr;
}

/* The difference, either way: separate rings are read one after the other. */
static uint64_t compute_distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Two events hear one thread: keeps the earlier one. Returns the other. */
static struct pillion_event *choose_superfluous(struct self_said *s, struct pillion_event *e)
{
	struct pillion_event *superfluous = e;
	if (e->id < s->by->id) {
		/* the other one's records up to here are those of `e`, which has reported them or will */
		s->until = s->time;
		superfluous = s->by;
		s->by = e;
	}
	return superfluous;
}

enum self_verdict self_heard(struct self_event_dedup *h, const struct pillion_record *r, struct pillion_event *e,
	bool shared, struct pillion_event **ret_superfluous)
{
	struct self_said *s = find_dedup_entry(h, r);
	*ret_superfluous = NULL;
	if (!s) {
		add_dedup_entry(h, r, e);
		return SELF_TAKE;
	}
	if (shared && is_same(s, r))
		return SELF_LEAVE_TWICE;
	if (!s->by || is_closed(s->by) || compute_distance(r->time, s->time) > SELF_EVENT_DEDUP_NS) {
		/* the records up to here came by the closed event */
		s->until =
			compute_distance(r->time, s->time) > SELF_EVENT_DEDUP_NS || !s->by || s->by == e ? 0 : s->time;
		s->by = e && !is_closed(e) ? e : s->by;
	} else if (e && e != s->by) {
		*ret_superfluous = choose_superfluous(s, e);
		if (!shared)
			return SELF_LEAVE;
	}
	if (!shared && r->time <= s->until)
		return SELF_LEAVE;
	store_last_record(s, r);
	return SELF_TAKE;
}

/* Drops entries of a bucket from before that time: of this thread, or of all (0). */
static void remove_old_entries(struct self_event_dedup *h, uint32_t bucket, uint32_t tid, uint64_t before)
{
	for (struct self_said **at = &h->buckets[bucket]; *at;) {
		struct self_said *s = *at;
		if ((tid && s->tid != tid) || s->time >= before) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		s->next = h->spare;
		h->spare = s;
		h->n--;
	}
}

void self_event_dedup_forget(struct self_event_dedup *h, uint32_t tid, uint64_t time)
{
	remove_old_entries(h, tid % SELF_EVENT_DEDUP_BUCKETS, tid, time);
}

void self_event_dedup_sweep(struct self_event_dedup *h, uint64_t now)
{
	for (uint32_t i = 0; i < SELF_EVENT_DEDUP_BUCKETS && now > SELF_EVENT_DEDUP_NS; i++)
		remove_old_entries(h, i, 0, now - SELF_EVENT_DEDUP_NS);
}

void self_event_dedup_done(struct self_event_dedup *h)
{
	self_pool_done(&h->pool);
}

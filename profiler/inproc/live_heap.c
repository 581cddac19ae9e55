/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/live_heap.h"

#include "oci/base/array.h"

#include <math.h>
#include <stdlib.h>

#define ROOM_FIRST 256
#define ROOM_MAX (4u << 20) /* further allocations are in use at an unknown place */
#define SORT_OUT 65536	    /* at so many, and twice as many as were in use: some have been freed */

struct live_heap_entry {
	uint64_t id, bytes;
	uint32_t sample;
	bool used;
};

double live_heap_stands_for(uint64_t bytes, uint64_t mean)
{
	const double chance = -expm1(-(double)bytes / (double)mean);
	return chance > 0 ? 1 / chance : 0;
}

uint64_t live_heap_parts(double objects)
{
	const double n = objects * LIVE_HEAP_PART + 0.5;
	return n < (double)INT64_MAX / LIVE_HEAP_PART ? (uint64_t)n : INT64_MAX / LIVE_HEAP_PART;
}

uint64_t live_heap_scaled(double by, uint64_t bytes)
{
	const double n = by * (double)bytes + 0.5;
	return n < (double)(1ull << 60) ? (uint64_t)n : 1ull << 60;
}

/* --- by the slots -------------------------------------------------------------------------------------------- */

static int by_id(const void *x, const void *y)
{
	const struct live_heap_entry *a = x, *b = y;
	return a->id < b->id ? -1 : a->id > b->id;
}

static struct live_heap_entry *find_allocation(const struct live_heap *u, uint64_t id)
{
	size_t low = 0, high = u->n;
	while (low < high) {
		const size_t mid = (low + high) / 2;
		if (u->list[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < u->n && u->list[low].id == id ? &u->list[low] : NULL;
}

struct looking {
	struct live_heap *u;
	uint64_t mean;
	struct aggregate *counts; /* NULL: nothing is counted */
};

static void on_slot(void *arg, const struct shm_slot *s)
{
	static const struct stack_frame lost = {.kind = FRAME_SPECIAL, .name = frame_lost};
	static const struct sample_origin nobody = {.process = "", .thread = "", .exe = ""};
	const struct looking *l = arg;
	struct live_heap_entry *h = find_allocation(l->u, s->id);
	if (h) {
		l->u->n_used += !h->used;
		h->used = true;
	}
	if (!l->counts)
		return;
	const double by = live_heap_stands_for(s->bytes, l->mean);
	if (h)
		aggregate_count(l->counts, h->sample, live_heap_parts(by), live_heap_scaled(by, s->bytes));
	else
		aggregate_add(l->counts, &lost, 1, &nobody, live_heap_parts(by), live_heap_scaled(by, s->bytes));
}

/* Sorts by id; drops the allocations that are not in use. */
static void sort_out(struct shm_reader *inbox, struct looking *l)
{
	struct live_heap *u = l->u;
	size_t kept = 0;
	if (u->n)
		qsort(u->list, u->n, sizeof(u->list[0]), by_id);
	for (size_t i = 0; i < u->n; i++)
		u->list[i].used = false;
	u->n_used = 0;
	if (shm_reader_slots(inbox, on_slot, l) < 0)
		return;
	for (size_t i = 0; i < u->n; i++)
		if (u->list[i].used)
			u->list[kept++] = u->list[i];
	u->n = kept;
	u->anew = true;
}

void live_heap_add(struct live_heap *u, struct shm_reader *inbox, uint64_t id, uint64_t bytes, int64_t sample)
{
	if (sample < 0)
		return;
	if (inbox && u->n == u->room && u->n >= SORT_OUT && u->n >= 2 * u->n_used)
		sort_out(inbox, &(struct looking){.u = u});
	if (u->n < ROOM_MAX && array_reserve(&u->list, &u->room, u->n + 1, sizeof(u->list[0]), ROOM_FIRST) == 0)
		u->list[u->n++] = (struct live_heap_entry){id, bytes, (uint32_t)sample, false};
}

void live_heap_count(struct live_heap *u, struct shm_reader *inbox, uint64_t mean, struct aggregate *a)
{
	if (inbox) {
		sort_out(inbox, &(struct looking){u, mean, a});
		return;
	}
	for (size_t i = 0; i < u->n; i++) {
		const double by = live_heap_stands_for(u->list[i].bytes, mean);
		aggregate_count(a, u->list[i].sample, live_heap_parts(by), live_heap_scaled(by, u->list[i].bytes));
	}
}

void live_heap_forget(struct live_heap *u)
{
	u->n = 0;
	u->anew = true;
}

void live_heap_move(struct live_heap *u, const struct aggregate *from, struct aggregate *to)
{
	static struct aggregate_sample s;
	static struct stack_frame frames[AGGREGATE_STACK_MAX];
	size_t kept = 0;
	for (size_t i = 0; from != to && i < u->n; i++) {
		aggregate_sample(from, u->list[i].sample, &s);
		for (size_t k = 0; k < s.n; k++)
			frames[k] = *aggregate_frame(from, s.frames[k]);
		const int64_t at = aggregate_put_of(to, frames, s.n, &s.who);
		if (at < 0)
			continue;
		u->list[kept] = u->list[i];
		u->list[kept++].sample = (uint32_t)at;
	}
	u->n = kept;
	u->anew = true;
}

void live_heap_take(struct live_heap *u, struct live_heap *from)
{
	live_heap_done(u);
	*u = *from;
	u->anew = true;
	*from = (struct live_heap){0};
}

void live_heap_done(struct live_heap *u)
{
	free(u->list);
	*u = (struct live_heap){0};
}

/* --- in a journal -------------------------------------------------------------------------------------------- */

bool live_heap_unsaved(const struct live_heap *u)
{
	return u->anew || u->n_saved != u->n;
}

void live_heap_save(struct live_heap *u, struct journal *j)
{
	const size_t from = u->anew ? 0 : u->n_saved;
	journal_number(j, u->anew);
	journal_number(j, u->n - from);
	for (size_t i = from; i < u->n; i++) {
		journal_number(j, u->list[i].id);
		journal_number(j, u->list[i].bytes);
		journal_number(j, u->list[i].sample);
	}
	u->n_saved = u->n;
	u->anew = false;
}

void live_heap_load(struct live_heap *u, struct journal_reader *s, const struct aggregate *a)
{
	const bool anew = saved_number(s);
	const size_t n = saved_count(s, 3);
	s->bad |= n && !a;
	if (!s->bad && anew)
		u->n = 0;
	for (size_t i = 0; i < n && !s->bad; i++) {
		const uint64_t id = saved_number(s), bytes = saved_number(s);
		const uint64_t sample = saved_below(s, aggregate_samples(a));
		if (!s->bad)
			live_heap_add(u, NULL, id, bytes, (int64_t)sample);
	}
	u->anew = true;
}

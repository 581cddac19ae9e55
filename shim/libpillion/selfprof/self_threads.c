/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/selfprof/self_threads.h"

#include "shim/libpillion/selfprof/self_mmap_alloc.h"

#include <errno.h>

#define FIRST_PLACES 512

static size_t place_of(const struct self_threads *t, uint32_t tid)
{
	return (tid * 2654435761u) & (t->places - 1);
}

struct self_thread *self_threads_find(const struct self_threads *t, uint32_t tid)
{
	for (size_t i = t->places ? place_of(t, tid) : 0; t->places && t->table[i].tid; i = (i + 1) & (t->places - 1))
		if (t->table[i].tid == tid)
			return &t->table[i];
	return NULL;
}

static struct self_thread *insert_thread(struct self_threads *t, const struct self_thread *thread)
{
	size_t i = place_of(t, thread->tid);
	while (t->table[i].tid)
		i = (i + 1) & (t->places - 1);
	t->table[i] = *thread;
	t->used++;
	return &t->table[i];
}

static int grow_table(struct self_threads *t)
{
	struct self_threads wider = {.places = t->places ? 2 * t->places : FIRST_PLACES, .look = t->look};
	wider.bytes = wider.places * sizeof(*wider.table);
	wider.table = self_map(wider.bytes);
	if (!wider.table)
		return -ENOMEM;
	for (size_t i = 0; i < t->places; i++)
		if (t->table[i].tid)
			insert_thread(&wider, &t->table[i]);
	self_unmap(t->table, t->bytes);
	*t = wider;
	return 0;
}

static struct self_thread *ensure_thread(struct self_threads *t, uint32_t tid)
{
	struct self_thread *had = self_threads_find(t, tid);
	if (had || (t->used * 2 >= t->places && grow_table(t) < 0))
		return had;
	return insert_thread(t, &(struct self_thread){.tid = tid});
}

/* Entries behind it may have been put off by it (Knuth, algorithm 6.4R). */
static void remove_thread(struct self_threads *t, struct self_thread *thread)
{
	size_t hole = (size_t)(thread - t->table);
	t->table[hole].tid = 0;
	t->used--;
	for (size_t i = (hole + 1) & (t->places - 1); t->table[i].tid; i = (i + 1) & (t->places - 1)) {
		const size_t home = place_of(t, t->table[i].tid);
		if (((i - home) & (t->places - 1)) < ((i - hole) & (t->places - 1)))
			continue;
		t->table[hole] = t->table[i];
		t->table[i].tid = 0;
		hole = i;
	}
}

int self_threads_own(struct self_threads *t, uint32_t tid, enum self_having having, uint64_t now, uint32_t first)
{
	struct self_thread *thread = ensure_thread(t, tid);
	if (!thread)
		return -ENOMEM;
	*thread = (struct self_thread){
		.tid = tid, .having = (uint8_t)having, .look = t->look, .first = first, .since = now};
	return 0;
}

static void be_out(struct self_thread *thread, uint64_t time)
{
	if (thread->having != SELF_OWN || time < thread->since || (thread->was_out && thread->out <= time))
		return;
	thread->was_out = 1;
	thread->out = time;
}

void self_threads_heir(struct self_threads *t, uint32_t tid)
{
	struct self_thread *thread = self_threads_find(t, tid);
	if (thread && thread->having == SELF_UNSURE)
		thread->having = SELF_INHERITED;
}

void self_threads_out(struct self_threads *t, uint32_t tid, uint64_t time)
{
	struct self_thread *thread = self_threads_find(t, tid);
	if (thread)
		be_out(thread, time);
}

/* Whether a thread that it makes at that time, by that thread's record, has all its events. */
static bool hands_down(struct self_thread *parent, uint64_t time)
{
	if (!parent || time < parent->since)
		return false;
	if (parent->having == SELF_INHERITED)
		return true;
	if (parent->having != SELF_OWN)
		return false;
	const bool sure = parent->was_out && time > parent->out;
	be_out(parent, time);
	return sure;
}

enum self_having self_threads_fork(struct self_threads *t, uint32_t tid, uint32_t parent, uint64_t time)
{
	const enum self_having having = hands_down(self_threads_find(t, parent), time) ? SELF_INHERITED : SELF_UNSURE;
	struct self_thread *thread = ensure_thread(t, tid);
	if (!thread)
		return having;
	if (thread->having != SELF_NOT_KNOWN && thread->since >= time)
		return thread->having; /* the thread was seen, and given its own, before its record was read */
	*thread = (struct self_thread){
		.tid = tid, .having = (uint8_t)having, .look = t->look, .parent = parent, .since = time};
	return having;
}

void self_threads_exit(struct self_threads *t, uint32_t tid, uint64_t time)
{
	struct self_thread *thread = self_threads_find(t, tid);
	if (!thread || thread->since > time)
		return;
	thread->ended = 1;
	thread->end = time;
}

size_t self_threads_settle(struct self_threads *t)
{
	size_t unsure, before = SIZE_MAX;
	do { /* one that is sure now may have made other threads */
		unsure = 0;
		for (size_t i = 0; i < t->places; i++) {
			struct self_thread *thread = &t->table[i];
			if (!thread->tid || thread->having != SELF_UNSURE || thread->ended)
				continue;
			if (hands_down(self_threads_find(t, thread->parent), thread->since))
				thread->having = SELF_INHERITED;
			unsure += thread->having == SELF_UNSURE;
		}
		if (unsure == before)
			break;
		before = unsure;
	} while (unsure);
	return unsure;
}

void self_threads_look(struct self_threads *t)
{
	t->look++;
}

enum self_having self_threads_seen(struct self_threads *t, uint32_t tid, uint64_t now)
{
	struct self_thread *thread = self_threads_find(t, tid);
	if (!thread || (thread->ended && thread->end + SELF_ENDED_NS < now))
		return SELF_NOT_KNOWN; /* or another thread by the same number */
	thread->look = t->look;
	return thread->having;
}

static bool is_forgotten(const struct self_threads *t, const struct self_thread *thread, uint64_t began)
{
	if (thread->ended)
		return thread->end + SELF_ENDED_NS < began;
	return thread->look != t->look && thread->since < began; /* its record was lost */
}

void self_threads_looked(struct self_threads *t, uint64_t began)
{
	for (size_t i = 0; i < t->places;)
		if (t->table[i].tid && is_forgotten(t, &t->table[i], began))
			remove_thread(t, &t->table[i]);
		else
			i++;
}

size_t self_threads_count(const struct self_threads *t, enum self_having having)
{
	size_t n = 0;
	for (size_t i = 0; i < t->places; i++)
		n += t->table[i].tid && !t->table[i].ended && t->table[i].having == having;
	return n;
}

void self_threads_done(struct self_threads *t)
{
	self_unmap(t->table, t->bytes);
	*t = (struct self_threads){0};
}

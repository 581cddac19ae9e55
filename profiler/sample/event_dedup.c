/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/event_dedup.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS 4096
#define ENTRIES_MAX 65536 /* where records are lost, so are ends of threads */

struct entry {
	uint32_t tid, cpu, kind;
	struct dedup_entry by;
	struct entry *next;
};

struct event_dedup {
	size_t count;
	struct entry *buckets[BUCKETS]; /* by tid, so that all of a thread go together */
};

int event_dedup_new(struct event_dedup **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct event_dedup *event_dedup_free(struct event_dedup *h)
{
	for (size_t i = 0; h && i < BUCKETS; i++)
		for (struct entry *e = h->buckets[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
	free(h);
	return NULL;
}

struct dedup_entry *event_dedup_by(struct event_dedup *h, uint32_t tid, uint32_t cpu, uint32_t kind)
{
	struct entry **bucket = &h->buckets[tid % BUCKETS];
	for (struct entry *e = *bucket; e; e = e->next)
		if (e->tid == tid && e->cpu == cpu && e->kind == kind)
			return &e->by;
	struct entry *e = h->count < ENTRIES_MAX ? calloc(1, sizeof(*e)) : NULL;
	if (!e)
		return NULL;
	*e = (struct entry){.tid = tid, .cpu = cpu, .kind = kind, .next = *bucket};
	*bucket = e;
	h->count++;
	return &e->by;
}

void event_dedup_forget(struct event_dedup *h, uint32_t tid)
{
	for (struct entry **at = &h->buckets[tid % BUCKETS]; *at;) {
		struct entry *e = *at;
		if (e->tid != tid) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		h->count--;
		free(e);
	}
}

size_t event_dedup_count(const struct event_dedup *h)
{
	return h->count;
}

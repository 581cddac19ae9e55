/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/perf/open_events.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS 65536 /* ids are counted up by the kernel: they spread evenly */

struct open_events {
	struct open_event *buckets[BUCKETS];
};

int open_events_new(struct open_events **ret)
{
	*ret = calloc(1, sizeof(**ret)); /* untouched buckets cost nothing */
	return *ret ? 0 : -ENOMEM;
}

struct open_events *open_events_free(struct open_events *s)
{
	free(s);
	return NULL;
}

struct open_event *open_events_find(const struct open_events *s, uint64_t id)
{
	struct open_event *st = s->buckets[id % BUCKETS];
	while (st && st->id != id)
		st = st->next_of_bucket;
	return st;
}

int open_events_add(struct open_events *s, struct open_event *st)
{
	if (open_events_find(s, st->id))
		return -EEXIST;
	st->next_of_bucket = s->buckets[st->id % BUCKETS];
	s->buckets[st->id % BUCKETS] = st;
	return 0;
}

void open_events_remove(struct open_events *s, struct open_event *st)
{
	for (struct open_event **at = &s->buckets[st->id % BUCKETS]; *at; at = &(*at)->next_of_bucket)
		if (*at == st) {
			*at = st->next_of_bucket;
			return;
		}
}

#include "profiler/perf/open_events.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS 65536 /* ids are counted up by the kernel: they spread evenly */

struct streams {
	struct stream *buckets[BUCKETS];
};

int streams_new(struct streams **ret)
{
	*ret = calloc(1, sizeof(**ret)); /* untouched buckets cost nothing */
	return *ret ? 0 : -ENOMEM;
}

struct streams *streams_free(struct streams *s)
{
	free(s);
	return NULL;
}

struct stream *streams_find(const struct streams *s, uint64_t id)
{
	struct stream *st = s->buckets[id % BUCKETS];
	while (st && st->id != id)
		st = st->next_of_bucket;
	return st;
}

int streams_add(struct streams *s, struct stream *st)
{
	if (streams_find(s, st->id))
		return -EEXIST;
	st->next_of_bucket = s->buckets[st->id % BUCKETS];
	s->buckets[st->id % BUCKETS] = st;
	return 0;
}

void streams_remove(struct streams *s, struct stream *st)
{
	for (struct stream **at = &s->buckets[st->id % BUCKETS]; *at; at = &(*at)->next_of_bucket)
		if (*at == st) {
			*at = st->next_of_bucket;
			return;
		}
}

#include "profiler/sample/event_dedup.h"

#include <errno.h>
#include <stdlib.h>

#define BUCKETS 4096
#define ENTRIES_MAX 65536 /* where records are lost, ends of threads are */

struct entry {
	uint32_t tid, cpu, kind;
	struct heard_by by;
	struct entry *next;
};

struct heard {
	size_t count;
	struct entry *buckets[BUCKETS]; /* by tid, so that all of a thread go together */
};

int heard_new(struct heard **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct heard *heard_free(struct heard *h)
{
	for (size_t i = 0; h && i < BUCKETS; i++)
		for (struct entry *e = h->buckets[i], *next; e; e = next) {
			next = e->next;
			free(e);
		}
	free(h);
	return NULL;
}

struct heard_by *heard_by(struct heard *h, uint32_t tid, uint32_t cpu, uint32_t kind)
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

void heard_forget(struct heard *h, uint32_t tid)
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

size_t heard_count(const struct heard *h)
{
	return h->count;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/perf/ring.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RECORD_MAX 65536 /* perf_event_header.size is 16 bits */

struct ring {
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	size_t size, mapped; /* bytes */
	uint64_t head, tail, damaged;
	uint16_t peeked; /* size of the record under ring_peek */
	uint8_t *joined;
	bool is_copy; /* the peeked record lies in `joined` */
};

int ring_open(int fd, size_t pages, struct ring **ret)
{
	size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
	struct ring *r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->joined = malloc(RECORD_MAX);
	r->mapped = (pages + 1) * page_size;
	void *at = r->joined ? mmap(NULL, r->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	if (at == MAP_FAILED) {
		int e = r->joined ? -errno : -ENOMEM;
		free(r->joined);
		free(r);
		return e;
	}
	r->page = at;
	r->data = (const uint8_t *)at + page_size;
	r->size = pages * page_size;
	r->head = r->tail = r->page->data_tail;
	*ret = r;
	return 0;
}

struct ring *ring_close(struct ring *r)
{
	if (r) {
		munmap(r->page, r->mapped);
		free(r->joined);
		free(r);
	}
	return NULL;
}

void ring_abandon(struct ring *r)
{
	if (r)
		free(r->joined);
	free(r);
}

void ring_look(struct ring *r)
{
	/* pairs with the kernel's barrier before it publishes data_head (kernel/events/ring_buffer.c) */
	r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
}

static void copy_out(const struct ring *r, uint64_t from, void *to, size_t n)
{
	size_t at = from & (r->size - 1), first = r->size - at < n ? r->size - at : n;
	memcpy(to, r->data + at, first);
	memcpy((uint8_t *)to + first, r->data, n - first);
}

const struct perf_event_header *ring_peek(struct ring *r)
{
	struct perf_event_header h;
	if (r->tail == r->head)
		return NULL;
	/* A record is 8-byte aligned, so its header never wraps. Copied once, so the checked size is the one used. */
	copy_out(r, r->tail, &h, sizeof(h));
	if (h.size < sizeof(h) || (h.size | r->tail) % 8 || r->head - r->tail > r->size || h.size > r->head - r->tail) {
		r->damaged++;
		r->peeked = 0;
		r->tail = r->head;
		__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
		return NULL;
	}
	r->peeked = h.size;
	size_t at = r->tail & (r->size - 1);
	r->is_copy = at + h.size > r->size;
	if (!r->is_copy)
		return (const struct perf_event_header *)(r->data + at);
	copy_out(r, r->tail, r->joined, h.size);
	return (const struct perf_event_header *)r->joined;
}

void ring_take(struct ring *r)
{
	/*
	 * Keys and tokens lie on stacks: no copy of ours outlives its use. The kernel's pages cannot be wiped: the
	 * kernel maps them read-only whatever we ask for (SIGBUS), and writes over them itself.
	 */
	if (r->is_copy)
		explicit_bzero(r->joined, r->peeked);
	r->is_copy = false;
	r->tail += r->peeked;
	r->peeked = 0;
	__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
}

size_t ring_left(const struct ring *r)
{
	uint64_t left = __atomic_load_n(&r->page->data_head, __ATOMIC_RELAXED) - r->tail;
	return left < r->size ? (size_t)left : r->size;
}

uint64_t ring_damaged(const struct ring *r)
{
	return r->damaged;
}

uint64_t ring_bytes(const struct ring *r)
{
	return r->tail;
}

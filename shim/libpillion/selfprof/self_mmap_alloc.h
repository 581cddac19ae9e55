/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_mmap_alloc - memory of the self-profiling objects, by mmap(2): none of it is the allocator's, since its calls
 * may be the ones to profile.
 */
#pragma once

#include <stddef.h>

void *self_map(size_t bytes); /* zeroed; NULL: there is none */
void self_unmap(void *at, size_t bytes);
/* Grows `*array` from `*room` bytes to at least `bytes`: zeroed; it may move. 0; -ENOMEM: it is as it was. */
int self_grow(void **array, size_t *room, size_t bytes);

/* Pieces that are freed together; all zero: an empty pool. */
struct self_pool {
	struct self_chunk *first;
	size_t used;
};
void *self_take(struct self_pool *p, size_t bytes); /* zeroed, of at most 32 KiB; NULL: no memory */
void self_pool_done(struct self_pool *p);

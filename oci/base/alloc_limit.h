/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_limit - limits the memory for arrays that are made from a hostile file, whatever sizes the file claims.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct alloc_limit {
	size_t max, used;
};

/* Makes room for one more element within the limit. 0, -E2BIG, -ENOMEM. */
static inline int alloc_limit_grow(struct alloc_limit *b, void **array, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return 0;
	size_t more = *room ? 2 * *room : 256, bytes = (more + *room) * size; /* both arrays exist for a moment */
	if (b->used + bytes > b->max)
		return -E2BIG;
	void *p = reallocarray(*array, more, size);
	if (!p)
		return -ENOMEM;
	b->used += (more - *room) * size;
	*array = p;
	*room = more;
	return 0;
}

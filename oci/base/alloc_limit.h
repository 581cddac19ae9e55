/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc_limit - bytes that may be used while something is made from a hostile file, whatever it says of its size.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

struct alloc_limit {
	size_t max, used;
};

/* Room for one more within the bytes that may be used. -E2BIG, -ENOMEM. */
static inline int alloc_limit_grow(struct alloc_limit *b, void **array, size_t n, size_t *room, size_t size)
{
	if (n < *room)
		return 0;
	size_t more = *room ? 2 * *room : 256, bytes = (more + *room) * size; /* both are there for a moment */
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

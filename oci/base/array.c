/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LIMITED_FIRST 256

static size_t next_capacity(size_t capacity, size_t wanted, size_t first)
{
	const size_t more = capacity ? 2 * capacity : first;
	return wanted <= capacity ? capacity : wanted < more ? more : wanted;
}

int array_reserve(void *array, size_t *capacity, size_t wanted, size_t size, size_t first)
{
	void *elements;
	const size_t more = next_capacity(*capacity, wanted, first);
	if (more == *capacity)
		return 0;
	memcpy(&elements, array, sizeof(elements)); /* a pointer to some type: no lvalue of another type may read it */
	elements = reallocarray(elements, more, size);
	if (!elements)
		return -ENOMEM;
	memcpy(array, &elements, sizeof(elements));
	*capacity = more;
	return 0;
}

int array_reserve_limited(struct array_limit *l, void *array, size_t *capacity, size_t wanted, size_t size)
{
	const size_t had = *capacity, more = next_capacity(had, wanted, LIMITED_FIRST);
	if (more > had && l->used + (more + had) * size > l->max) /* both arrays exist for a moment */
		return -E2BIG;
	const int r = array_reserve(array, capacity, wanted, size, LIMITED_FIRST);
	l->used += (*capacity - had) * size;
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * array - arrays that grow: the caller keeps the pointer to the first element, the number of elements and the capacity.
 */
#pragma once

#include <stddef.h>

/*
 * Makes room for `wanted` elements of `size` bytes each; `array` is the address of the caller's pointer. The capacity
 * becomes `first`, and doubles from then on; it becomes `wanted` if that is more. 0; -ENOMEM: nothing has changed.
 */
int array_reserve(void *array, size_t *capacity, size_t wanted, size_t size, size_t first);

/* Limits the memory for arrays that are made from a hostile file, whatever sizes the file claims. Bytes. */
struct array_limit {
	size_t max, used;
};

/* The same within the limit, where both arrays count while elements move. -E2BIG: they do not fit into it. */
int array_reserve_limited(struct array_limit *l, void *array, size_t *capacity, size_t wanted, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_memory - a process that has no memory left, for what a function says then. In a child (child.h): it cannot be
 * undone.
 */
#pragma once

#include "tests/unit/support/child.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

/* A sanitizer's malloc ends the process where this one returns NULL. */
static inline bool memory_can_end(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return false;
#else
	return true;
#endif
}

/* All but `left` bytes, which are of one piece; 0: all. */
static inline void take_memory(size_t left)
{
	const struct rlimit none = {1, 1};
	void *volatile piece = left ? malloc(left) : NULL;
	void *volatile taken; /* compilers leave out a malloc if its memory has no use */
	MUST(setrlimit(RLIMIT_AS, &none) == 0);
	for (size_t size = 1 << 20; size; size = size > 2048 ? size / 2 : size > 16 ? size - 16 : size / 2)
		do
			taken = malloc(size);
		while (taken);
	free(piece);
}

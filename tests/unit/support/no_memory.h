/* SPDX-License-Identifier: Apache-2.0 */
/*
 * no_memory - a process that has no memory left, for what a function says then. In a child (child.h): it cannot be
 * undone.
 */
#pragma once

#include "oci/base/fd.h"
#include "tests/unit/support/child.h"

#include <fcntl.h>
#include <malloc.h>
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
	struct rlimit none;
	void *volatile piece = left ? malloc(left) : NULL;
	void *volatile taken; /* compilers leave out a malloc if its memory has no use */
	MUST(getrlimit(RLIMIT_AS, &none) == 0);
	none.rlim_cur = 1;
	MUST(setrlimit(RLIMIT_AS, &none) == 0);
	for (size_t size = 1 << 20; size; size = size > 2048 ? size / 2 : size > 16 ? size - 16 : size / 2)
		do
			taken = malloc(size);
		while (taken);
	free(piece);
}

/*
 * The same, but directories can still be read: what is as large as their buffers comes from mmap(), for which 16 MiB
 * are left. What is smaller would come from a heap that has to grow by 64 MiB.
 */
static inline void take_small_memory(size_t left)
{
	char text[128];
	struct rlimit some;
	MUST(mallopt(M_MMAP_THRESHOLD, 32 << 10) && mallopt(M_TOP_PAD, 64 << 20));
	take_memory(left);
	MUST(fd_read_text(AT_FDCWD, "/proc/self/statm", text, sizeof(text)) == 0);
	MUST(getrlimit(RLIMIT_AS, &some) == 0);
	some.rlim_cur = strtoul(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) + (16u << 20);
	MUST(setrlimit(RLIMIT_AS, &some) == 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena - the memory of calling-context trees: the shared region (calltree_layout.h), and the process' own memory
 * beside it. Everything is mapped once, when counting begins, and touched as it is needed: later there is no system
 * call for memory, so that a seccomp filter, RLIMIT_AS or a signal handler's moment make no difference. Nothing is
 * given back.
 *
 * A forked child has none of it: the kernel clears the memory (MADV_WIPEONFORK, Linux 4.14), a region from outside is
 * not there at all, and arena_ready() begins anew, in a region that `renew` makes, or in one of its own. So no call is
 * counted by two processes. A child of vfork shares the parent's memory and counts there.
 *
 * Async-signal-safe, without locks; concurrent threads each get their own piece.
 */
#pragma once

#include "shim/libpillion/abi/calltree_layout.h"

#include <stdbool.h>

#define ARENA_SHARED (64u << 20)    /* 1,032,192 nodes */
#define ARENA_SHARED_MIN (1u << 20) /* less is mapped if the kernel refuses memory, down to this */
#define ARENA_OWN (128u << 20)	    /* 13,000 threads at a time */

/*
 * shared: a region from outside, zeroed, page-aligned; NULL: map one of our own. own: bytes beside it. 0; -EBUSY: it is
 * open already; -ENOSYS: the kernel cannot wipe at fork; -errno of mmap(2).
 */
typedef void *arena_renew_fn(void); /* of the same size; NULL: there is none */
int arena_open(void *shared, size_t size, size_t own, arena_renew_fn *renew);
/* Whether there is memory to count in. In a forked child the first caller makes it; callers meanwhile have none yet. */
bool arena_ready(void);
struct tree_header *arena_header(void);	     /* NULL: there is none, or none yet */
struct tree_chunk *arena_chunk(void);	     /* the next one, zeroed; NULL: full */
void *arena_take(size_t size, size_t align); /* from our own memory, zeroed; align: a power of two; NULL: full */
enum arena_root { ARENA_THREADS, ARENA_ROOTS };
void **arena_root(enum arena_root which); /* a word for the caller, cleared with everything else */
void arena_close(void);			  /* for tests: no thread may be counting */

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/arena.h"

#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { WIPED, BEGUN, READY };

/* At the beginning of our own memory */
struct arena_own {
	uint32_t state;
	size_t used;
	void *roots[ARENA_ROOTS];
};

/* Kept over a fork: the addresses of memory, not its contents */
static struct {
	char *shared;
	size_t shared_size;
	bool foreign;	       /* from outside: a forked child has no such mapping, */
	arena_renew_fn *renew; /* and asks for one */
	struct arena_own *own;
	size_t own_size;
} arena;

static bool is_syscall_error(long r)
{
	return r < 0 && r > -4096;
}

static long map_wipeonfork(size_t size)
{
	long at = sys_call(mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (is_syscall_error(at))
		return at;
	long r = sys_call(madvise, at, size, MADV_WIPEONFORK);
	if (!is_syscall_error(r))
		return at;
	sys_call(munmap, at, size);
	return r == -EINVAL ? -ENOSYS : r;
}

/* Maps less if the kernel refuses that much */
static int map_shared(size_t size)
{
	long at = map_wipeonfork(size);
	for (; is_syscall_error(at) && at == -ENOMEM && size / 2 >= ARENA_SHARED_MIN; at = map_wipeonfork(size))
		size /= 2;
	if (is_syscall_error(at))
		return (int)at;
	arena.shared = (char *)at;
	arena.shared_size = size;
	arena.foreign = false;
	return 0;
}

static void init_arena(void)
{
	struct tree_header *h = (struct tree_header *)arena.shared;
	*h = (struct tree_header){
		.version = TREE_VERSION,
		.header_size = sizeof(*h),
		.node_size = sizeof(struct tree_node),
		.chunk_size = TREE_CHUNK,
		.size = arena.shared_size,
		.chunks = 1,
		.pid = (uint32_t)sys_call(getpid),
		.born = sys_clock_ns(CLOCK_MONOTONIC),
	};
	memcpy(h->magic, TREE_MAGIC, sizeof(h->magic));
	memset(arena.own->roots, 0, sizeof(arena.own->roots));
	arena.own->used = sizeof(*arena.own);
	__atomic_store_n(&arena.own->state, READY, __ATOMIC_RELEASE);
}

int arena_open(void *shared, size_t size, size_t own, arena_renew_fn *renew)
{
	if (arena.own)
		return -EBUSY;
	long at = map_wipeonfork(own);
	if (is_syscall_error(at))
		return (int)at;
	int r = 0;
	if (shared) {
		arena.shared = shared;
		arena.shared_size = size;
		arena.foreign = true;
		arena.renew = renew;
		r = (int)sys_call(madvise, shared, size, MADV_DONTFORK);
	} else {
		r = map_shared(size);
	}
	if (r < 0) {
		sys_call(munmap, at, own);
		return r;
	}
	arena.own_size = own;
	arena.own = (struct arena_own *)at;
	init_arena();
	return 0;
}

/* In a forked child */
static bool renew_shared(void)
{
	char *at = arena.renew ? arena.renew() : NULL;
	if (at)
		arena.shared = at;
	return at || map_shared(ARENA_SHARED) == 0;
}

bool arena_ready(void)
{
	uint32_t state = arena.own ? __atomic_load_n(&arena.own->state, __ATOMIC_ACQUIRE) : BEGUN;
	if (state != WIPED)
		return state == READY;
	if (!__atomic_compare_exchange_n(&arena.own->state, &state, BEGUN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return false;
	if (arena.foreign && !renew_shared())
		return false; /* for ever: renew is called once */
	init_arena();
	return true;
}

struct tree_header *arena_header(void)
{
	return arena_ready() ? (struct tree_header *)arena.shared : NULL;
}

struct tree_chunk *arena_chunk(void)
{
	struct tree_header *h = (struct tree_header *)arena.shared;
	uint32_t most = (uint32_t)(arena.shared_size / TREE_CHUNK);
	if (__atomic_load_n(&h->chunks, __ATOMIC_RELAXED) >= most)
		return NULL;
	uint32_t i = __atomic_fetch_add(&h->chunks, 1, __ATOMIC_RELAXED);
	return i < most ? (struct tree_chunk *)(arena.shared + (size_t)i * TREE_CHUNK) : NULL;
}

void *arena_take(size_t size, size_t align)
{
	size_t from = __atomic_load_n(&arena.own->used, __ATOMIC_RELAXED), at;
	do {
		at = from + (-((uintptr_t)arena.own + from) & (align - 1));
		if (at > arena.own_size || size > arena.own_size - at)
			return NULL;
	} while (!__atomic_compare_exchange_n(
		&arena.own->used, &from, at + size, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return (char *)arena.own + at;
}

void **arena_root(enum arena_root which)
{
	return &arena.own->roots[which];
}

void arena_close(void)
{
	if (!arena.own)
		return;
	sys_call(munmap, arena.own, arena.own_size);
	if (!arena.foreign)
		sys_call(munmap, arena.shared, arena.shared_size);
	memset(&arena, 0, sizeof(arena));
}

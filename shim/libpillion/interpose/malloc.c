/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc - functions in front of the allocator, whichever that is: those of malloc(3), of C++ and mmap(2)'s anonymous
 * memory. A call that is not sampled costs a subtraction and a call, a free(3) a look at one byte.
 *
 * The first call finds the allocator's functions (dlsym_next.h), perhaps before any constructor has run. Requests
 * meanwhile, by the linker itself, get memory from a small room.
 *
 * A function of the allocator may call others of it (operator new calls malloc). Those count, once: our functions look
 * whether `left` has moved in the call.
 */
#include "shim/libpillion/alloc/alloc_sample.h"
#include "shim/libpillion/alloc/live_slots.h"
#include "shim/libpillion/core/arch.h"
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/dlsym_next.h"
#include "shim/libpillion/core/export.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RARE(x) __builtin_expect(!!(x), 0)

extern void *dlopen(const char *, int) __attribute__((weak));
extern void *dlsym(void *, const char *) __attribute__((weak));
extern int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *) __attribute__((weak));

static struct {
	void *(*malloc)(size_t);
	void (*free)(void *);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
} real;
static int found; /* 0: not yet; 1: a thread is at it; 2: all of them */
static struct {
	uintptr_t from, to;
} allocator; /* its code */

/* --- the small room ------------------------------------------------------------------------------------------ */

static union {
	max_align_t align;
	unsigned char bytes[64 << 10];
} room;
static size_t room_used;

static bool in_room(const void *p)
{
	return (uintptr_t)p - (uintptr_t)room.bytes < sizeof(room.bytes);
}

/* Each piece has its size in front. */
static void *from_room(size_t n)
{
	const size_t all = ((n + 15) & ~(size_t)15) + 16;
	if (n > sizeof(room.bytes))
		return NULL;
	const size_t at = __atomic_fetch_add(&room_used, all, __ATOMIC_RELAXED);
	if (at + all > sizeof(room.bytes))
		return NULL;
	*(size_t *)&room.bytes[at] = n;
	return &room.bytes[at + 16];
}

static size_t size_in_room(const void *p)
{
	return *(const size_t *)((const unsigned char *)p - 16);
}

/* --- the allocator behind us ----------------------------------------------------------------------------------- */

/* The module with malloc(3) in it is the allocator. */
static int look_at_module(struct dl_phdr_info *m, size_t size, void *arg)
{
	const uintptr_t at = (uintptr_t)real.malloc;
	for (unsigned i = 0; i < m->dlpi_phnum; i++) {
		const uintptr_t from = m->dlpi_addr + m->dlpi_phdr[i].p_vaddr, to = from + m->dlpi_phdr[i].p_memsz;
		if (m->dlpi_phdr[i].p_type == PT_LOAD && at >= from && at < to) {
			allocator.from = from;
			allocator.to = to;
			return 1;
		}
	}
	return 0;
}

/* False: the search is under way, and may have made this very call. */
static bool find_allocator(void)
{
	int none = 0;
	if (!__atomic_compare_exchange_n(&found, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE))
		return none == 2;
	real.free = dlsym_next("free");
	real.calloc = dlsym_next("calloc");
	real.realloc = dlsym_next("realloc");
	real.memalign = dlsym_next("memalign");
	real.aligned_alloc = dlsym_next("aligned_alloc");
	real.posix_memalign = dlsym_next("posix_memalign");
	real.valloc = dlsym_next("valloc");
	real.pvalloc = dlsym_next("pvalloc");
	real.mmap = dlsym_next("mmap");
	real.munmap = dlsym_next("munmap");
	real.malloc = dlsym_next("malloc");
	if (dl_iterate_phdr)
		dl_iterate_phdr(look_at_module, NULL);
	__atomic_store_n(&found, 2, __ATOMIC_RELEASE);
	return true;
}
static inline bool is_ready(void)
{
	return __builtin_expect(__atomic_load_n(&found, __ATOMIC_ACQUIRE) == 2, 1) || find_allocator();
}

__attribute__((constructor)) static void find_early(void)
{
	find_allocator();
}

static void *out_of_memory(void)
{
	errno = ENOMEM;
	return NULL;
}

/* --- sampling -------------------------------------------------------------------------------------------------- */

/* `bytes` have been allocated at p, and `left` has fallen below zero. */
static __attribute__((noinline)) void sample_allocation(
	struct thread_state *t, const struct shm_regs *r, const void *p, size_t bytes)
{
	const int saved = errno;
	if (!thread_state_enter(t)) {
		alloc_sample_put_off(t);
		return;
	}
	if (alloc_sample_due(t, p ? 0 : bytes) && p)
		alloc_sample_record(t, r, p, bytes);
	thread_state_leave(t);
	errno = saved;
}

/* Counts an allocation; `before`: `left` before it. Used in our functions, so that their frame is the first. */
#define COUNT(p, n, before)                                                                                            \
	do {                                                                                                           \
		if (t->left == (before))                                                                               \
			t->left -= (int64_t)(n);                                                                       \
		if (RARE(t->left < 0)) {                                                                               \
			struct shm_regs regs;                                                                          \
			ARCH_REGS_HERE(&regs);                                                                         \
			sample_allocation(t, &regs, (p), (n));                                                         \
		}                                                                                                      \
	} while (0)

static __attribute__((noinline)) void record_free(const void *p)
{
	alloc_sample_freed(alloc_sample_find(p), p);
}

/* --- malloc(3) -------------------------------------------------------------------------------------------------- */

PILLION_API void *malloc(size_t n)
{
	struct thread_state *t = &thread_own;
	if (RARE(!is_ready()))
		return from_room(n);
	void *p = real.malloc(n);
	t->left -= (int64_t)n;
	if (RARE(t->left < 0)) {
		struct shm_regs regs;
		ARCH_REGS_HERE(&regs);
		sample_allocation(t, &regs, p, n);
	}
	return p;
}

PILLION_API void free(void *p)
{
	if (RARE(live_slots_maybe(p)))
		record_free(p);
	if (RARE(!is_ready() || in_room(p)))
		return;
	real.free(p);
}

PILLION_API void *calloc(size_t count, size_t size)
{
	struct thread_state *t = &thread_own;
	const int64_t before = t->left;
	size_t n;
	if (__builtin_mul_overflow(count, size, &n))
		return out_of_memory();
	if (RARE(!is_ready()))
		return from_room(n); /* which is zero */
	void *p = real.calloc(count, size);
	COUNT(p, n, before);
	return p;
}

static void *out_of_room(const void *p, size_t n)
{
	void *fresh = malloc(n);
	const size_t had = size_in_room(p);
	return fresh ? memcpy(fresh, p, had < n ? had : n) : NULL;
}

PILLION_API void *realloc(void *old, size_t n)
{
	struct thread_state *t = &thread_own;
	const int64_t before = t->left;
	if (RARE(in_room(old)))
		return out_of_room(old, n);
	if (RARE(!is_ready()))
		return from_room(n);
	const uint32_t was = RARE(old && live_slots_maybe(old)) ? alloc_sample_find(old) : 0;
	void *p = real.realloc(old, n);
	if (RARE(was) && (p || !n)) /* else `old` is still in use */
		alloc_sample_freed(was, old);
	COUNT(p, n, before);
	return p;
}

PILLION_API int posix_memalign(void **ret, size_t align, size_t n)
{
	struct thread_state *t = &thread_own;
	const int64_t before = t->left;
	if (RARE(!is_ready() || !real.posix_memalign))
		return ENOMEM;
	const int r = real.posix_memalign(ret, align, n);
	COUNT(r == 0 ? *ret : NULL, n, before);
	return r;
}

#define ALIGNED(name, args, pass)                                                                                      \
	PILLION_API void *name args                                                                                    \
	{                                                                                                              \
		struct thread_state *t = &thread_own;                                                                  \
		const int64_t before = t->left;                                                                        \
		if (RARE(!is_ready() || !real.name))                                                                   \
			return out_of_memory();                                                                        \
		void *p = real.name pass;                                                                              \
		COUNT(p, n, before);                                                                                   \
		return p;                                                                                              \
	}
void *memalign(size_t align, size_t n), *valloc(size_t n), *pvalloc(size_t n), *aligned_alloc(size_t align, size_t n);
ALIGNED(memalign, (size_t align, size_t n), (align, n))
ALIGNED(aligned_alloc, (size_t align, size_t n), (align, n))
ALIGNED(valloc, (size_t n), (n))
ALIGNED(pvalloc, (size_t n), (n))

/* --- mmap(2): memory without a file for the program, not for the allocator -------------------------------------- */

static bool is_allocator(const void *caller)
{
	return (uintptr_t)caller >= allocator.from && (uintptr_t)caller < allocator.to;
}

/* If the caller gives the address, it has that memory already. */
PILLION_API void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
	struct thread_state *t = &thread_own;
	const int64_t before = t->left;
	if (RARE(!is_ready() || !real.mmap))
		return MAP_FAILED;
	void *p = real.mmap(at, n, prot, flags, fd, offset);
	if (flags & MAP_ANONYMOUS && !at && !(flags & MAP_NORESERVE) && prot != PROT_NONE &&
		!is_allocator(__builtin_return_address(0)))
		COUNT(p == MAP_FAILED ? NULL : p, n, before);
	return p;
}
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t offset) __attribute__((alias("mmap"))) PILLION_API;

PILLION_API int munmap(void *p, size_t n)
{
	const uint32_t was = RARE(live_slots_maybe(p)) ? alloc_sample_find(p) : 0;
	if (RARE(!is_ready() || !real.munmap))
		return -1;
	const int r = real.munmap(p, n);
	if (RARE(was) && r == 0)
		alloc_sample_freed(was, p);
	return r;
}

/* --- C++ ------------------------------------------------------------------------------------------------------- */

/*
 * Looks behind us, and in a libstdc++ that a plug-in has brought for itself. If there is none, all of these use
 * malloc(3).
 */
static void *next_of_cxx(const char *name)
{
	void *at = dlsym_next(name), *library;
	if (at || !dlopen || !dlsym || !(library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD)))
		return at;
	return dlsym(library, name);
}

#define NEW(name, args, pass, instead)                                                                                 \
	void *name args;                                                                                               \
	PILLION_API void *name args                                                                                    \
	{                                                                                                              \
		static void *(*kept)args;                                                                              \
		struct thread_state *t = &thread_own;                                                                  \
		const int64_t before = t->left;                                                                        \
		if (RARE(!kept))                                                                                       \
			kept = (__typeof__(kept))next_of_cxx(#name);                                                   \
		if (RARE(!kept))                                                                                       \
			return instead;                                                                                \
		void *p = kept pass;                                                                                   \
		COUNT(p, n, before);                                                                                   \
		return p;                                                                                              \
	}
#define DELETE(name, args, pass)                                                                                       \
	void name args;                                                                                                \
	PILLION_API void name args                                                                                     \
	{                                                                                                              \
		static void(*kept) args;                                                                               \
		if (RARE(live_slots_maybe(p)))                                                                         \
			record_free(p);                                                                                \
		if (RARE(!kept))                                                                                       \
			kept = (__typeof__(kept))next_of_cxx(#name);                                                   \
		if (RARE(!kept))                                                                                       \
			free(p);                                                                                       \
		else                                                                                                   \
			kept pass;                                                                                     \
	}
/* clang-format off */
NEW(_Znwm, (size_t n), (n), malloc(n))
NEW(_Znam, (size_t n), (n), malloc(n))
NEW(_ZnwmRKSt9nothrow_t, (size_t n, const void *t_), (n, t_), malloc(n))
NEW(_ZnamRKSt9nothrow_t, (size_t n, const void *t_), (n, t_), malloc(n))
NEW(_ZnwmSt11align_val_t, (size_t n, size_t align), (n, align), aligned_alloc(align, n))
NEW(_ZnamSt11align_val_t, (size_t n, size_t align), (n, align), aligned_alloc(align, n))
NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t n, size_t align, const void *t_), (n, align, t_), aligned_alloc(align, n))
NEW(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t n, size_t align, const void *t_), (n, align, t_), aligned_alloc(align, n))
DELETE(_ZdlPv, (void *p), (p))
DELETE(_ZdaPv, (void *p), (p))
DELETE(_ZdlPvm, (void *p, size_t n), (p, n))
DELETE(_ZdaPvm, (void *p, size_t n), (p, n))
DELETE(_ZdlPvRKSt9nothrow_t, (void *p, const void *t_), (p, t_))
DELETE(_ZdaPvRKSt9nothrow_t, (void *p, const void *t_), (p, t_))
DELETE(_ZdlPvSt11align_val_t, (void *p, size_t align), (p, align))
DELETE(_ZdaPvSt11align_val_t, (void *p, size_t align), (p, align))
DELETE(_ZdlPvmSt11align_val_t, (void *p, size_t n, size_t align), (p, n, align))
DELETE(_ZdaPvmSt11align_val_t, (void *p, size_t n, size_t align), (p, n, align))
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t align, const void *t_), (p, align, t_))
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t align, const void *t_), (p, align, t_))
/* clang-format on */

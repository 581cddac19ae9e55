/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/calltree/calltree_stacks.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/sys_clock.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* --- on and off ---------------------------------------------------------------------------------------- */

enum tree_clock calltree_clock_best(void)
{
	return ticks_invariant() ? TREE_CLOCK_TSC : TREE_CLOCK_KERNEL;
}

/* Keeps the try with the shortest system call */
static void note_moment(struct tree_header *h)
{
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 4; i++) {
		uint64_t before = ticks_read(), ns = sys_clock_ns(CLOCK_MONOTONIC), after = ticks_read();
		if (after - before >= least)
			continue;
		least = after - before;
		h->tsc = before + least / 2;
		h->monotonic_ns = ns;
	}
}

int calltree_start(enum tree_clock clock, const struct calltree_memory *m)
{
	static uint32_t busy;
	if (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
		return -EBUSY;
	int r = arena_open(m->shared, m->size, m->own, m->renew);
	struct tree_header *h = r == 0 || r == -EBUSY ? arena_header() : NULL;
	if (h) {
		if (clock != TREE_CLOCK_NONE && !h->tsc)
			note_moment(h);
		__atomic_store_n(&h->clock, clock, __ATOMIC_RELAXED);
		__atomic_store_n(&calltree_switch.base, (char *)h, __ATOMIC_RELAXED);
		__atomic_store_n(&calltree_switch.started,
			clock == TREE_CLOCK_TSC ? ticks_read() : sys_clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
		__atomic_store_n(&calltree_switch.on, 1 + clock, __ATOMIC_RELEASE);
		r = 0;
	}
	__atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
	return r;
}

void calltree_stop(void)
{
	__atomic_store_n(&calltree_switch.on, 0, __ATOMIC_RELEASE);
}

void calltree_reset(void)
{
	calltree_stop();
	arena_close();
	memset(&calltree_switch, 0, sizeof(calltree_switch));
	calltree_own = (struct tree_thread_own){.top = &calltree_nowhere};
}

/* --- the hooks, as functions --------------------------------------------------------------------------- */

void calltree_enter_timed(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	if (__builtin_expect(calltree_switch.on == 1 + TREE_CLOCK_TSC, 1))
		tree_time(ticks_read());
	else
		tree_time(sys_clock_ns(CLOCK_MONOTONIC));
	tree_enter_hot(fn, site, sp, ra);
}

void calltree_leave_timed(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	if (__builtin_expect(calltree_switch.on == 1 + TREE_CLOCK_TSC, 1))
		tree_time(ticks_read());
	else
		tree_time(sys_clock_ns(CLOCK_MONOTONIC));
	tree_leave_hot(fn, site, sp, ra);
}

void calltree_enter(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	if (calltree_switch.on == 1 + TREE_CLOCK_NONE)
		tree_enter_hot(fn, site, sp, ra);
	else if (calltree_switch.on)
		calltree_enter_timed(fn, site, sp, ra);
}

void calltree_leave(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	if (calltree_switch.on == 1 + TREE_CLOCK_NONE)
		tree_leave_hot(fn, site, sp, ra);
	else if (calltree_switch.on)
		calltree_leave_timed(fn, site, sp, ra);
}

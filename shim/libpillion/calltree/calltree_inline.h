/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_inline - the work at every call and every return: as little as possible, and always inline.
 *
 * For each stack its frames are kept, each a node and a place: the CFA of the hook that was called from there, and the
 * low 16 bits of the hook's return address. A place below the caller's and near it is a call; calltree_stacks.c handles
 * all other cases.
 */
#pragma once

#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/core/arch.h"

#include <stddef.h>

#pragma GCC visibility push(hidden)

#define TREE_PLACE(sp) ((sp) << 16)
#define TREE_SP(place) ((place) >> 16)
#define TREE_NEAR TREE_PLACE((uint64_t)CALLTREE_REACH)

struct tree_frame {
	struct tree_node *node;
	uint64_t place; /* 0: there is no frame */
};

extern struct tree_switch {
	char *base;	  /* of the shared region */
	uint64_t started; /* ticks; time before it does not count */
	uint32_t on;	  /* 0, or 1 + enum tree_clock */
} calltree_switch;

struct tree_thread_own {
	struct tree_frame *top;
	uint64_t last; /* ticks at the last hook */
};
extern __thread struct tree_thread_own calltree_own;

/* The cases that are rare or slow */
void tree_enter_oddly(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);
void calltree_enter_timed(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);
void tree_leave_oddly(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);
void calltree_leave_timed(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);

static inline unsigned tree_kid(uint64_t fn, uint64_t site)
{
	return (unsigned)(site ^ site >> 3 ^ fn >> 4) % TREE_KIDS;
}

/* In one instruction each: neither a reader nor a handler in between sees half of it */
static inline void tree_count(struct tree_node *n)
{
	ARCH_INCREMENT(n->calls);
}
static inline void tree_charge(struct tree_node *n, uint64_t ticks)
{
	ARCH_ADD(n->ticks, ticks);
}

static inline void tree_time(uint64_t now)
{
	const struct tree_frame *top = calltree_own.top;
	uint64_t last = calltree_own.last;
	calltree_own.last = now;
	if (__builtin_expect(last >= calltree_switch.started && now > last && top->place, 1))
		tree_charge(top->node, now - last);
}

static inline bool tree_is_last(const struct tree_frame *f)
{
	return ((uintptr_t)(f + 1) & (CALLTREE_STACK_SIZE - 1)) == 0;
}

/*
 * A handler may come between any two of these, write its own frame to the same place and leave: so they are written
 * twice. (Of two handlers that come one instruction after the other, the second may take the frame with it: then calls
 * from there have its caller's path.)
 */
static inline void tree_push(struct tree_frame *f, struct tree_node *n, uint64_t place)
{
	f->node = n;
	f->place = place;
	__asm__ volatile("" ::: "memory");
	calltree_own.top = f;
	__asm__ volatile("" ::: "memory");
	f->node = n;
	f->place = place;
}

static inline __attribute__((always_inline)) void tree_enter_hot(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	struct tree_frame *t = calltree_own.top;
	uint64_t place = TREE_PLACE(sp);
	/* strictly below the caller, and near it */
	if (__builtin_expect(t->place - place - TREE_PLACE(1) < TREE_NEAR && !tree_is_last(t), 1)) {
		struct tree_node *n = (struct tree_node *)calltree_switch.base + t->node->kids[tree_kid(fn, site)];
		if (__builtin_expect(n->fn == fn && n->site == site, 1)) {
			tree_count(n);
			tree_push(t + 1, n, place | (ra & 0xffff));
			return;
		}
	}
	tree_enter_oddly(fn, site, sp, ra);
}

/*
 * If the hook is the last thing that a function does, the compiler makes a jump of it: then the hook returns to where
 * the function does, and its CFA is the function's own, above all frames of the function and not above its caller's.
 */
static inline __attribute__((always_inline)) void tree_leave_hot(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	struct tree_frame *t = calltree_own.top;
	uint64_t place = TREE_PLACE(sp);
	bool own = ra == site ? place - t->place < TREE_NEAR && t[-1].place >= place : (t->place ^ place) <= 0xffff;
	if (__builtin_expect(own && t->node->fn == fn && !tree_is_last(t), 1))
		calltree_own.top = t - 1;
	else
		tree_leave_oddly(fn, site, sp, ra);
}

#pragma GCC visibility pop

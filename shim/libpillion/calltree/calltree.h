/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree - what the program calls, and by which way: a node for each function, call site and path
 * (calltree_layout.h), one tree for each thread, written by the hooks that -finstrument-functions makes the compiler
 * call.
 *
 * Exact, always: each call that is begun while counting is on is counted once, in a node of its function (or in one of
 * those that stand for what there was no room for).
 *
 * The path is known by the addresses of stack frames: nothing has to be told when functions end otherwise than by
 * returning. It is exact for calls and returns, threads, signal handlers (also on a stack of their own), C++
 * exceptions and longjmp within the frames that are known; recursion is folded: a call that is on its path already,
 * with function and call site, counts there, so a tree has no more nodes than the program has ways without a loop.
 * It is approximate, and never more than that, in these cases:
 *  - coroutines: each stack has a path of its own, which begins where the stack was first entered; a switch is
 *    noticed at the first hook behind it, when the stacks are CALLTREE_REACH bytes apart. Of more than CALLTREE_STACKS
 * of a thread the one that rested longest is forgotten, and of one that goes on in another thread its old frames are;
 *  - calls deeper than CALLTREE_DEPTH have the function at that depth for their caller;
 *  - a longjmp to a frame of a function that is not instrumented, CALLTREE_REACH bytes above all that are: what follows
 *    has the path that was left;
 *  - functions that were entered before counting began, or while it was off, are on no path, and those that returned
 *    while it was off are on it until the stack has passed there.
 * Exclusive time is the time between two hooks of a thread, and belongs to the function that the first one left on
 * top; waiting counts. Time behind a switch of stacks is the last known function's until the next hook.
 *
 * Async-signal-safe without locks or blocked signals: a handler that interrupts a hook finds a path to add to, and
 * leaves it as it was.
 */
#pragma once

#include "shim/libpillion/abi/calltree_layout.h"

#include <stdbool.h>

#define CALLTREE_STACK_SIZE 8192
#define CALLTREE_DEPTH 507  /* frames of a stack */
#define CALLTREE_STACKS 64  /* of a thread */
#define CALLTREE_REACH 8192 /* bytes: two frames farther apart may be on two stacks */

/*
 * Begin or go on; `clock`: whether time is taken as well. 0; -EBUSY: somebody else is at it; -errno of arena_open.
 * What is in `memory` is as arena_open has it, and counts once.
 */
struct calltree_memory {
	void *shared;
	size_t size, own;
	void *(*renew)(void);
};
int calltree_start(enum tree_clock clock, const struct calltree_memory *memory);
void calltree_stop(void);
/* The invariant clock of the CPU where there is one, else the kernel's. */
enum tree_clock calltree_clock_best(void);
uint64_t calltree_monotonic(void); /* ns */

/* What the hooks do when counting is on: calltree_inline.h. sp: the hook's CFA; ra: where the hook returns to. */
void calltree_enter(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);
void calltree_leave(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);

/*
 * The functions that the calling thread is in, innermost first, at most `max`; how many. In a handler, at any
 * instruction.
 */
uint32_t calltree_path(uint64_t *ret, uint32_t max);

/* Tests: forget everything. */
void calltree_reset(void);

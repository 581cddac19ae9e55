/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree - the calls of a program and their paths: a node for each function, call site and path (calltree_layout.h),
 * one tree for each thread, written by the hooks that -finstrument-functions makes the compiler call.
 *
 * Exact, always: each call that is begun while counting is on is counted once, in a node of its function (or in a node
 * for calls without room).
 *
 * The path is known by the addresses of stack frames: nothing has to be told when functions end otherwise than by
 * returning. It is exact for calls and returns, threads, signal handlers (also on a stack of their own), C++ exceptions
 * and longjmp within the frames that are known. Recursion is folded: a call that is on its path already, with function
 * and call site, counts there, so a tree has no more nodes than the program has ways without a loop.
 *
 * It is approximate, and never more than that, in these cases:
 * - coroutines: each stack has a path of its own, which begins where the stack was first entered. A switch is noticed
 *   at the first hook behind it, when the stacks are CALLTREE_REACH bytes apart. Beyond CALLTREE_STACKS of a thread,
 *   the one that rested longest is forgotten; if one goes on in another thread, its old frames are forgotten;
 * - calls deeper than CALLTREE_DEPTH have the function at that depth as their caller;
 * - a longjmp to a frame of a function that is not instrumented, CALLTREE_REACH bytes above all that are: later calls
 *   keep the path that was left;
 * - functions that were entered before counting began, or while it was off, are on no path, and those that returned
 *   while it was off are on it until the stack has passed there.
 *
 * Exclusive time is the time between two hooks of a thread, and belongs to the function that the first one left on top;
 * waiting counts. Time behind a switch of stacks is the last known function's until the next hook.
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
 * Begins or resumes counting; `clock`: whether time is taken as well. 0; -EBUSY: another thread is in this function;
 * -errno of arena_open. `memory` has the arguments of arena_open, and counts at the first call only.
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

/* The hooks call these when counting is on: calltree_inline.h. sp: the hook's CFA; ra: the hook's return address. */
void calltree_enter(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);
void calltree_leave(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra);

/*
 * Stores the functions that the calling thread is in, innermost first, at most `max`. Returns their number. May be
 * called in a handler, at any instruction.
 */
uint32_t calltree_path(uint64_t *ret, uint32_t max);

/* Both are there. A thread calls `began` with its first call, and `called` with the first call of `fn` by a path. */
struct calltree_observer {
	void (*began)(void);
	void (*called)(uint64_t fn);
};
void calltree_observe(const struct calltree_observer *o);

/* For tests: forgets everything. */
void calltree_reset(void);

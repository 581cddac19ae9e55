/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_state - libpillion's state of the calling thread, in memory that the thread has from its beginning
 * (initial-exec).
 *
 * Busy: we are at work for the thread, and calls of our functions meanwhile (a handler's, or our own) are let through
 * as if we were not there. A handler may leave by longjmp(3), so `busy` is the stack address of the frame that set it:
 * seen from a frame above that one, the work is over. (From another stack that cannot be told; back on this one it is
 * seen.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define THREAD_STATE_REFUSED_MAX 64 /* times in a row: no work takes that long */

struct thread_state {
	int64_t left;	  /* bytes until the next sample */
	uint64_t mean;	  /* the mean of that draw; 0: not drawn */
	uint64_t awaited; /* bytes up to `left` 0 that no area counts yet, while a profiler is awaited (alloc_sample.c)
			   */
	uintptr_t busy;
	uint32_t refused;
	uint32_t tid, pid; /* the process of that tid */
	uint32_t labels;   /* the number of its set (labels.h); 0: it has none */
	uint64_t random;
};
extern __thread struct thread_state thread_own;

/* False: it is busy. */
static inline bool thread_state_enter(struct thread_state *t)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	if (t->busy && t->busy >= here && ++t->refused < THREAD_STATE_REFUSED_MAX)
		return false;
	t->busy = here;
	t->refused = 0;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}
static inline void thread_state_leave(struct thread_state *t)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	t->busy = 0;
}

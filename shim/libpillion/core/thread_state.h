/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thread_state - what libpillion knows of the calling thread, in memory that it has from its beginning (initial-exec).
 *
 * Busy: we are at work for it, and what comes through our functions meanwhile (a handler's, or our own) is let through
 * as if we were not there. A handler may leave by longjmp(3), so `busy` is the stack address of whoever set it: seen
 * from a frame above that one, it is over. (From another stack nobody can tell; back on this one it is seen.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define THREAD_STATE_REFUSED_MAX 64 /* times in a row: nobody is at work so long */

struct thread_state {
	int64_t left;  /* bytes until the next sample */
	uint64_t mean; /* by which it was drawn; 0: it was not */
	uintptr_t busy;
	uint32_t refused;
	uint32_t tid, pid; /* whose tid that is */
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

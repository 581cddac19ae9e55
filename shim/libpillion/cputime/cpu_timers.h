/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_timers - CPU time by samples without perf events: where these are refused, and the profiler has asked for it.
 *
 * Each thread has a timer on its own CPU clock (timer_create(2)), whose signal comes to that thread: so each is sampled
 * by the time that it uses, whoever was born first. A sample stands for what the thread's clock says that it used since
 * the last one, the first one for all since it began. Threads are found at a sample of another one, when their number
 * has changed (/proc/self/task), or by a timer on the CPU clock of the process, which expires where CPU time goes by
 * without samples. What ends before it is found has no sample, and is in the process' account (area_head.cpu) all the
 * same.
 *
 * A CPU timer expires at a tick of its thread (CONFIG_HZ), and the signal comes as the thread returns from the kernel,
 * with whatever its system call has come to (CONFIG_POSIX_CPU_TIMERS_TASK_WORK, x86 since Linux 5.11): no system call
 * is interrupted. Before that the tick itself sends it: a thread that is about to wait then gets EINTR, where
 * SA_RESTART does not help. The signal of the process' timer is anybody's: it goes to the thread that runs (since 6.4;
 * before that to the first one, also while it waits), and from there to one that waits if it comes together with
 * another signal.
 *
 * The signal is a real-time one that nobody uses, by the highest number: SIGPROF stays the application's. To the
 * application it is as if it were not there (signal.c): default disposition, blocked when all of them are. Who
 * wants the number for himself gets it, and we take another one. Whoever does that by instructions of his own is not
 * seen: should he set it to SIG_DFL, the next sample ends the process.
 *
 * fork(2): a child begins as it does (atfork.h), and connects by its first sample. exec: by the constructor.
 * Handlers run with all signals blocked, on the alternate stack where a thread has one.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

void cpu_timers_want(uint64_t period); /* ns of CPU time from sample to sample, 0: none. By the profiler */
void cpu_timers_await(void);	       /* it has not said so yet: that is heard as soon as this process uses CPU time */
void cpu_timers_end(void);	       /* for good */
void cpu_timers_in_child(void);	       /* atfork.h: its timers begin with it */
/* Bytes of what records have besides, while CPU time is sampled here; else 0: somebody else knows. */
uint32_t cpu_timers_more(void);
void cpu_timers_name(struct shm_more *ret); /* the calling thread's name, and no registers */
int cpu_timers_signal(void);		    /* that of this very process (not of vfork(2)'s child); 0: there is none */
void cpu_timers_yield(int signal);	    /* the application wants it, for a handler of its own */
void cpu_timers_ignore(
	bool theirs); /* how it wants to have it: what somebody else sends is ignored, or ends the process */

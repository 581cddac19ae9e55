/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_timers - CPU time by samples without perf events: if these are refused, and the profiler has asked for it.
 *
 * Each thread has a timer on its own CPU clock (timer_create(2)); its signal comes to that thread: so each is sampled
 * by the time that it uses, whichever was born first. A sample stands for the time that the thread's clock has counted
 * since the last one, the first one for all since the thread began. Threads are found at a sample of another one, when
 * their number has changed (/proc/self/task), or by a timer on the CPU clock of the process, which expires when CPU
 * time goes by without samples. A thread that ends before it is found has no sample, and is in the process' account
 * (shm_head.cpu) all the same.
 *
 * A CPU timer expires at a tick of its thread (CONFIG_HZ), and the signal comes as the thread returns from the kernel,
 * with the result of its system call (CONFIG_POSIX_CPU_TIMERS_TASK_WORK, x86 since Linux 5.11): no system call is
 * interrupted. Before that the tick itself sends it: a thread that is about to wait then gets EINTR, where SA_RESTART
 * does not help. The signal of the process' timer may come to any thread: the kernel sends it to the running one (since
 * 6.4; before that to the first one, also while it waits), and from there to a waiting one if it comes together with
 * another signal.
 *
 * The signal is the real-time one with the highest number that is not in use: SIGPROF stays the application's. To the
 * application it is as if it were not there (signal.c): default disposition, blocked when all of them are. If the
 * application wants the number for itself, it gets it, and we take another one. A program that does that by
 * instructions of its own is not seen: if it sets SIG_DFL, the next sample ends the process.
 *
 * fork(2): a child begins its timers as it begins (atfork.h), and connects at its first sample. exec: by the
 * constructor. Handlers run with all signals blocked, on the alternate stack if a thread has one.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

/* Size of struct shm_more in records while CPU time is sampled here; 0: there is another source about threads. */
uint32_t cpu_timers_more(void);
int cpu_timers_signal(void);	   /* of this process (not of vfork(2)'s child); 0: there is none */
void cpu_timers_yield(int signal); /* the application wants it, for a handler of its own */
/* The application's wish: a signal that another process sends is ignored (true), or ends the process. */
void cpu_timers_ignore(bool theirs);

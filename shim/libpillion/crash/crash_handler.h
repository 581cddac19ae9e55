/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_handler - a record of the signal that ends this process: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP.
 *
 * Where the application has SIG_DFL for one of them, the kernel has our handler. Whatever comes there ends the process,
 * so it is told (SHM_CRASH, behind what is mapped), and then the disposition is what the application has: core file,
 * exit status and the kernel's log are as without us. A fault happens once more as we return; what was sent is sent
 * again, with the same siginfo (rt_tgsigqueueinfo(2)), and delivered where it was.
 *
 * What the application has for itself, a handler or SIG_IGN, the kernel has as it was set, and we are not in its way: a
 * runtime that lives on faults has them at the kernel's own pace. When it sets SIG_DFL again, to end by the same signal
 * as nearly all of them do, we are back. SA_RESETHAND does that in the kernel: such a handler is called by ours, which
 * has put itself back first. A handler that ends the process otherwise (_exit(2)) has not crashed; one for SIGABRT that
 * returns to abort(3) is not seen, which then resets it by itself.
 *
 * To the application it is as if we were not there (signal.c). Nothing takes longer than CRASH_HANDLER_PATIENCE_MS, and
 * that only where the profiler does not read. A fault of ours while we tell ends the telling, and the signal takes its
 * course. Threads that crash together have a record each, as far as the process lives.
 *
 * The handler needs a stack where there is none left: altstack.h.
 *
 * PID 1: what is sent to it, and it has no handler for, the kernel drops; so do we. fork(2): a child has all this, and
 * connects as it crashes. A child of vfork(2) is not told of. A program made by Go is left alone: it takes a handler
 * that was there before for somebody who wants its faults (runtime, sigfwdgo). After seccomp(2) everything is as if we
 * had never been there (connection_quiet).
 */
#pragma once

#include "shim/libpillion/core/sigaction.h"

#include <stdbool.h>
#include <stdint.h>

#define CRASH_HANDLER_PATIENCE_MS 50 /* for room */

void crash_handler_want(bool wanted); /* by the profiler */
void crash_handler_end(void);	      /* for good */
bool crash_handler_is_on(void);
/*
 * Around a call that asks for a disposition, or sets it. True: what the kernel has is ours, and this is what the
 * application has.
 */
bool crash_handler_shows(int sig, struct kernel_action *ret);
void crash_handler_was_set(int sig);

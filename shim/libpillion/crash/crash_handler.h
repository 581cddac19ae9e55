/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash_handler - a record of the signal that ends this process: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP.
 *
 * If the application has SIG_DFL for one of them, the kernel has our handler. Any signal that comes there ends the
 * process: so the handler writes a record (SHM_CRASH, behind the mappings), and then sets the application's
 * disposition: core file, exit status and the kernel's log are as without us. A fault happens once more as we return; a
 * signal that was sent is sent again, with the same siginfo (rt_tgsigqueueinfo(2)), and delivered at the same place.
 *
 * If the application has a handler or SIG_IGN, the kernel has that as it was set, and we are not in its way: a runtime
 * that lives on faults has them at the kernel's own pace. When it sets SIG_DFL again, to end by the same signal as
 * nearly all of them do, we are back. SA_RESETHAND does that in the kernel: our handler calls such a handler, and has
 * put itself back first. A handler that ends the process otherwise (_exit(2)) has not crashed. One for SIGABRT that
 * returns to abort(3) is not seen: abort(3) then resets it by itself.
 *
 * To the application it is as if we were not there (signal.c). Nothing takes longer than CRASH_HANDLER_PATIENCE_MS, and
 * that only if the profiler does not read. A fault of ours while we write the record ends it, and the signal takes its
 * course. Threads that crash together have a record each, as far as the process lives.
 *
 * The handler needs a stack when the thread's is used up: altstack.h.
 *
 * PID 1: the kernel drops a signal that is sent to it and for which it has no handler; so do we. fork(2): a child has
 * all this, and connects as it crashes. A crash of vfork(2)'s child has no record. A program made by Go is left alone:
 * it takes a handler that was there before for one that wants its faults (runtime, sigfwdgo). After seccomp(2)
 * everything is as if we had never been there (connection_quiet).
 */
#pragma once

#include "shim/libpillion/core/sigaction.h"

#include <stdbool.h>
#include <stdint.h>

#define CRASH_HANDLER_PATIENCE_MS 50 /* to wait for room */

void crash_handler_want(bool wanted); /* as the profiler says */
void crash_handler_end(void);	      /* for good */
bool crash_handler_is_on(void);
/*
 * To be called around a call that asks for a disposition, or sets it. True: the kernel has our handler, and *ret is the
 * application's disposition.
 */
bool crash_handler_shows(int sig, struct kernel_action *ret);
void crash_handler_was_set(int sig);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arch - what libpillion knows of a machine, beside abi_arch.h. Async-signal-safe, all of it. The machine's header has:
 *
 *	SELF_REGS		perf_event_attr.sample_regs_user: all that unwinding takes
 *	SIGACTION_RESTORER	a flag of rt_sigaction(2): there is a restorer
 *	ARCH_INCREMENT(word), ARCH_ADD(word, n)
 *				of 64 bits, in memory, by one instruction: no handler comes in between
 *	ARCH_REGS_HERE(r)	stores the registers at this instruction, as unwind tables see them: struct shm_regs
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

static inline long sys_call6(long n, long a, long b, long c, long d, long e, long f); /* syscall.h */
static inline uint64_t ucontext_ip(const ucontext_t *c);
static inline uint64_t ucontext_sp(const ucontext_t *c);

#if defined(__x86_64__)
#include "shim/libpillion/core/arch_x86_64.h"
#else
#error "pillion has no file for this machine: see ARCHITECTURE.md"
#endif

/* Copy the registers of interrupted code from a signal's context. */
void ucontext_fill(struct shm_regs *to, const ucontext_t *c);
void ucontext_fill_more(struct shm_more_regs *to, const ucontext_t *c);
void ucontext_fill_exception(struct shm_crash *to, const ucontext_t *c); /* flags, trap, error */

bool ticks_invariant(void); /* ticks_read() counts time: at one rate, whatever the CPU does */
/* Asks the kernel: a thread without memory of its own would fault if it were read directly. 0: it has none. */
uint64_t thread_pointer(void);
void sigaction_restorer(void); /* kernel_action.restorer; unwinders know a signal's frame by its bytes */
/* clone(2) with another stack, on which the child calls fn(arg), and exits with the result. */
long clone_call(unsigned long flags, int (*fn)(void *), void *arg, void *stack_end);
/*
 * The kernel would copy for us each page that is written in this memory from here on: we keep none of it, not even this
 * stack, and go on by registers. wait4(2) until there is no child; then, unless we have another parent by now, until
 * `pidfd` says that the parent has ended, or SIGTERM, which is let through there alone. Does not return.
 */
void keeper_wait(long parent, int pidfd);

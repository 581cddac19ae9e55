/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigaction - a signal's disposition as the kernel has it (rt_sigaction(2)): not libc's version of it, and with a
 * restorer of our own.
 */
#pragma once

#include "shim/libpillion/core/syscall.h"

#include <signal.h>
#include <stdint.h>

struct kernel_action {
	union {
		void (*handler)(int, siginfo_t *, void *);
		void (*plain)(int); /* SIG_DFL, SIG_IGN */
	};
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static inline long sigaction_set(int sig, const struct kernel_action *to, struct kernel_action *ret)
{
	return sys_call(rt_sigaction, sig, to, ret, sizeof(to->mask));
}

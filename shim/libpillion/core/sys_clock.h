/* SPDX-License-Identifier: Apache-2.0 */
/* sys_clock - reads a clock by a system call: clock_gettime(2) of libc may not be there yet, or be replaced. */
#pragma once

#include "shim/libpillion/core/syscall.h"

#include <time.h>

/* ns; 0: there is no such clock, or a filter of system calls forbids it. Async-signal-safe. */
static inline uint64_t sys_clock_ns(clockid_t clock)
{
	struct timespec t = {0};
	return sys_call(clock_gettime, clock, &t) == 0 ? (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec : 0;
}

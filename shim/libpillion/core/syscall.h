/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall - system calls of the library in an application's process: made directly, so that errno is not touched, no
 * function of libc is called that may be replaced, locked or not there yet, and nothing can be a cancellation point.
 * Each returns the kernel's result: -errno on failure. Async-signal-safe, all of it.
 */
#pragma once

#include "shim/libpillion/core/arch.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define sys_call(n, ...) sys_call_(n, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define sys_call_(n, a, b, c, d, e, f, ...)                                                                            \
	sys_call6(SYS_##n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

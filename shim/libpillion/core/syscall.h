/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syscall - system calls of the library in an application's process: made directly, so that errno is not touched, no
 * function of libc is called that may be replaced, locked or not there yet, and nothing can be a cancellation point.
 * Each returns the kernel's result: -errno on failure. Async-signal-safe, all of it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#ifndef __x86_64__
#error "libpillion knows the system calls of x86-64 alone"
#endif

static inline long sys_call6(long n, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#define sys_call(n, ...) sys_call_(n, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define sys_call_(n, a, b, c, d, e, f, ...)                                                                            \
	sys_call6(SYS_##n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

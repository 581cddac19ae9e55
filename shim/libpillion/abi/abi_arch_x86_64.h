/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct shm_regs {
	uint64_t ip, sp, bp, bx, r12, r13, r14, r15;
};
struct shm_more_regs {
	uint64_t ax, cx, dx, si, di, r8, r9, r10, r11;
};

static inline uint64_t ticks_read(void)
{
	return __builtin_ia32_rdtsc();
}

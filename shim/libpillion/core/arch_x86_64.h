/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#define SELF_REGS 0xff01ffu	      /* AX to IP, R8 to R15: arch/x86/include/uapi/asm/perf_regs.h */
#define SIGACTION_RESTORER 0x04000000 /* without it there is no way back */
_Static_assert(sizeof(struct shm_regs) == 64, "ip, sp, bp, bx, r12 to r15, in this order");
#define ARCH_REGS_HERE(r)                                                                                              \
	__asm__ volatile("leaq 0(%%rip), %%rax\n\t"                                                                    \
			 "movq %%rax, 0(%0)\n\t"                                                                       \
			 "movq %%rsp, 8(%0)\n\t"                                                                       \
			 "movq %%rbp, 16(%0)\n\t"                                                                      \
			 "movq %%rbx, 24(%0)\n\t"                                                                      \
			 "movq %%r12, 32(%0)\n\t"                                                                      \
			 "movq %%r13, 40(%0)\n\t"                                                                      \
			 "movq %%r14, 48(%0)\n\t"                                                                      \
			 "movq %%r15, 56(%0)\n\t"                                                                      \
			 :                                                                                             \
			 : "r"(r)                                                                                      \
			 : "rax", "memory")

#define ARCH_INCREMENT(word) __asm__ volatile("incq %0" : "+m"(word))
#define ARCH_ADD(word, n) __asm__ volatile("addq %1, %0" : "+m"(word) : "r"(n))

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

static inline uint64_t ucontext_ip(const ucontext_t *c)
{
	return (uint64_t)c->uc_mcontext.gregs[REG_RIP];
}
static inline uint64_t ucontext_sp(const ucontext_t *c)
{
	return (uint64_t)c->uc_mcontext.gregs[REG_RSP];
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/arch.h"

#include "shim/libpillion/core/syscall.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define ALL_MEMORY 0x7ffffffff000 /* TASK_SIZE, without addresses that are given only on request */

/* --- a signal's context */

#define REG(name) ((uint64_t)c->uc_mcontext.gregs[REG_##name])

void ucontext_fill(struct shm_regs *to, const ucontext_t *c)
{
	to->ip = REG(RIP);
	to->sp = REG(RSP);
	to->bp = REG(RBP);
	to->bx = REG(RBX);
	to->r12 = REG(R12);
	to->r13 = REG(R13);
	to->r14 = REG(R14);
	to->r15 = REG(R15);
}

void ucontext_fill_more(struct shm_more_regs *to, const ucontext_t *c)
{
	to->ax = REG(RAX);
	to->cx = REG(RCX);
	to->dx = REG(RDX);
	to->si = REG(RSI);
	to->di = REG(RDI);
	to->r8 = REG(R8);
	to->r9 = REG(R9);
	to->r10 = REG(R10);
	to->r11 = REG(R11);
}

void ucontext_fill_exception(struct shm_crash *to, const ucontext_t *c)
{
	to->flags = REG(EFL);
	to->trap = REG(TRAPNO);
	to->error = REG(ERR);
}

/* Exactly the bytes by which unwinders know a signal's frame. */
__asm__(".pushsection .text\n"
	".globl sigaction_restorer\n"
	".hidden sigaction_restorer\n"
	".type sigaction_restorer, @function\n"
	"sigaction_restorer:\n\t"
	"movq $15, %rax\n\t"
	"syscall\n"
	".size sigaction_restorer, . - sigaction_restorer\n"
	".popsection");

/* --- the CPU and the kernel */

bool ticks_invariant(void)
{
	unsigned a, b, c, d;
	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

uint64_t thread_pointer(void)
{
	uint64_t tp = 0;
	sys_call(arch_prctl, ARCH_GET_FS, &tp);
	return tp;
}

/* --- code that may use no stack of ours */

long clone_call(unsigned long flags, int (*fn)(void *), void *arg, void *stack_end)
{
	long ret;
	register long a1 __asm__("rdi") = (long)flags;
	register long a2 __asm__("rsi") = (long)stack_end;
	register long a3 __asm__("rdx") = 0;
	register long a4 __asm__("r10") = 0;
	register long a5 __asm__("r8") = 0;
	register void *call __asm__("r12") = (void *)fn;
	register void *with __asm__("r13") = arg;
	__asm__ volatile("syscall\n\t"
			 "test %%eax, %%eax\n\t"
			 "jnz 1f\n\t"
			 "xor %%ebp, %%ebp\n\t"
			 "mov %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "mov %%eax, %%edi\n\t"
			 "mov %[exit], %%eax\n\t"
			 "syscall\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(ret), "+r"(a1), "+r"(a2), "+r"(a3), "+r"(a4), "+r"(a5)
			 : "0"((long)SYS_clone), "r"(call), "r"(with), [exit] "i"(SYS_exit_group)
			 : "rcx", "r11", "r9", "memory", "cc");
	return ret;
}

void keeper_wait(long parent, int pidfd)
{
	static const uint64_t but_term = ~(1ull << (SIGTERM - 1));
	register long r12 __asm__("r12") = parent;
	register long r13 __asm__("r13") = (long)&but_term;
	register long r14 __asm__("r14") = (uint32_t)pidfd | (long)POLLIN << 32; /* struct pollfd */
	__asm__ volatile("mov %[madvise], %%eax\n\t"				 /* (0, all, MADV_DONTNEED) */
			 "xor %%edi, %%edi\n\t"
			 "movabs %[all], %%rsi\n\t"
			 "mov %[dontneed], %%edx\n\t"
			 "syscall\n"
			 "1:\n\t"
			 "mov %[wait4], %%eax\n\t" /* (-1, 0, __WALL, 0) */
			 "mov $-1, %%rdi\n\t"
			 "xor %%esi, %%esi\n\t"
			 "mov %[wall], %%edx\n\t"
			 "xor %%r10d, %%r10d\n\t"
			 "syscall\n\t"
			 "cmp %[echild], %%rax\n\t"
			 "jne 1b\n\t"
			 "mov %[getppid], %%eax\n\t"
			 "syscall\n\t"
			 "cmp %%r12, %%rax\n\t"
			 "jne 2f\n\t"
			 "push %%r14\n\t" /* the stack's page is there, and empty */
			 "mov %[ppoll], %%eax\n\t"
			 "mov %%rsp, %%rdi\n\t"
			 "mov $1, %%esi\n\t"
			 "xor %%edx, %%edx\n\t"
			 "mov %%r13, %%r10\n\t"
			 "mov $8, %%r8d\n\t"
			 "syscall\n"
			 "2:\n\t"
			 "mov %[exit], %%eax\n\t"
			 "xor %%edi, %%edi\n\t"
			 "syscall\n\t"
			 "ud2"
			 :
			 : "r"(r12), "r"(r13),
			 "r"(r14), [madvise] "i"(SYS_madvise), [all] "i"(ALL_MEMORY), [dontneed] "i"(MADV_DONTNEED),
			 [wait4] "i"(SYS_wait4), [wall] "i"(__WALL), [echild] "i"(-ECHILD), [getppid] "i"(SYS_getppid),
			 [ppoll] "i"(SYS_ppoll), [exit] "i"(SYS_exit_group)
			 : "memory", "rax", "rdi", "rsi", "rdx", "r10", "r8", "rcx", "r11");
}

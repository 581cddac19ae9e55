/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/inproc_arch.h"

#define PAGE_FAULT 14 /* the exception (Intel SDM 3A, 6.15), and bits of its error code */
#define FAULT_WRITE 2
#define FAULT_FETCH 16

void inproc_regs_take(const struct shm_regs *from, const struct shm_more_regs *more, struct unwind_regs *ret)
{
	uint64_t *regs = ret->r;
	regs[UNWIND_IP] = from->ip;
	regs[UNWIND_SP] = from->sp;
	regs[UNWIND_BP] = from->bp;
	regs[UNWIND_BX] = from->bx;
	regs[UNWIND_R12] = from->r12;
	regs[UNWIND_R13] = from->r13;
	regs[UNWIND_R14] = from->r14;
	regs[UNWIND_R15] = from->r15;
	if (!more)
		return;
	regs[UNWIND_AX] = more->ax;
	regs[UNWIND_CX] = more->cx;
	regs[UNWIND_DX] = more->dx;
	regs[UNWIND_SI] = more->si;
	regs[UNWIND_DI] = more->di;
	regs[UNWIND_R8] = more->r8;
	regs[UNWIND_R9] = more->r9;
	regs[UNWIND_R10] = more->r10;
	regs[UNWIND_R11] = more->r11;
}

const struct inproc_reg inproc_regs[UNWIND_REGS] = {{"rip", UNWIND_IP}, {"rsp", UNWIND_SP}, {"rbp", UNWIND_BP},
	{"rax", UNWIND_AX}, {"rbx", UNWIND_BX}, {"rcx", UNWIND_CX}, {"rdx", UNWIND_DX}, {"rsi", UNWIND_SI},
	{"rdi", UNWIND_DI}, {"r8", UNWIND_R8}, {"r9", UNWIND_R9}, {"r10", UNWIND_R10}, {"r11", UNWIND_R11},
	{"r12", UNWIND_R12}, {"r13", UNWIND_R13}, {"r14", UNWIND_R14}, {"r15", UNWIND_R15}};
const char inproc_flags[] = "eflags";

const char *inproc_access(const struct shm_crash *s)
{
	if (s->trap != PAGE_FAULT)
		return "";
	return s->error & FAULT_FETCH ? "code at " : s->error & FAULT_WRITE ? "write to " : "read of ";
}

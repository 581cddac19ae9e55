/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/ucontext_regs.h"

void ucontext_fill(struct shm_record *to, const ucontext_t *c)
{
	to->ip = UCONTEXT_REG(c, RIP);
	to->sp = UCONTEXT_REG(c, RSP);
	to->bp = UCONTEXT_REG(c, RBP);
	to->bx = UCONTEXT_REG(c, RBX);
	to->r12 = UCONTEXT_REG(c, R12);
	to->r13 = UCONTEXT_REG(c, R13);
	to->r14 = UCONTEXT_REG(c, R14);
	to->r15 = UCONTEXT_REG(c, R15);
}

void ucontext_fill_more(struct shm_more *to, const ucontext_t *c)
{
	to->ax = UCONTEXT_REG(c, RAX);
	to->cx = UCONTEXT_REG(c, RCX);
	to->dx = UCONTEXT_REG(c, RDX);
	to->si = UCONTEXT_REG(c, RSI);
	to->di = UCONTEXT_REG(c, RDI);
	to->r8 = UCONTEXT_REG(c, R8);
	to->r9 = UCONTEXT_REG(c, R9);
	to->r10 = UCONTEXT_REG(c, R10);
	to->r11 = UCONTEXT_REG(c, R11);
}

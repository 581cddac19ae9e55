#include "shim/libpillion/core/ucontext_regs.h"

void context_fill(struct area_record *to, const ucontext_t *c)
{
	to->ip = CONTEXT_REG(c, RIP);
	to->sp = CONTEXT_REG(c, RSP);
	to->bp = CONTEXT_REG(c, RBP);
	to->bx = CONTEXT_REG(c, RBX);
	to->r12 = CONTEXT_REG(c, R12);
	to->r13 = CONTEXT_REG(c, R13);
	to->r14 = CONTEXT_REG(c, R14);
	to->r15 = CONTEXT_REG(c, R15);
}

void context_fill_more(struct area_more *to, const ucontext_t *c)
{
	to->ax = CONTEXT_REG(c, RAX);
	to->cx = CONTEXT_REG(c, RCX);
	to->dx = CONTEXT_REG(c, RDX);
	to->si = CONTEXT_REG(c, RSI);
	to->di = CONTEXT_REG(c, RDI);
	to->r8 = CONTEXT_REG(c, R8);
	to->r9 = CONTEXT_REG(c, R9);
	to->r10 = CONTEXT_REG(c, R10);
	to->r11 = CONTEXT_REG(c, R11);
}

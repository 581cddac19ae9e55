/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/sigaction.h"

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

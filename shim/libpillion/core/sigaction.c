#include "shim/libpillion/core/sigaction.h"

/* The very bytes by which unwinders know a signal's frame. */
__asm__(".pushsection .text\n"
	".globl action_restorer\n"
	".hidden action_restorer\n"
	".type action_restorer, @function\n"
	"action_restorer:\n\t"
	"movq $15, %rax\n\t"
	"syscall\n"
	".size action_restorer, . - action_restorer\n"
	".popsection");

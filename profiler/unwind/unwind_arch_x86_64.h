/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's order of registers: arch/x86/include/uapi/asm/perf_regs.h. */
#pragma once

enum unwind_reg {
	UNWIND_AX,
	UNWIND_BX,
	UNWIND_CX,
	UNWIND_DX,
	UNWIND_SI,
	UNWIND_DI,
	UNWIND_BP,
	UNWIND_SP,
	UNWIND_IP,
	UNWIND_R8,
	UNWIND_R9,
	UNWIND_R10,
	UNWIND_R11,
	UNWIND_R12,
	UNWIND_R13,
	UNWIND_R14,
	UNWIND_R15,
	UNWIND_REGS,
	UNWIND_FP = UNWIND_BP,
};

static const uint8_t unwind_reg_of[DWARF_REGS] = {UNWIND_AX, UNWIND_DX, UNWIND_CX, UNWIND_BX, UNWIND_SI, UNWIND_DI,
	UNWIND_BP, UNWIND_SP, UNWIND_R8, UNWIND_R9, UNWIND_R10, UNWIND_R11, UNWIND_R12, UNWIND_R13, UNWIND_R14,
	UNWIND_R15, UNWIND_IP};

/* psABI, figure 3.4 */
#define CFI_SAVED_REGS(X)                                                                                              \
	X(0, DWARF_RBX) X(1, DWARF_RBP) X(2, DWARF_R12) X(3, DWARF_R13) X(4, DWARF_R14) X(5, DWARF_R15)
#define CFI_RULE_SAVED 7

/* ucontext_t, which is at the restorer's stack pointer: arch/x86/include/uapi/asm/sigcontext.h, 40 bytes into it */
#define UNWIND_SIGNAL_FP 0x78
#define UNWIND_SIGNAL_SP 0xa0
#define UNWIND_SIGNAL_IP 0xa8

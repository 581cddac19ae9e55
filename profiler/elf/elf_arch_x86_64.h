/* SPDX-License-Identifier: Apache-2.0 */
/* x86-64 psABI: figure 3.36 (registers), table 4.9 (relocations), "Procedure Linkage Table". */
#pragma once

#include <elf.h>

#define ELF_ARCH_NATIVE EM_X86_64
#define ELF_ARCH_EMULATED EM_AARCH64
#define ELF_ARCH_RELATIVE R_X86_64_RELATIVE
#define ELF_ARCH_STUB 16
#define ELF_ARCH_GO_ENTRY "_rt0_amd64_linux"

enum dwarf_reg {
	DWARF_RAX,
	DWARF_RDX,
	DWARF_RCX,
	DWARF_RBX,
	DWARF_RSI,
	DWARF_RDI,
	DWARF_RBP,
	DWARF_RSP,
	DWARF_R8,
	DWARF_R9,
	DWARF_R10,
	DWARF_R11,
	DWARF_R12,
	DWARF_R13,
	DWARF_R14,
	DWARF_R15,
	DWARF_RA,
	DWARF_REGS,
	DWARF_FP = DWARF_RBP,
	DWARF_SP = DWARF_RSP,
};

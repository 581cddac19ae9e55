/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_arch - this machine in ELF files and in DWARF. A file for each machine has:
 *
 *	ELF_ARCH_NATIVE		e_machine of programs that the CPU runs: their stacks are unwound
 *	ELF_ARCH_EMULATED	e_machine of programs that an emulator may run: they have names and no more
 *	ELF_ARCH_RELATIVE	type of the relocation with the load address plus the addend as its value
 *	ELF_ARCH_STUB		bytes of a stub in .plt
 *	ELF_ARCH_GO_ENTRY	name of the function at which a Go program begins
 *	enum dwarf_reg		DWARF's numbers of the registers; DWARF_FP, DWARF_SP, DWARF_RA (the return address), and
 *				DWARF_REGS, their number
 */
#pragma once

#if defined(__x86_64__)
#include "profiler/elf/elf_arch_x86_64.h"
#else
#error "pillion has no file for this machine: see ARCHITECTURE.md"
#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_arch - a machine's registers, its frames and the code that no table describes. A file for each machine has:
 *
 *	enum unwind_reg		registers of a sample, in the order in which the kernel writes those of
 *				PERF_REGS_USER_MASK (shim/event/event_arch.h); UNWIND_FP, UNWIND_SP, UNWIND_IP, and
 *				UNWIND_REGS, their number
 *	unwind_reg_of		for each of DWARF's registers, the one of a sample
 *	CFI_SAVED_REGS(X)	X(slot, register) for each register that a callee saves (cfi_rule.h)
 *	CFI_RULE_SAVED		their slots and, as the last one, that of the return address
 *	UNWIND_SIGNAL_FP, _SP, _IP
 *				where a signal's frame keeps them: bytes from its restorer's stack pointer
 */
#pragma once

#include "profiler/elf/elf_arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include "profiler/unwind/unwind_arch_x86_64.h"
#else
#error "pillion has no file for this machine: see ARCHITECTURE.md"
#endif

_Static_assert(DWARF_REGS <= 32, "masks of registers are 32 bits");

struct cfi_row;
struct cfi_rule;
struct unwind_regs;

/* The rule in a Go function where the stack pointer is `delta` bytes below its place at the first instruction. */
struct cfi_rule unwind_go_rule(int64_t delta);
/*
 * Stores the rules of a stub in .plt, `from` its beginning on; lazy: a table of ELF_ARCH_STUB bytes each,
 * and its first stub calls the dynamic linker. Returns their number, at most UNWIND_STUB_ROWS.
 */
#define UNWIND_STUB_ROWS 2
size_t unwind_stub_rows(bool lazy, bool first, struct cfi_row *ret);
/* From the first instruction of a function back to its call. False: the stack's copy does not have the caller. */
bool unwind_undo_call(struct unwind_regs *r, const uint8_t **stack, uint64_t *size);

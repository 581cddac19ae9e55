/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf_expr - evaluates the DWARF expressions of unwind tables (DWARF 5, 2.5): arithmetic, registers, memory. No
 * jumps, no division: compilers and the C library use none, and neither an endless loop nor a SIGFPE can be written
 * without.
 *
 * The bytes are hostile. Every operation takes at least one of them, so their number bounds the work.
 */
#pragma once

#include "profiler/elf/dwarf_cursor.h"
#include "profiler/elf/elf_arch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a word of the stack; false: it cannot be read. */
typedef bool dwarf_expr_read_fn(void *arg, uint64_t addr, uint64_t *ret);

struct dwarf_expr {
	const uint8_t *bytes;
	size_t len;
};
/*
 * `first` is on the evaluation stack at the beginning (the CFA), or NULL; `known`: bit mask of registers that are.
 * False: it cannot be evaluated.
 */
bool dwarf_expr_eval(struct dwarf_expr x, const uint64_t regs[DWARF_REGS], uint32_t known, const uint64_t *first,
	dwarf_expr_read_fn *read, void *arg, uint64_t *ret);

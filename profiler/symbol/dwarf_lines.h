/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf_lines - source file, line and inlined calls of an address, from DWARF (versions 2 to 5) through elfutils'
 * libdw.
 *
 * libdw maps the file and trusts its author further than we do: only a process that holds nothing and may die at
 * any moment opens one of these (profiler/symbol/symbolizer_client.h). Addresses are virtual addresses as linked; a
 * separate debug file has those of the file it belongs to.
 *
 * What is looked at: .debug_aranges for the unit of an address and, once they do not name one, a DIE of each unit for
 * its address ranges; of a unit that an address falls into, these ranges, the line table and where its functions lie;
 * of a function, the inlined calls around the address.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/elf.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DWARF_LINES_DEPTH_MAX 64 /* calls inlined into each other; what is deeper is left out */

struct dwarf_line {
	const char *function; /* linkage name where there is one; NULL: unknown */
	const char *file;     /* with the directory of the compilation; NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	uint32_t start_line;  /* where the function is declared; 0: unknown */
};

struct dwarf_lines;
/*
 * Images of files that stay: debug, with .debug_info; alt, what its .gnu_debugaltlink names (dwz(1)), data NULL: none.
 * memory: what libdw took since it was opened is let go of beyond this many bytes.
 */
int dwarf_lines_open(const struct elf_memory *debug, const struct elf_memory *alt, size_t memory,
	struct dwarf_lines **ret, struct err *e);
struct dwarf_lines *dwarf_lines_close(struct dwarf_lines *l); /* NULL is fine */
/*
 * Innermost first; the last one is the function that the code belongs to. How many, 0: nothing is known, -ENOMEM.
 * Strings are valid until the next call.
 */
ssize_t dwarf_lines_find(struct dwarf_lines *l, uint64_t vaddr, struct dwarf_line *ret, size_t max);

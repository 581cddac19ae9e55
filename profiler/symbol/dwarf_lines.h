/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf_lines - source file, line and inlined calls of an address, from DWARF (versions 2 to 5) through elfutils'
 * libdw.
 *
 * libdw maps the file and trusts its author more than we do: only a process that holds nothing and may die at any
 * moment may use this (profiler/symbol/symbolizer_client.h). Addresses are virtual addresses as linked; a separate
 * debug file has those of the file it belongs to.
 *
 * A search reads .debug_aranges for the unit of an address. Once they do not name one, it reads a DIE of each unit for
 * its address ranges. Of the unit around an address it reads these ranges, the line table and the places of functions;
 * of a function, the inlined calls around the address.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/elf/elf.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DWARF_LINES_DEPTH_MAX 64 /* calls inlined into each other; deeper ones are left out */

struct dwarf_line {
	const char *function; /* linkage name where there is one; NULL: unknown */
	const char *file;     /* with the directory of the compilation; NULL: unknown */
	uint32_t line;	      /* 0: unknown */
	uint32_t start_line;  /* where the function is declared; 0: unknown */
};

struct dwarf_lines;
/*
 * Opens images of files, which must stay: debug, with .debug_info; alt, the file that its .gnu_debugaltlink names
 * (dwz(1)), data NULL: none. memory: bytes that libdw may take before it is closed and opened anew.
 */
int dwarf_lines_open(const struct elf_memory *debug, const struct elf_memory *alt, size_t memory,
	struct dwarf_lines **ret, struct err *e);
struct dwarf_lines *dwarf_lines_close(struct dwarf_lines *l); /* NULL is fine */
/*
 * Finds the functions at an address, innermost first; the last one is the function that the code belongs to. Returns
 * how many, 0: nothing is known, or -ENOMEM. Strings are valid until the next call.
 */
ssize_t dwarf_lines_find(struct dwarf_lines *l, uint64_t vaddr, struct dwarf_line *ret, size_t max);

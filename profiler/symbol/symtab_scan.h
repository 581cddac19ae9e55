/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab_scan - the names of a few addresses from symbol tables of any size: each symbol is looked at once and nothing
 * is kept of it. For files with more symbols than memory allows (symtab_read: -ENOSPC), and for a process that is asked
 * once.
 *
 * The rules are those of symtab.h: of the functions around an address the innermost one, of the symbols at one place
 * the preferred one. Stubs, .gnu_debugdata and Go's table are not looked at.
 */
#pragma once

#include "profiler/elf/elf.h"

#include <stddef.h>
#include <stdint.h>

#define SYMTAB_SCAN_STEPS (1u << 30) /* symbols, and addresses that they cover; the rest of a file is ignored */

/*
 * image: a whole file in memory. vaddrs: ascending; label_floors: as in symtab_find, for each; NULL: symtab_label_floor
 * of each. names: n of them, into the image, NULL where no symbol covers the address. 0 also where there are no
 * symbols; -errno as elf_read.
 */
int symtab_scan_symbols(const struct elf_memory *image, const uint64_t *vaddrs, const uint64_t *label_floors, size_t n,
	const char **names, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug_sections - a debug file with its sections decompressed (elf(5), SHF_COMPRESSED), for libdw.
 *
 * Debian's debug packages are compressed, and most of what naming a function of libc takes is decompressing them:
 * libelf does so with zlib, and with all sections, those that nothing here reads among them. libdeflate takes less than
 * half of the time, for those that are read.
 */
#pragma once

#include "profiler/elf/elf.h"

#include <stddef.h>

/*
 * An ELF file of *ret_size bytes in memory, malloc'ed, which holds what profiler/symbol/dwarf_lines.h reads of `file`
 * and nothing else. NULL: `file` serves as it is, as nothing in it is compressed, or not by zlib, or it is malformed,
 * which libdw then has a sentence for.
 */
void *debug_sections_decompress(const struct elf_memory *file, size_t *ret_size);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debug_sections - a debug file with its sections decompressed (elf(5), SHF_COMPRESSED), for libdw.
 *
 * Debian's debug packages are compressed, and to decompress them is most of the work of naming a function of libc.
 * libelf decompresses with zlib, and all sections, also those that are never read here. libdeflate takes less than half
 * of the time, for the sections that are read.
 */
#pragma once

#include "profiler/elf/elf.h"

#include <stddef.h>

/*
 * Returns a malloc'ed ELF file of *ret_size bytes with only the sections of `file` that profiler/symbol/dwarf_lines.h
 * reads. NULL: use `file` as it is. Either nothing in it is compressed, or not by zlib, or it is malformed, for which
 * libdw has an error message.
 */
void *debug_sections_decompress(const struct elf_memory *file, size_t *ret_size);

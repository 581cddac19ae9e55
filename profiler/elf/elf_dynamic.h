/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_dynamic - the sections of a file whose section headers are missing or wrong, as its dynamic segment has them
 * (gABI, "Dynamic Section"; DT_GNU_HASH: binutils, bfd/elflink.c). The loader reads no section header, so strip
 * --strip-sections and packers leave none.
 *
 * Every address goes through PT_LOAD to a place in the file, every size ends where the segment or the file ends.
 */
#pragma once

#include "profiler/elf/elf.h"

/*
 * Nothing changes if the file has no dynamic segment with symbols, or if a section is that segment: then its headers
 * are true. Else t->sections become .dynsym, .dynstr, .rela.plt (empty if there are no stubs), and a section without a
 * name for each executable PT_LOAD. What cannot be read, also for lack of memory, is as if it were not there.
 */
void elf_dynamic_read(struct elf_source src, struct elf_tables *t);

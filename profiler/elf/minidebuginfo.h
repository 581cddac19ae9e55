/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minidebuginfo - unpacks a section .gnu_debugdata: an ELF file of symbols only, packed with xz, that distributions
 * leave in stripped files (gdb manual, "MiniDebugInfo"). This is the only file that unpacks xz.
 *
 * The bytes are hostile: the size of the output is bounded by that of the input, and the decoder's dictionary is
 * bounded.
 */
#pragma once

#include "profiler/elf/elf.h"

#define MINIDEBUGINFO_MAX (64u << 20)  /* unpacked bytes; also bytes of the decoder's own memory */
#define MINIDEBUGINFO_RATIO 32	       /* and at most so many for each packed byte; 4 to 8 are usual */
#define MINIDEBUGINFO_SMALL (1u << 20) /* but so many are always allowed */

/* malloc'ed. -EBADMSG: not xz, damaged or cut; -EFBIG: over a limit above; or the errno of a read. */
int minidebuginfo_unpack(
	struct elf_source src, uint64_t offset, uint64_t size, uint8_t **ret, size_t *ret_size, struct err *e);

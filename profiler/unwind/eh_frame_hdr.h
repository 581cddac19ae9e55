/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eh_frame_hdr - finds the frame description of an address in .eh_frame_hdr and vets it (LSB core, "Exception Frames";
 * DWARF 5, 6.4).
 *
 * The vetting protects the evaluator behind it (libunwind), which trusts its input: lengths stay inside of the section,
 * instructions and operands are whole, and expressions consist of plain arithmetic only. No jumps (endless), no
 * division (INT64_MIN / -1 is a SIGFPE). Compilers and the C library use nothing beyond that.
 */
#pragma once

#include "profiler/elf/elf.h"

/*
 * *ret_entry: where the search table's entry (two 32-bit words) for `vaddr` lies, as a virtual address.
 * -ENOENT: none covers it. -EBADMSG: malformed, or more than we let through.
 */
int eh_frame_hdr_find(const struct elf *f, uint64_t vaddr, uint64_t *ret_entry);

/*
 * The code [*ret_start, *ret_end) of the entry that begins last at or below `vaddr`. Where it ends at or below `vaddr`
 * too, no entry covers that. -ENOENT: none begins there; -EBADMSG: as above.
 */
int eh_frame_hdr_last(const struct elf *f, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end);

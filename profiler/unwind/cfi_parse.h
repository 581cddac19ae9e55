/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_parse - reads the entries of .eh_frame and .debug_frame: which code each describes and where its instructions are
 * (LSB core, "Exception Frames"; DWARF 5, 6.4.1).
 *
 * The bytes are hostile: an entry that is malformed, or of a kind that no compiler writes, is refused as if it were not
 * there.
 */
#pragma once

#include "profiler/elf/dwarf_cursor.h"
#include "profiler/elf/elf_arch.h"
#include "profiler/elf/elf.h"

#include <stdbool.h>
#include <stdint.h>

#define CFI_CIE_MAX 256 /* bytes of instructions that every entry of it runs first */
#define CFI_CIES 32	/* kept: neighbours share them */

/* A CIE: the parts that entries have in common. */
struct cfi_cie {
	uint32_t off; /* of its length word */
	bool good, has_data, signal;
	uint8_t encoding; /* of addresses in its entries */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra;
	struct dwarf_cursor program;
};

struct cfi_section {
	const struct elf_section *bytes;
	bool debug;	 /* .debug_frame: absolute addresses, CIEs by offset */
	bool open_ended; /* an empty entry is the end; else it is skipped: linkers leave such in the middle */
	struct cfi_cie cies[CFI_CIES];
};

struct cfi_entry {
	uint64_t start, end;
	uint32_t cie;		/* offset of its length word */
	uint32_t program, stop; /* offsets of its instructions */
	uint32_t from;		/* for the caller's use */
};

/* The bytes behind the length word at `off`; none where that word is 0 or leads out of the section. */
static inline struct dwarf_cursor cfi_entry_at(const struct elf_section *s, uint64_t off)
{
	struct dwarf_cursor r = dwarf_read(s->data, s->size);
	dwarf_take(&r, off);
	uint32_t len = (uint32_t)dwarf_uint(&r, 4); /* 0 ends the section; 0xffffffff, the 64-bit format, is longer */
	return dwarf_read(len ? dwarf_take(&r, len) : NULL, len);
}

static inline struct cfi_cie *cfi_cie_slot(struct cfi_section *s, uint32_t off)
{
	return &s->cies[(off ^ off >> 7) / 4 % CFI_CIES];
}
const struct cfi_cie *cfi_cie_read(struct cfi_section *s, uint32_t off);
/* The CIE at `off`, NULL if it is none or none of ours; it stays until another one takes its place in s->cies. */
static inline const struct cfi_cie *cfi_cie_get(struct cfi_section *s, uint32_t off)
{
	const struct cfi_cie *cie = cfi_cie_slot(s, off);
	return cie->good && cie->off == off ? cie : cfi_cie_read(s, off);
}
/* Reads the entry with the length word at `off`; false: there is none, or it is a CIE. */
bool cfi_entry_read(struct cfi_section *s, uint32_t off, struct cfi_entry *ret);

/* Walks the entries; *off: where it goes on. False: there are no more. *ret: the offset of an entry, good or not. */
bool cfi_entry_next(const struct cfi_section *s, uint64_t *off, uint32_t *ret);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_execute - runs the instructions of an entry of .eh_frame or .debug_frame (DWARF 5, 6.4.2 and 7.24): where the
 * caller's registers are, for each stretch of the code that the entry describes.
 *
 * The bytes are hostile: an unknown or senseless instruction ends the program. Each instruction takes a byte at least,
 * and an entry's CIE has CFI_CIE_MAX of them at most, so the section's size bounds the work.
 */
#pragma once

#include "profiler/unwind/cfi_parse.h"
#include "profiler/unwind/cfi_rule.h"

#define CFI_EXPRESSION_MAX 128 /* bytes */
#define CFI_REMEMBER_MAX 64    /* states at a time */

/*
 * The rules for all registers: those of the usual form in `usual`, always of kind CFI_RULE_FRAME, the rest in `full`.
 */
struct cfi_state {
	struct cfi_rule usual;
	uint32_t odd;  /* registers that are in `full` */
	uint32_t gone; /* registers that are undefined, of those that the usual form does not have */
	bool odd_cfa;
	struct cfi_rule_full full;
};

#define CFI_BATCH 64
struct cfi_row {
	uint64_t from;
	struct cfi_rule rule; /* CFI_RULE_FULL: the rule is in p->now, and the row is the last of its batch */
};

struct cfi_execute {
	struct cfi_section *section;
	struct cfi_state now;

	const struct cfi_cie *cie;
	struct dwarf_cursor reader;
	uint64_t at, limit;
	bool done, bad; /* bad: from `at` on no rule is known */
	unsigned n_remembered;
	struct {
		bool known;
		uint32_t off;
	} initial_of[CFI_CIES];
	struct cfi_state initial[CFI_CIES], remembered[CFI_REMEMBER_MAX]; /* initial: behind the CIE's instructions */
};

/* Begins an entry, up to the address `limit`. Before the first entry, `section` is set and the rest is 0. */
void cfi_execute_begin(struct cfi_execute *p, const struct cfi_entry *e, uint64_t limit);
/* Returns the next stretches of code and their rules; 0: there are no more, and p->bad says whether it ended well. */
size_t cfi_execute_rows(struct cfi_execute *p, struct cfi_row rows[CFI_BATCH]);

/* p->now in full; expressions are at offsets of the section. */
void cfi_to_full(const struct cfi_state *s, struct cfi_rule_full *ret);

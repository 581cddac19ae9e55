/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cfi_rule - how to get from a frame to its caller: where the CFA is (the stack pointer before the call), and where
 * each of the caller's registers is kept (DWARF 5, 6.4.1). Most rules have the usual form and 24 bytes.
 */
#pragma once

#include "profiler/elf/dwarf_cursor.h"
#include "profiler/unwind/unwind_arch.h"

#include <stdint.h>

enum cfi_rule_kind {
	CFI_RULE_NONE,	 /* no entry covers it */
	CFI_RULE_END,	 /* there is no caller: the return address is undefined */
	CFI_RULE_FRAME,	 /* CFA = register + offset, registers at offsets from it */
	CFI_RULE_FULL,	 /* see unwind_table_full */
	CFI_RULE_SWITCH, /* the caller is on another stack, and nothing here says where */
};

#define CFI_RULE_SAVED_RA (CFI_RULE_SAVED - 1)
#define CFI_RULE_SAME INT16_MIN

struct cfi_rule {
	uint8_t kind;		    /* enum cfi_rule_kind */
	uint8_t cfa_reg;	    /* enum dwarf_reg */
	uint8_t signal;		    /* the caller was interrupted, it did not call */
	uint8_t lost;		    /* registers of the caller that are not to be had: bits by the index of `at` */
	int32_t cfa;		    /* offset; CFI_RULE_FULL: index of the full rule */
	int16_t at[CFI_RULE_SAVED]; /* words of 8 bytes from the CFA, or CFI_RULE_SAME */
	int16_t reserved2;
};

#define CFI_RULE_WORDS 3
_Static_assert(sizeof(struct cfi_rule) == 8 * CFI_RULE_WORDS, "a rule is three words");

/*
 * A word of a rule. Rules are hashed by words. A load of bytes that were just stored in parts waits for these stores.
 */
static inline uint64_t cfi_rule_word(const struct cfi_rule *r, unsigned i)
{
	uint64_t w;
	memcpy(&w, (const char *)r + sizeof(w) * i, sizeof(w));
	return w;
}

/* The register rules of DWARF 5, 6.4.1. */
enum cfi_register_kind {
	CFI_REGISTER_SAME_VALUE,     /* as it is in this frame */
	CFI_REGISTER_UNDEFINED,	     /* not to be had */
	CFI_REGISTER_OFFSET,	     /* in memory at CFA + n */
	CFI_REGISTER_VAL_OFFSET,     /* CFA + n */
	CFI_REGISTER_REGISTER,	     /* in register `reg`, + n */
	CFI_REGISTER_EXPRESSION,     /* in memory at the value of the expression */
	CFI_REGISTER_VAL_EXPRESSION, /* the value of the expression */
};

struct cfi_register {
	uint8_t how, reg;
	uint16_t len; /* of the expression, which begins at offset `n` of the section or table that the rule is in */
	int64_t n;
};

struct cfi_rule_full {
	struct cfi_register cfa, reg[DWARF_REGS];
};

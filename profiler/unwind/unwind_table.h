/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_table - how to get from a frame to its caller, compiled from .eh_frame and Go's pclntab into a table: one row
 * for every stretch of code in which the answer is the same, with the rule that holds there (DWARF 5, 6.4; LSB core,
 * "Exception Frames").
 *
 * Rows are 8 bytes, sorted by address, found by an index over pages of code and a binary search; equal rules are stored
 * once per module. A rule that the usual form does not express (the CFA by an expression, registers at places other
 * than an offset from it) is a full rule in a side table. Everything is relative to the file, so the table serves every
 * process and container that runs it.
 *
 * The bytes are hostile. Senseless entries are left out; unwind_table_stats says how many. Where entries overlap, the
 * one that begins later counts from its beginning on.
 */
#pragma once

#include "profiler/elf/elf.h"
#include "profiler/unwind/cfi_rule.h"
#include "profiler/unwind/dwarf_expr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNWIND_TABLE_MAX (4u << 20)	   /* rows; code beyond has none */
#define UNWIND_TABLE_RULES_MAX (1u << 20)  /* different rules */
#define UNWIND_TABLE_FULL_MAX 4096	   /* full ones */
#define UNWIND_TABLE_EXPRESSIONS_MAX 16384 /* bytes of different expressions */

struct unwind_table_stats {
	size_t rows, rules, full, entries, left_out;
};

struct unwind_table;
/*
 * Builds the table of a file; it is empty, not an error, where no code is described. `max`: bytes that may be in use
 * meanwhile; code beyond has no rows. -ENOMEM. Reads `f` during the call only.
 */
int unwind_table_build(const struct elf *f, size_t max, struct unwind_table **ret);
struct unwind_table *unwind_table_free(struct unwind_table *t); /* NULL is fine */
size_t unwind_table_bytes(const struct unwind_table *t);
void unwind_table_stats(const struct unwind_table *t, struct unwind_table_stats *ret);

/*
 * Reads the code that no entry describes (hand-written assembly, a C library built without tables), so that
 * profiler/unwind/epilogue.h can look at it. `max`: bytes that it may take. A stretch that cannot be read has none, and
 * where entries were left out, nothing is read: their code is described.
 */
void unwind_table_read_code(struct unwind_table *t, const struct elf *f, struct elf_source src, size_t max);
void unwind_table_drop_code(struct unwind_table *t);
struct code_stretch {
	struct elf_section bytes;
	bool keeps_fp; /* its functions set up a frame pointer (epilogue_keeps_fp) */
};
/* The stretch of such code around an address, or NULL. */
const struct code_stretch *unwind_table_code(const struct unwind_table *t, uint64_t vaddr);
/* A key of an address in such code, unlike that of another table ever; files of 2 GiB and more have some twice. */
uint64_t unwind_table_code_key(const struct unwind_table *t, uint64_t vaddr);

const struct cfi_rule *unwind_table_find(const struct unwind_table *t, uint64_t vaddr); /* never NULL */
/* A key of an address in a table, unlike that of any other table ever; 0: the table has none there. */
uint64_t unwind_table_key(const struct unwind_table *t, uint64_t vaddr);
const struct cfi_rule_full *unwind_table_full(const struct unwind_table *t, const struct cfi_rule *r);

/* Evaluate the expression of a place (dwarf_expr.h), which is one of this table. */
bool unwind_table_eval(const struct unwind_table *t, const struct cfi_register *p, const uint64_t regs[DWARF_REGS],
	uint32_t known, const uint64_t *first, dwarf_expr_read_fn *read, void *arg, uint64_t *ret);

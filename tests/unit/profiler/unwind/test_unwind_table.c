/* SPDX-License-Identifier: Apache-2.0 */
/* rows: what instructions become, what makes no sense, where entries overlap, and this program's own table. */
#include "profiler/unwind/unwind_table.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/unwind/cfi_execute.h"
#include "profiler/unwind/cfi_parse.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define FRAME 0x1000u /* where .eh_frame is */
#define CODE 0x5000u  /* 0x100 bytes of it for each entry */

static int fds;
static struct elf elf;
static struct unwind_table *rows;

static void begin(void)
{
	fds = fd_count();
	elf = (struct elf){.machine = EM_X86_64};
	elf.eh_frame.vaddr = FRAME;
	rows = NULL;
}

static void end(void)
{
	rows = unwind_table_free(rows);
	ck_assert_ptr_null(rows);
	free(elf.eh_frame.data);
	ck_assert_int_eq(fd_count(), fds);
}

struct text {
	size_t len;
	const char *bytes;
};
#define TEXT(s)                                                                                                        \
	{                                                                                                              \
		sizeof(s) - 1, s                                                                                       \
	}

static void put(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, 4);
}

/* At the end of the section; grows it to its exact size, so that a sanitizer sees a byte too many. */
static uint8_t *add(size_t n)
{
	elf.eh_frame.data = realloc(elf.eh_frame.data, elf.eh_frame.size + n);
	uint8_t *p = elf.eh_frame.data + elf.eh_frame.size;
	memset(p, 0, n);
	elf.eh_frame.size += n;
	return p;
}

static void add_cie(struct text cie)
{
	uint8_t *p = add(8 + cie.len);
	put(p, (uint32_t)(4 + cie.len));
	memcpy(p + 8, cie.bytes, cie.len);
}

static void add_fde(uint32_t code, uint32_t len, struct text program)
{
	uint32_t at = (uint32_t)elf.eh_frame.size;
	uint8_t *p = add(17 + program.len);
	put(p, (uint32_t)(13 + program.len));
	put(p + 4, at + 4);
	put(p + 8, code - (FRAME + at + 8));
	put(p + 12, len);
	memcpy(p + 17, program.bytes, program.len);
}

/* An entry of the CIE at `cie`, with no instructions; its two addresses have `size` bytes, the first may be relative.
 */
static void add_fde_of(uint32_t cie, unsigned size, bool is_relative, bool has_data, uint32_t code, uint32_t len)
{
	const uint32_t at = (uint32_t)elf.eh_frame.size;
	const uint64_t addresses[] = {is_relative ? (uint64_t)code - (FRAME + at + 8) : code, len};
	uint8_t *p = add(8 + 2 * size + has_data);
	put(p, 4 + 2 * size + has_data);
	put(p + 4, at + 4 - cie);
	memcpy(p + 8, &addresses[0], size);
	memcpy(p + 8 + size, &addresses[1], size);
}

#define CIE "\1zR\0\1\x78\x10\1\x1b\x0c\7\10\x90\1" /* CFA = rsp + 8, the return address below it */

static void describe(uint64_t vaddr, char *buf, size_t size)
{
	static const char *const names[] = {"rbx", "rbp", "r12", "r13", "r14", "r15", "ra"};
	const struct cfi_rule *r = unwind_table_find(rows, vaddr);
	if (r->kind != CFI_RULE_FRAME) {
		snprintf(buf, size, "%s", r->kind == CFI_RULE_NONE ? "none" : r->kind == CFI_RULE_END ? "end" : "full");
		return;
	}
	size_t n = (size_t)snprintf(buf, size, "%sr%d%+d", r->signal ? "signal " : "", r->cfa_reg, r->cfa);
	for (unsigned i = 0; i < CFI_RULE_SAVED; i++)
		if (r->at[i] != CFI_RULE_SAME)
			n += (size_t)snprintf(buf + n, size - n, " %s%+d", names[i], r->at[i]);
}

static const struct {
	const char *scenario;
	struct text program;
	const char *at[4]; /* at CODE - 1, CODE, CODE + 0x10, CODE + 0x100 */
} cases[] = {
	{"nothing but the CIE's", TEXT(""), {"none", "r7+8 ra-1", "r7+8 ra-1", "none"}},
	{"push rbp; mov rsp,rbp", TEXT("\x41\x0e\x10\x86\2\x43\x0d\6"),
		{"none", "r7+8 ra-1", "r6+16 rbp-2 ra-1", "none"}},
	{"all that a function saves", TEXT("\x42\x0e\x40\x83\7\x86\6\x8c\5\x8d\4\x8e\3\x8f\2"),
		{"none", "r7+8 ra-1", "r7+64 rbx-7 rbp-6 r12-5 r13-4 r14-3 r15-2 ra-1", "none"}},
	{"a state remembered and restored", TEXT("\x41\x0e\x10\x0a\x41\x0e\x20\x41\x0b"),
		{"none", "r7+8 ra-1", "r7+16 ra-1", "none"}},
	{"an odd state remembered and restored", TEXT("\x41\x0f\3\x77\x08\x06\x0a\x41\x0c\7\x10\x41\x0b"),
		{"none", "r7+8 ra-1", "full", "none"}},
	{"a register restored", TEXT("\x41\x86\2\x41\xc6"), {"none", "r7+8 ra-1", "r7+8 ra-1", "none"}},
	{"long advances", TEXT("\2\x0f\x0e\x10\3\1\0\x0e\x18\4\1\0\0\0\x0e\x20"),
		{"none", "r7+8 ra-1", "r7+24 ra-1", "none"}},
	{"no caller", TEXT("\7\x10"), {"none", "end", "end", "none"}},
	{"the CFA by another register", TEXT("\x41\x0c\3\x18"), {"none", "r7+8 ra-1", "r3+24 ra-1", "none"}},
	{"the CFA by an expression", TEXT("\x41\x0f\3\x77\x08\x06"), {"none", "r7+8 ra-1", "full", "none"}},
	{"a register by an expression", TEXT("\x41\x10\3\2\x76\x78"), {"none", "r7+8 ra-1", "full", "none"}},
	{"the return address in a register", TEXT("\x41\x09\x10\2"), {"none", "r7+8 ra-1", "full", "none"}},
	{"no stack pointer", TEXT("\x41\7\7"), {"none", "r7+8 ra-1", "full", "none"}},
	{"an expression that is too long", TEXT("\x41\x0f\x81\1"), {"none", "r7+8 ra-1", "none", "none"}},
	{"an empty expression", TEXT("\x41\x0f\0"), {"none", "r7+8 ra-1", "none", "none"}},
	{"registers that nobody asks for", TEXT("\x05\x11\1\x07\x12\x08\x13"),
		{"none", "r7+8 ra-1", "r7+8 ra-1", "none"}},
	{"an instruction nobody knows: good before it", TEXT("\x50\x0e\x10\x50\x3f"),
		{"none", "r7+8 ra-1", "r7+16 ra-1", "none"}},
	{"an instruction nobody knows at once", TEXT("\x3f"), {"none", "none", "none", "none"}},
	{"restored without remembered", TEXT("\x41\x0b"), {"none", "r7+8 ra-1", "none", "none"}},
	{"restored once more than remembered", TEXT("\x41\x0a\x0e\x10\x0b\x0b"), {"none", "r7+8 ra-1", "none", "none"}},
	{"an offset to a CFA that has no register", TEXT("\x41\x0f\1\x30\x0e\x10"),
		{"none", "r7+8 ra-1", "none", "none"}},
	{"an operand cut off", TEXT("\x41\x0e\x80"), {"none", "r7+8 ra-1", "none", "none"}},
	{"an expression longer than the entry", TEXT("\x41\x0f\x7f\x30"), {"none", "r7+8 ra-1", "none", "none"}},
	{"an advance beyond the end", TEXT("\x4f\x0e\x10\4\xff\xff\xff\xff\x0e\x18"),
		{"none", "r7+8 ra-1", "r7+16 ra-1", "none"}},
};

/* Near the section's end they are run one by one, before that by shortcuts: the rules are the same. */
START_TEST(instructions)
{
	static const uint64_t where[] = {CODE - 1, CODE, CODE + 0x10, CODE + 0x100};
	char buf[160];
	const size_t n = (size_t)_i / 2;
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE, 0x100, cases[n].program);
	if (_i % 2)
		add_fde(CODE + 0x1000, 0x100, (struct text)TEXT(""));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	for (size_t i = 0; i < LENGTH(where); i++) {
		describe(where[i], buf, sizeof(buf));
		ck_assert_msg(!strcmp(buf, cases[n].at[i]), "%s, at %llx: \"%s\", not \"%s\"", cases[n].scenario,
			(unsigned long long)where[i], buf, cases[n].at[i]);
	}
}
END_TEST

static void check_at(uint64_t vaddr, const char *want)
{
	char buf[160];
	describe(vaddr, buf, sizeof(buf));
	ck_assert_msg(!strcmp(buf, want), "at %llx: \"%s\", not \"%s\"", (unsigned long long)vaddr, buf, want);
}

/* Instructions for the code from the limit on are not run, by shortcuts or one by one. */
static const struct {
	const char *scenario;
	struct text program;
	uint64_t limit; /* from CODE */
	size_t n;
	struct {
		uint64_t from; /* from CODE */
		int32_t cfa;
	} rows[4];
} limited[] = {
	{"an advance to the limit", TEXT("\x41\x0e\x10\x4f\x0e\x18\x41\x0e\x20"), 0x10, 2, {{0, 8}, {1, 16}}},
	{"an advance to the byte before it", TEXT("\x41\x0e\x10\x4e\x0e\x18\x41\x0e\x20"), 0x10, 3,
		{{0, 8}, {1, 16}, {0xf, 24}}},
	{"an advance over it", TEXT("\x41\x0e\x10\x50\x0e\x18\x41\x0e\x20"), 0x10, 2, {{0, 8}, {1, 16}}},
	{"the first advance is to the limit", TEXT("\x41\x0e\x10\x41\x0e\x18"), 1, 1, {{0, 8}}},
	{"an unknown instruction at the limit", TEXT("\x41\x0e\x10\x4f\x3f"), 0x10, 2, {{0, 8}, {1, 16}}},
	{"an advance with an operand", TEXT("\x41\x0e\x10\2\x0f\x0e\x18\x41"), 0x10, 2, {{0, 8}, {1, 16}}},
	{"no advance to the limit", TEXT("\x41\x0e\x10"), 0x10, 2, {{0, 8}, {1, 16}}},
	{"nops to the end", TEXT("\x41\x0e\x10\0\0\0\0\0\0\0\0\0"), 0x10, 2, {{0, 8}, {1, 16}}},
	{"the limit is the beginning", TEXT("\x0e\x10"), 0, 0, {{0, 0}}},
};

START_TEST(no_row_is_at_the_limit)
{
	struct cfi_section section = {.bytes = &elf.eh_frame};
	struct cfi_execute *x = calloc(1, sizeof(*x));
	struct cfi_row got[CFI_BATCH];
	struct cfi_entry e;
	const size_t n = (size_t)_i / 2;
	add_cie((struct text)TEXT(CIE));
	const uint32_t fde = (uint32_t)elf.eh_frame.size;
	add_fde(CODE, 0x100, limited[n].program);
	if (_i % 2)
		add_fde(CODE + 0x1000, 0x100, (struct text)TEXT(""));
	x->section = &section;
	ck_assert(cfi_entry_read(&section, fde, &e));
	cfi_execute_begin(x, &e, CODE + limited[n].limit);
	ck_assert_msg(cfi_execute_rows(x, got) == limited[n].n, "%s", limited[n].scenario);
	for (size_t i = 0; i < limited[n].n; i++)
		ck_assert_msg(
			got[i].from == CODE + limited[n].rows[i].from && got[i].rule.cfa == limited[n].rows[i].cfa,
			"%s, row %zu: %llx %d", limited[n].scenario, i, (unsigned long long)got[i].from,
			got[i].rule.cfa);
	ck_assert_uint_eq(cfi_execute_rows(x, got), 0);
	ck_assert(!x->bad);
	free(x);
}
END_TEST

START_TEST(entries_out_of_order_and_over_each_other)
{
	struct unwind_table_stats st;
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE + 0x200, 0x100, (struct text)TEXT("\x0e\x20"));
	add_fde(CODE, 0x280, (struct text)TEXT("\x0e\x10"));
	add_fde(CODE + 0x200, 0x80, (struct text)TEXT("\x0e\x30")); /* the last of one beginning counts */
	add_fde(CODE + 0x1000, 0x100, (struct text)TEXT("\x0e\x30"));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE + 0x1ff, "r7+16 ra-1");
	check_at(CODE + 0x200, "r7+48 ra-1");
	check_at(CODE + 0x27f, "r7+48 ra-1");
	check_at(CODE + 0x280, "none");
	check_at(CODE + 0x10ff, "r7+48 ra-1");
	check_at(CODE + 0x1100, "none");
	check_at(0, "none");
	check_at(UINT64_MAX, "none");
	check_at(CODE + (1ull << 32), "none");
	unwind_table_stats(rows, &st);
	ck_assert_uint_eq(st.entries, 4);
	ck_assert_uint_eq(st.left_out, 0);
	ck_assert_uint_eq(st.rules, 3); /* none, and two: equal ones are one */
}
END_TEST

/* One that fails at once does not inherit its neighbour's rule; a budget that ends, ends the table. */
START_TEST(neighbours_and_limits)
{
	struct unwind_table_stats st;
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE, 0x100, (struct text)TEXT("\x0e\x10"));
	add_fde(CODE + 0x100, 0x100, (struct text)TEXT("\x3f"));
	add_fde(CODE + 0x200, 0x100, (struct text)TEXT("\x0e\x20"));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE + 0xff, "r7+16 ra-1");
	check_at(CODE + 0x100, "none");
	check_at(CODE + 0x1ff, "none");
	check_at(CODE + 0x200, "r7+32 ra-1");
	unwind_table_stats(rows, &st);
	ck_assert_uint_eq(st.left_out, 1);
	rows = unwind_table_free(rows);
	for (uint32_t i = 0; i < 4000; i++) {
		char program[] = {0x0e, (char)(0x81 + i % 100), (char)(1 + i / 100 % 64)};
		add_fde(CODE + 0x1000 + 16 * i, 16, (struct text){3, program});
	}
	ck_assert_int_eq(unwind_table_build(&elf, 150 << 10, &rows), 0);
	unwind_table_stats(rows, &st);
	ck_assert_uint_gt(st.left_out, 1);
	check_at(CODE + 0x1000 + 16 * 3999, "none");
	check_at(CODE + 0x1000 + 16 * 5000, "none");
}
END_TEST

START_TEST(cies)
{
	static const struct {
		struct text cie;
		const char *at;
	} kinds[] = {
		{TEXT(CIE), "r7+8 ra-1"},
		{TEXT("\1zRS\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), "signal r7+8 ra-1"},
		{TEXT("\3zR\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), "r7+8 ra-1"},
		{TEXT("\1zPLR\0\1\x78\x10\7\x9b\1\1\1\1\x1b\x1b\x0c\7\10\x90\1"), "r7+8 ra-1"},
		{TEXT("\2zR\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), "none"}, /* a version nobody wrote */
		{TEXT("\1zX\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), "none"},
		{TEXT("\1zR\0\2\x78\x10\1\x1b\x0c\7\10\x90\1"), "none"}, /* code alignment */
		{TEXT("\1zR\0\1\x78\x0f\1\x1b\x0c\7\10\x90\1"), "none"}, /* return address column */
		{TEXT("\1zR\0\1\x78\x10\1\x9b\x0c\7\10\x90\1"), "none"}, /* indirect addresses */
		{TEXT("\1zR\0\1\x78\x10\x7f\x1b"), "none"},
		{TEXT("\1aaaaaaaaaaaa"), "none"},
		{TEXT(""), "none"},
	};
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		char buf[160];
		struct cfi_section section = {.bytes = &elf.eh_frame};
		struct cfi_entry entry;
		add_cie(kinds[i].cie);
		const uint32_t fde = (uint32_t)elf.eh_frame.size;
		add_fde(CODE, 0x100, (struct text)TEXT(""));
		ck_assert(!cfi_entry_read(&section, 0, &entry)); /* the CIE itself */
		ck_assert_msg(cfi_entry_read(&section, fde, &entry) == !!strcmp(kinds[i].at, "none"), "%zu", i);
		ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
		describe(CODE, buf, sizeof(buf));
		ck_assert_msg(!strcmp(buf, kinds[i].at), "%zu: \"%s\", not \"%s\"", i, buf, kinds[i].at);
		rows = unwind_table_free(rows);
		free(elf.eh_frame.data);
		elf.eh_frame.data = NULL;
		elf.eh_frame.size = 0;
	}
}
END_TEST

/* A section has more CIEs than are kept: an entry never gets what another entry's CIE says. */
START_TEST(more_cies_than_are_kept)
{
	enum { N = 3 * CFI_CIES };
	uint32_t at[N];
	for (uint32_t i = 0; i < N; i++) { /* CFA = rsp + i; a signal's, a usual one, one of absolute addresses */
		char signal[] = "\1zRS\0\1\x78\x10\1\x1b\x0c\7_\x90\1", usual[] = "\1zR\0\1\x78\x10\1\x1b\x0c\7_\x90\1";
		char absolute[] = "\1\0\1\x78\x10\x0c\7_\x90\1";
		signal[12] = usual[11] = absolute[7] = (char)i;
		at[i] = (uint32_t)elf.eh_frame.size;
		add_cie(i % 3 == 0   ? (struct text)TEXT(signal)
			: i % 3 == 1 ? (struct text)TEXT(usual)
				     : (struct text)TEXT(absolute));
	}
	for (uint32_t i = 0; i < 2 * N; i++) {
		const bool is_absolute = i % 3 == 2;
		add_fde_of(at[i % N], is_absolute ? 8 : 4, !is_absolute, !is_absolute, CODE + 0x10 * i, 0x10);
	}
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	for (uint32_t i = 0; i < 2 * N; i++) {
		char want[64];
		snprintf(want, sizeof(want), "%sr7+%u ra-1", i % 3 ? "" : "signal ", i % N);
		check_at(CODE + 0x10 * i, want);
	}
}
END_TEST

/* The word at `here` is subtracted, so a CIE is before its entries; .debug_frame has an offset there. */
START_TEST(a_cie_behind_its_entry)
{
	struct cfi_section section = {.bytes = &elf.eh_frame};
	struct cfi_entry e;
	add_fde_of(17, 4, true, true, CODE, 0x100);
	ck_assert_uint_eq(elf.eh_frame.size, 17); /* where the CIE is */
	add_cie((struct text)TEXT(CIE));
	ck_assert(!cfi_entry_read(&section, 0, &e));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE, "none");
}
END_TEST

static const struct {
	uint8_t encoding;
	unsigned size; /* of an address */
	bool is_relative, is_good;
} encodings[] = {
	{0x00, 8, false, true},	 /* absptr */
	{0x02, 2, false, true},	 /* udata2 */
	{0x03, 4, false, true},	 /* udata4 */
	{0x04, 8, false, true},	 /* udata8 */
	{0x0a, 2, false, true},	 /* sdata2 */
	{0x0b, 4, false, true},	 /* sdata4 */
	{0x0c, 8, false, true},	 /* sdata8 */
	{0x10, 8, true, true},	 /* pcrel, absptr */
	{0x13, 4, true, true},	 /* pcrel, udata4 */
	{0x1a, 2, true, true},	 /* pcrel, sdata2 */
	{0x1b, 4, true, true},	 /* pcrel, sdata4 */
	{0x1c, 8, true, true},	 /* pcrel, sdata8 */
	{0x01, 8, false, false}, /* uleb128 */
	{0x09, 8, false, false}, /* sleb128 */
	{0x23, 4, false, false}, /* textrel */
	{0x3b, 4, false, false}, /* datarel */
	{0x43, 4, false, false}, /* funcrel */
	{0x50, 8, false, false}, /* aligned */
	{0x80, 8, false, false}, /* indirect */
	{0x9b, 4, true, false},	 /* indirect, pcrel, sdata4 */
	{0xff, 8, false, false}, /* omitted */
};

START_TEST(addresses_of_each_encoding)
{
	char cie[] = CIE;
	cie[8] = (char)encodings[_i].encoding;
	ck_assert_int_eq(CIE[8], 0x1b);
	add_cie((struct text)TEXT(cie));
	add_fde_of(0, encodings[_i].size, encodings[_i].is_relative, true, CODE, 0x100);
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE - 1, "none");
	check_at(CODE, encodings[_i].is_good ? "r7+8 ra-1" : "none");
	check_at(CODE + 0xff, encodings[_i].is_good ? "r7+8 ra-1" : "none");
	check_at(CODE + 0x100, "none");
}
END_TEST

/* An entry that ends within its addresses, and what comes after it. */
START_TEST(addresses_cut_off)
{
	for (uint32_t len = 4; len < 13; len++) {
		struct unwind_table_stats st;
		add_cie((struct text)TEXT(CIE));
		uint8_t *p = add(4 + len);
		put(p, len);
		put(p + 4, (uint32_t)(p + 4 - elf.eh_frame.data));
		memset(p + 8, 1, len - 4);
		add_fde(CODE, 0x100, (struct text)TEXT("\x0e\x10"));
		ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
		check_at(CODE, "r7+16 ra-1");
		unwind_table_stats(rows, &st);
		ck_assert_uint_eq(st.entries, 2);
		ck_assert_uint_eq(st.left_out, 1);
		rows = unwind_table_free(rows);
		free(elf.eh_frame.data);
		elf.eh_frame.data = NULL;
		elf.eh_frame.size = 0;
	}
}
END_TEST

/* They fill the room that the table has for them; what is beyond has no rule. */
START_TEST(too_many_expressions)
{
	enum { LEN = 125, FIT = UNWIND_TABLE_EXPRESSIONS_MAX / LEN };
	struct unwind_table_stats st;
	add_cie((struct text)TEXT(CIE));
	for (uint32_t i = 0; i < FIT + 2; i++) {
		char program[2 + LEN] = {0x0f, LEN, 0x77, 8}; /* rsp + 8, and then 41 times a byte is added */
		for (unsigned at = 4; at < sizeof(program); at += 3)
			memcpy(program + at, (char[]){0x08, (char)(i + 1), 0x22}, 3);
		add_fde(CODE + 0x100 * i, 0x80, (struct text){sizeof(program), program});
	}
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE, "full");
	check_at(CODE + 0x100 * (FIT - 1), "full");
	check_at(CODE + 0x100 * FIT, "none");
	check_at(CODE + 0x100 * (FIT + 1), "none");
	unwind_table_stats(rows, &st);
	ck_assert_uint_eq(st.left_out, 2);
}
END_TEST

START_TEST(cut_anywhere)
{
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE, 0x100, (struct text)TEXT("\x41\x0e\x10\x86\2\x43\x0d\6"));
	uint8_t *all = elf.eh_frame.data;
	size_t size = elf.eh_frame.size;
	for (size_t n = 0; n <= size; n++) {
		elf.eh_frame.data = n ? malloc(n) : NULL;
		elf.eh_frame.size = n;
		if (n)
			memcpy(elf.eh_frame.data, all, n);
		ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
		check_at(CODE + 0x10, n == size ? "r6+16 rbp-2 ra-1" : "none");
		rows = unwind_table_free(rows);
		free(elf.eh_frame.data);
	}
	elf.eh_frame.data = all;
	elf.eh_frame.size = size;
}
END_TEST

/* --- .debug_frame */

static void put64(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, 8);
}

static uint8_t *add_debug(size_t n)
{
	struct elf_section *s = &elf.debug_frame;
	s->data = realloc(s->data, s->size + n);
	uint8_t *p = s->data + s->size;
	memset(p, 0, n);
	s->size += n;
	return p;
}

static void add_debug_cie(struct text cie)
{
	uint8_t *p = add_debug(8 + cie.len);
	put(p, (uint32_t)(4 + cie.len));
	put(p + 4, UINT32_MAX);
	memcpy(p + 8, cie.bytes, cie.len);
}

static void add_debug_fde(uint32_t cie, uint64_t code, uint64_t len, struct text program)
{
	uint8_t *p = add_debug(24 + program.len);
	put(p, (uint32_t)(20 + program.len));
	put(p + 4, cie);
	put64(p + 8, code);
	put64(p + 16, len);
	memcpy(p + 24, program.bytes, program.len);
}

static void begin_debug(void)
{
	begin();
	elf.n_segments = 1;
	elf.segments[0] = (struct elf_segment){.vaddr = CODE, .memsz = 0x10000, .exec = true};
}

static void end_debug(void)
{
	free(elf.debug_frame.data);
	end();
}

#define DEBUG_CIE "\3\0\1\x78\x10\x0c\7\10\x90\1"

START_TEST(debug_frame_cies)
{
	static const struct {
		struct text cie;
		const char *at;
	} kinds[] = {
		{TEXT("\1\0\1\x78\x10\x0c\7\10\x90\1"), "r7+16 ra-1"},
		{TEXT(DEBUG_CIE), "r7+16 ra-1"},
		{TEXT("\4\0\10\0\1\x78\x10\x0c\7\10\x90\1"), "r7+16 ra-1"},
		{TEXT("\4\0\4\0\1\x78\x10\x0c\7\10\x90\1"), "none"},  /* addresses of 4 bytes */
		{TEXT("\4\0\10\4\1\x78\x10\x0c\7\10\x90\1"), "none"}, /* segments */
		{TEXT("\5\0\10\0\1\x78\x10\x0c\7\10\x90\1"), "none"}, /* a version nobody wrote */
		{TEXT("\3zR\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), "none"},
		{TEXT("\4\0\10"), "none"},
	};
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		char buf[160];
		add_debug_cie(kinds[i].cie);
		add_debug_fde(0, CODE + 0x10, 0x100, (struct text)TEXT("\x0e\x10"));
		ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
		describe(CODE + 0x10, buf, sizeof(buf));
		ck_assert_msg(!strcmp(buf, kinds[i].at), "%zu: \"%s\", not \"%s\"", i, buf, kinds[i].at);
		rows = unwind_table_free(rows);
		free(elf.debug_frame.data);
		elf.debug_frame = (struct elf_section){0};
	}
}
END_TEST

/* The CIE's offset is from the section's beginning: it may lie anywhere. */
START_TEST(debug_frame_cie_behind_its_entry)
{
	struct cfi_section section = {.bytes = &elf.debug_frame, .debug = true};
	struct cfi_entry e;
	add_debug_fde(24, CODE, 0x100, (struct text)TEXT(""));
	add_debug_cie((struct text)TEXT(DEBUG_CIE));
	ck_assert(cfi_entry_read(&section, 0, &e));
	ck_assert(e.start == CODE && e.end == CODE + 0x100 && e.cie == 24);
	ck_assert(!cfi_entry_read(&section, 24, &e)); /* the CIE itself */
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE, "r7+8 ra-1");
}
END_TEST

/* .eh_frame counts wherever it has anything, wherever the other begins or ends. */
START_TEST(debug_frame_beside_eh_frame)
{
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE + 0x100, 0x100, (struct text)TEXT("\x0e\x10"));
	add_fde(CODE + 0x400, 0x100, (struct text)TEXT("\x3f")); /* one that cannot be compiled counts as well */
	add_debug_cie((struct text)TEXT(DEBUG_CIE));
	add_debug_fde(0, CODE, 0x100, (struct text)TEXT("\x0e\x20"));
	add_debug_fde(0, CODE + 0x100, 0x100, (struct text)TEXT("\x0e\x20"));
	add_debug_fde(0, CODE + 0x180, 0x10, (struct text)TEXT("\x0e\x20"));
	add_debug_fde(0, CODE + 0x1f0, 0x100, (struct text)TEXT("\x0e\x20"));
	add_debug_fde(0, CODE + 0x300, 0x100, (struct text)TEXT("\x0e\x30"));
	add_debug_fde(0, CODE + 0x400, 0x100, (struct text)TEXT("\x0e\x20"));
	add_debug_fde(0, 0, 0x100, (struct text)TEXT("\x0e\x20")); /* what a linker dropped */
	add_debug_fde(0, UINT64_MAX - 0xff, 0x80, (struct text)TEXT("\x0e\x20"));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(0, "none");
	check_at(CODE - 1, "none");
	check_at(CODE, "r7+32 ra-1");
	check_at(CODE + 0xff, "r7+32 ra-1");
	check_at(CODE + 0x100, "r7+16 ra-1");
	check_at(CODE + 0x188, "r7+16 ra-1");
	check_at(CODE + 0x1f8, "r7+16 ra-1");
	check_at(CODE + 0x210, "none");
	check_at(CODE + 0x300, "r7+48 ra-1");
	check_at(CODE + 0x400, "none");
}
END_TEST

START_TEST(stubs)
{
	elf.plt[0] = (struct elf_plt){CODE, 0x40, true};
	elf.plt[1] = (struct elf_plt){CODE + 0x40, 0x10, false};
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE + 0x100, 0x10, (struct text)TEXT("\x0e\x20"));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE - 1, "none");
	check_at(CODE, "r7+16 ra-1");
	check_at(CODE + 6, "r7+24 ra-1");
	check_at(CODE + 0x10, "r7+8 ra-1");
	check_at(CODE + 0x1a, "r7+8 ra-1");
	check_at(CODE + 0x1b, "r7+16 ra-1");
	check_at(CODE + 0x3f, "r7+16 ra-1");
	check_at(CODE + 0x40, "r7+8 ra-1");
	check_at(CODE + 0x4f, "r7+8 ra-1");
	check_at(CODE + 0x50, "none");
	rows = unwind_table_free(rows);
	add_fde(CODE, 0x40, (struct text)TEXT("\x0e\x30")); /* what the file says of it counts */
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(CODE + 0x10, "r7+48 ra-1");
	check_at(CODE + 0x40, "r7+8 ra-1");
}
END_TEST

START_TEST(debug_frame_cut_anywhere)
{
	add_debug_cie((struct text)TEXT(DEBUG_CIE));
	add_debug_fde(0, CODE, 0x100, (struct text)TEXT("\x41\x0e\x10\x86\2\x43\x0d\6"));
	struct elf_section all = elf.debug_frame;
	for (size_t n = 0; n <= all.size; n++) {
		elf.debug_frame = (struct elf_section){.size = n, .data = malloc(n ? n : 1)};
		memcpy(elf.debug_frame.data, all.data, n);
		ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
		check_at(CODE + 0x10, n == all.size ? "r6+16 rbp-2 ra-1" : "none");
		rows = unwind_table_free(rows);
		free(elf.debug_frame.data);
	}
	elf.debug_frame = all;
}
END_TEST

/* --- caps */

static size_t memory_peak(void)
{
	char line[256];
	size_t kb = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %zu", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb << 10;
}

/* 5,000,000 rows that all differ from their neighbours, in 500,000 entries. */
static void add_many(void)
{
	enum { ENTRIES = 500000, ROWS = 10, BYTES = 17 + 3 * ROWS };
	uint32_t at = (uint32_t)elf.eh_frame.size;
	uint8_t *p = add((size_t)ENTRIES * BYTES);
	for (uint32_t i = 0; i < ENTRIES; i++, p += BYTES, at += BYTES) {
		put(p, BYTES - 4);
		put(p + 4, at + 4);
		put(p + 8, CODE + 64 * i - (FRAME + at + 8));
		put(p + 12, 64);
		for (uint32_t row = 0; row < ROWS; row++)
			memcpy(p + 17 + 3 * row, (uint8_t[]){0x41, 0x0e, (uint8_t)(8 + (i * ROWS + row) % 15)}, 3);
	}
}

START_TEST(five_million_rows)
{
	static const size_t caps[] = {4 << 20, 24 << 20, (size_t)256 << 20};
	const size_t cap = caps[_i];
	struct unwind_table_stats st;
	int sanitized = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	sanitized = 1;
#endif
	add_cie((struct text)TEXT(CIE));
	add_many();
	int64_t begin_at = clock_cpu();
	size_t before = memory_peak();
	ck_assert_int_eq(unwind_table_build(&elf, cap, &rows), 0);
	size_t used = memory_peak() - before;
	unwind_table_stats(rows, &st);
	ck_assert_msg(sanitized || used <= cap + (1 << 20), "%zu bytes of %zu", used, cap);
	ck_assert_uint_le(unwind_table_bytes(rows), cap);
	ck_assert_uint_le(st.rows, UNWIND_TABLE_MAX);
	ck_assert_uint_eq(st.entries, 500000);
	ck_assert_uint_gt(st.left_out, 0);
	if (_i == 2) {
		ck_assert_uint_eq(st.rows, UNWIND_TABLE_MAX);
		check_at(CODE + 1, "r7+8 ra-1");
	}
	ck_assert_int_lt(clock_cpu() - begin_at,
		(sanitized ? 30 : 5) * NSEC_PER_SEC); /* a tenth of a second, and some for slow machines */
	check_at(CODE + 64 * 499999 + 1, "none");
}
END_TEST

/* One entry at each end of 4 GiB: the index over pages has its share of the cap. */
START_TEST(far_apart)
{
	struct unwind_table_stats st;
	add_cie((struct text)TEXT(CIE));
	add_fde(0x1000, 0x100, (struct text)TEXT("\x0e\x10"));
	add_fde(0x7ffff000, 0x100, (struct text)TEXT("\x0e\x20"));
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	check_at(0x1000, "r7+16 ra-1");
	check_at(0x7ffff000, "r7+32 ra-1");
	rows = unwind_table_free(rows);
	ck_assert_int_eq(unwind_table_build(&elf, 1 << 20, &rows), 0);
	unwind_table_stats(rows, &st);
	ck_assert_uint_le(unwind_table_bytes(rows), 1 << 20);
	check_at(0x1000, "r7+16 ra-1");
	check_at(0x7ffff000, "none");
	ck_assert_uint_gt(st.left_out, 0);
}
END_TEST

/* How far apart they are counts, not how far from 0. */
START_TEST(far_up)
{
	add_cie((struct text)TEXT(CIE));
	add_fde(0x7fffe000, 0x100, (struct text)TEXT("\x0e\x10"));
	add_fde(0x7ffff000, 0x100, (struct text)TEXT("\x0e\x20"));
	ck_assert_int_eq(unwind_table_build(&elf, 1 << 20, &rows), 0);
	check_at(0x7fffdfff, "none");
	check_at(0x7fffe000, "r7+16 ra-1");
	check_at(0x7ffff000, "r7+32 ra-1");
	check_at(0x7ffff100, "none");
}
END_TEST

/* Who keeps what was found in a table must not take it for what is in the one made after it, nor in another's. */
START_TEST(keys)
{
	struct unwind_table *other;
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE, 0x100, (struct text)TEXT("\x44\x0e\x10"));
	ck_assert_int_eq(unwind_table_build(&elf, SIZE_MAX, &rows), 0);
	ck_assert_int_eq(unwind_table_build(&elf, SIZE_MAX, &other), 0);
	uint64_t key = unwind_table_key(rows, CODE + 8);
	ck_assert(key && key == unwind_table_key(rows, CODE + 8) && key != unwind_table_key(rows, CODE + 9));
	ck_assert_uint_ne(key, unwind_table_key(other, CODE + 8));
	ck_assert_uint_eq(unwind_table_key(rows, CODE - 1), 0);
	ck_assert_uint_eq(unwind_table_key(rows, CODE + (1ull << 32)), 0);
	unwind_table_free(other);
	rows = unwind_table_free(rows);
	ck_assert_int_eq(unwind_table_build(&elf, SIZE_MAX, &rows), 0);
	ck_assert_uint_ne(key, unwind_table_key(rows, CODE + 8));
}
END_TEST

START_TEST(our_own_table)
{
	struct elf *own = NULL;
	struct unwind_table_stats st;
	struct err e = {0};
	int fd = fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
	ck_assert_msg(elf_read(elf_source_fd(&fd), &own, &e) == 0, "%s", e.text);
	fd_close(fd);
	ck_assert_int_eq(unwind_table_build(own, 64 << 20, &rows), 0);
	unwind_table_stats(rows, &st);
	ck_assert_uint_gt(st.entries, 100);
	ck_assert_uint_le(st.left_out, 1); /* a wrong one that test_unwind has on purpose */
	ck_assert_uint_gt(st.rows, st.entries);
	ck_assert_uint_lt(st.rules, st.rows / 4);
	ck_assert_uint_lt(unwind_table_bytes(rows), st.rows * 16 + 65536);
	rows = unwind_table_free(rows);
	elf_free(own);
}
END_TEST

static size_t put_expression(uint8_t *at, unsigned reg, unsigned id)
{
	const uint8_t head[] = {0x10 /* DW_CFA_expression */, (uint8_t)reg, 120};
	memcpy(at, head, sizeof(head));
	memset(at + 3, 0x96 /* DW_OP_nop */, 117);
	at[120] = 0x0a /* DW_OP_const2u */;
	at[121] = (uint8_t)id;
	at[122] = (uint8_t)(id >> 8);
	return 123;
}

/* The table of expressions is full, 16 registers have the last of them, and then there is a row for each byte. */
START_TEST(a_search_for_each_byte)
{
	enum { ROWS = 1 << 20 };
	struct unwind_table_stats st;
	uint8_t *program = malloc(ROWS + 200 * 124);
	size_t n = 0;
	unsigned id = 0;
	for (; id < 118; id++) {
		n += put_expression(program + n, 3, id);
		program[n++] = 0x41; /* DW_CFA_advance_loc 1 */
	}
	for (unsigned reg = 0; reg < 16; reg++)
		n += put_expression(program + n, reg, id - 1);
	memset(program + n, 0x41, ROWS);
	add_cie((struct text)TEXT(CIE));
	add_fde(CODE, 0x100, (struct text)TEXT("\x41\x0e\x10"));
	add_fde(CODE + 0x100, 0x40000000, (struct text){n + ROWS, (const char *)program});
	free(program);
	elf.n_segments = 1;
	elf.segments[0].memsz = 0x70000000;
	elf.segments[0].exec = 1;
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	unwind_table_stats(rows, &st);
	ck_assert_uint_ge(st.left_out, 1);
	ck_assert_int_eq(unwind_table_find(rows, CODE + 1)->kind, CFI_RULE_FRAME);
}
END_TEST

UNIT_SUITE(unwind_table)
{
	Suite *s = suite_create("unwind_table");
	TCase *t = tcase_create("unwind_table");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, instructions, 0, 2 * LENGTH(cases));
	tcase_add_loop_test(t, no_row_is_at_the_limit, 0, 2 * LENGTH(limited));
	tcase_add_test(t, entries_out_of_order_and_over_each_other);
	tcase_add_test(t, neighbours_and_limits);
	tcase_add_test(t, keys);
	tcase_add_test(t, cies);
	tcase_add_test(t, more_cies_than_are_kept);
	tcase_add_test(t, a_cie_behind_its_entry);
	tcase_add_loop_test(t, addresses_of_each_encoding, 0, LENGTH(encodings));
	tcase_add_test(t, addresses_cut_off);
	tcase_add_test(t, too_many_expressions);
	tcase_add_test(t, cut_anywhere);
	tcase_add_test(t, far_apart);
	tcase_add_test(t, far_up);
	tcase_add_test(t, our_own_table);
	suite_add_tcase(s, t);
	t = tcase_create("caps");
	tcase_add_checked_fixture(t, begin, end);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, five_million_rows, 0, 3);
	tcase_add_test(t, a_search_for_each_byte);
	suite_add_tcase(s, t);
	t = tcase_create("debug_frame");
	tcase_add_checked_fixture(t, begin_debug, end_debug);
	tcase_add_test(t, debug_frame_cies);
	tcase_add_test(t, debug_frame_cie_behind_its_entry);
	tcase_add_test(t, debug_frame_beside_eh_frame);
	tcase_add_test(t, debug_frame_cut_anywhere);
	tcase_add_test(t, stubs);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* epilogue: rules that code without tables says by itself. */
#include "profiler/unwind/epilogue.h"

#include "oci/base/fd.h"
#include "profiler/unwind/cfi_parse.h"
#include "profiler/unwind/unwind_table.h"
#include "shim/event/insn_length.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CODE 0x401000u
#define FUNCTION (CODE + 0x40) /* where another function begins, as begins() says */

/* Bytes with their length: there are zeros among them. */
struct text {
	size_t len;
	const char *bytes;
};
#define TEXT(s)                                                                                                        \
	{                                                                                                              \
		sizeof(s) - 1, s                                                                                       \
	}

#define PUSH_RBX "\x53"
#define POP_RBX "\x5b"
#define PUSH_RBP "\x55"
#define POP_RBP "\x5d"
#define POP_R12 "\x41\x5c"
#define MOV_RBP_RSP "\x48\x89\xe5"
#define MOV_RSP_RBP "\x48\x89\xec"
#define SUB_RSP_16 "\x48\x83\xec\x10"
#define ADD_RSP_16 "\x48\x83\xc4\x10"
#define NOP "\x90"
#define RET "\xc3"
#define LEAVE "\xc9"
#define CALL "\xe8\0\0\0\x10"
#define JE(n) "\x74" n

#define NONE INT16_MAX
static const struct {
	const char *name;
	struct text code;
	unsigned at;
	int cfa_reg, cfa; /* -1: no rule */
	int rbx, rbp;	  /* words from the CFA; SAME, LOST */
} rows[] = {
#define SAME CFI_RULE_SAME
#define LOST INT16_MAX
	{"a return", TEXT(RET), 0, DWARF_RSP, 8, SAME, SAME},
	{"a return that takes arguments with it", TEXT("\xc2\x10\0"), 0, DWARF_RSP, 8, SAME, SAME},
	{"a return with a prefix", TEXT("\xf3\xc3"), 0, DWARF_RSP, 8, SAME, SAME},
	{"a function's beginning", TEXT(PUSH_RBX SUB_RSP_16 ADD_RSP_16 POP_RBX RET), 0, DWARF_RSP, 8, SAME, SAME},
	{"behind its first push", TEXT(PUSH_RBX SUB_RSP_16 ADD_RSP_16 POP_RBX RET), 1, DWARF_RSP, 16, -2, SAME},
	{"its body", TEXT(PUSH_RBX SUB_RSP_16 ADD_RSP_16 POP_RBX RET), 5, DWARF_RSP, 32, -2, SAME},
	{"its last pop", TEXT(PUSH_RBX SUB_RSP_16 ADD_RSP_16 POP_RBX RET), 9, DWARF_RSP, 16, -2, SAME},
	{"numbers of four bytes", TEXT("\x48\x81\xc4\x08\x01\0\0" RET), 0, DWARF_RSP, 0x110, SAME, SAME},
	{"lea adds, too", TEXT("\x48\x8d\x64\x24\x18" RET), 0, DWARF_RSP, 0x20, SAME, SAME},
	{"pushes of numbers and flags", TEXT("\x6a\x01\x68\0\0\0\0\x9c\x9d\x58\x58" RET), 0, DWARF_RSP, 8, SAME, SAME},
	{"a register that was lent", TEXT("\x50" PUSH_RBX "\x31\xdb" POP_RBX "\x58" RET), 0, DWARF_RSP, 8, SAME, SAME},
	{"saved without a push", TEXT("\x48\x8b\x5c\x24\x08\x48\x83\xc4\x18" RET), 0, DWARF_RSP, 0x20, -3, SAME},
	{"a frame pointer's beginning", TEXT(PUSH_RBP MOV_RBP_RSP SUB_RSP_16 LEAVE RET), 0, DWARF_RSP, 8, SAME, SAME},
	{"behind its push", TEXT(PUSH_RBP MOV_RBP_RSP SUB_RSP_16 LEAVE RET), 1, DWARF_RSP, 16, SAME, -2},
	{"its body", TEXT(PUSH_RBP MOV_RBP_RSP SUB_RSP_16 LEAVE RET), 4, DWARF_RBP, 16, SAME, -2},
	{"mov and pop leave as well", TEXT(MOV_RSP_RBP POP_RBP RET), 0, DWARF_RBP, 16, SAME, -2},
	{"saved below the frame pointer", TEXT("\x48\x8d\x65\xf0" POP_RBX POP_R12 POP_RBP RET), 0, DWARF_RBP, 16, -4,
		-2},
	{"an aligned stack", TEXT("\x48\x83\xe4\xe0" LEAVE RET), 0, DWARF_RBP, 16, SAME, -2},
	{"a stack of any size", TEXT("\x48\x29\xc4" LEAVE RET), 0, DWARF_RBP, 16, SAME, -2},
	{"a stack of any size that is left as if it had one", TEXT("\x48\x29\xc4" ADD_RSP_16 RET), 0, -1, 0, 0, 0},
	{"a stack pointer from elsewhere", TEXT("\x48\x89\xfc" RET), 0, -1, 0, 0, 0},
	{"calls change nothing", TEXT(SUB_RSP_16 CALL "\xff\xd0\x31\xc0" ADD_RSP_16 RET), 4, DWARF_RSP, 24, SAME, SAME},
	{"a jump", TEXT("\xeb\x02\x0f\x0b" POP_RBX RET), 0, DWARF_RSP, 16, -2, SAME},
	{"both ways of a branch", TEXT(JE("\x02") POP_RBX RET POP_RBX RET), 0, DWARF_RSP, 16, -2, SAME},
	{"ways that do not agree", TEXT(JE("\x02") POP_RBX RET RET), 0, -1, 0, 0, 0},
	{"a way that saves no register", TEXT(JE("\x02") POP_RBX RET "\x58" RET), 0, DWARF_RSP, 16, LOST, SAME},
	{"ways that save at different places", TEXT(JE("\x03") POP_RBX POP_RBP RET POP_RBP POP_RBX RET), 0, DWARF_RSP,
		24, LOST, LOST},
	{"a register that is not saved", TEXT("\x31\xed\x48\x89\xcd" RET), 0, DWARF_RSP, 8, SAME, LOST},
	{"a register of the caller's frame", TEXT("\x48\x8b\x6c\x24\x40" RET), 0, DWARF_RSP, 8, SAME, LOST},
	{"a way that only ends", TEXT(JE("\x02") POP_RBX RET "\x0f\x0b"), 0, DWARF_RSP, 16, -2, SAME},
	{"a loop", TEXT("\x75\xfe" POP_RBX RET), 0, DWARF_RSP, 16, -2, SAME},
	{"a loop that takes more and more", TEXT(PUSH_RBX "\x75\xfd" RET), 0, -1, 0, 0, 0},
	{"a loop without an end", TEXT("\xeb\xfe"), 0, -1, 0, 0, 0},
	{"a trap", TEXT("\xf4" RET), 0, -1, 0, 0, 0},
	{"a return above its own caller", TEXT(PUSH_RBX RET), 0, -1, 0, 0, 0},
	{"a jump by a table", TEXT("\xff\x24\xc5\0\0\0\0"), 0, -1, 0, 0, 0},
	{"a jump by a register", TEXT("\xff\xe0"), 0, -1, 0, 0, 0},
	{"a jump through a slot of its own: a stub", TEXT("\xff\x25\0\0\0\0"), 0, DWARF_RSP, 8, SAME, SAME},
	{"a jump to another function", TEXT(POP_RBX "\xeb\x3d"), 0, DWARF_RSP, 16, -2, SAME},
	{"a jump out of the code", TEXT(POP_RBX "\xeb\x70"), 0, -1, 0, 0, 0},
	{"a call at the end of a function, as of abort", TEXT(JE("\x02") POP_RBX RET CALL "\x0f\x1f\x44\0\0" RET), 0,
		DWARF_RSP, 16, -2, SAME},
	{"padding behind a call: the next function may be behind it", TEXT(CALL NOP POP_RBX RET), 0, -1, 0, 0, 0},
	{"vector instructions", TEXT("\xc5\xf8\x77\x62\xf1\x7c\x48\x58\xc1" POP_RBX RET), 0, DWARF_RSP, 16, -2, SAME},
	{"xchg changes the stack", TEXT("\x48\x94" RET), 0, -1, 0, 0, 0},
	{"a number as the stack pointer", TEXT("\x48\xc7\xc4\0\0\0\0" RET), 0, -1, 0, 0, 0},
	{"cmov to the stack pointer", TEXT("\x48\x0f\x44\xe0" RET), 0, -1, 0, 0, 0},
	{"a far return", TEXT("\xcb" RET), 0, -1, 0, 0, 0},
	{"a sum that wraps", TEXT("\x48\x81\xc4\xff\xff\xff\x7f" RET), 0, -1, 0, 0, 0},
	{"a signal's restorer", TEXT("\x48\xc7\xc0\x0f\0\0\0\x0f\x05" RET), 0, -1, 0, 0, 0},
	{"prefixes without an end", TEXT(CALL "\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66"),
		0, -1, 0, 0, 0},
	{"code that ends amid an instruction", TEXT("\x48\x81\xc4\x08"), 0, -1, 0, 0, 0},
	{"code that ends", TEXT(NOP), 0, -1, 0, 0, 0},
	{"no instruction", TEXT("\x06" RET), 0, -1, 0, 0, 0},
};

static const struct elf_section *code_around(const void *arg, uint64_t vaddr)
{
	const struct elf_section *code = arg;
	return vaddr - code->vaddr < code->size ? code : NULL;
}

static bool begins(const void *arg, uint64_t vaddr)
{
	return vaddr == FUNCTION;
}

static struct epilogue *epilogue;

static void setup(void)
{
	ck_assert_int_eq(epilogue_new(&epilogue), 0);
}

static void teardown(void)
{
	ck_assert_ptr_null(epilogue_free(epilogue));
}

static bool find(const struct elf_section *code, uint64_t vaddr, bool called, unsigned insns, struct cfi_rule *ret)
{
	const struct epilogue_known known = {code_around, begins, code};
	return epilogue_find(epilogue, &known, vaddr, called, &insns, ret) == EPILOGUE_FOUND;
}

/* In memory of their own, so that a sanitizer sees a byte too many. */
static struct elf_section make_code(const struct text *text)
{
	struct elf_section code = {.vaddr = CODE, .size = text->len, .data = malloc(text->len)};
	memcpy(code.data, text->bytes, text->len);
	return code;
}

START_TEST(what_code_says)
{
	struct cfi_rule r;
	struct elf_section code = make_code(&rows[_i].code);
	bool found = find(&code, CODE + rows[_i].at, false, EPILOGUE_INSNS_MAX, &r);
	ck_assert_msg(found == (rows[_i].cfa_reg >= 0), "%s: %d", rows[_i].name, found);
	ck_assert_int_eq(r.kind, found ? CFI_RULE_FRAME : CFI_RULE_NONE);
	if (found) {
		ck_assert_msg(r.cfa_reg == rows[_i].cfa_reg && r.cfa == rows[_i].cfa, "%s: %d + %d", rows[_i].name,
			r.cfa_reg, r.cfa);
		const int rbx = r.lost & 1 ? LOST : r.at[0], rbp = r.lost & 2 ? LOST : r.at[1];
		ck_assert_msg(rbx == rows[_i].rbx && rbp == rows[_i].rbp, "%s: %d, %d", rows[_i].name, rbx, rbp);
		ck_assert_int_eq(r.at[CFI_RULE_SAVED_RA], -1);
		ck_assert_int_eq(r.signal, 0);
	}
	free(code.data);
}
END_TEST

START_TEST(how_far_it_looks)
{
	enum { LONG = EPILOGUE_INSNS_MAX };
	struct cfi_rule r;
	struct elf_section code = {.vaddr = CODE, .size = LONG, .data = malloc(LONG)};
	memset(code.data, 0x90, LONG);
	code.data[LONG - 1] = 0xc3;
	ck_assert(find(&code, CODE, false, EPILOGUE_INSNS_MAX, &r));
	ck_assert(find(&code, CODE, false, UINT32_MAX, &r));
	ck_assert(!find(&code, CODE, false, EPILOGUE_INSNS_BRIEF, &r));
	ck_assert(find(&code, CODE + LONG - EPILOGUE_INSNS_BRIEF, false, EPILOGUE_INSNS_BRIEF, &r));
	ck_assert(!find(&code, CODE - 1, false, EPILOGUE_INSNS_MAX, &r));
	ck_assert(!find(&code, CODE + LONG, false, EPILOGUE_INSNS_MAX, &r));
	/* branches upon branches: no more ways than there is room for, and no end of time */
	for (int i = 0; i < LONG; i += 2)
		memcpy(code.data + i, "\x74\x7e", 2);
	ck_assert(!find(&code, CODE, false, EPILOGUE_INSNS_MAX, &r));
	free(code.data);
}
END_TEST

/* Code has holes where tables describe it. */
static const struct elf_section stretches[] = {
	{.vaddr = CODE, .size = 3, .data = (uint8_t *)POP_RBX "\xeb\x0d"},
	{.vaddr = CODE + 0x10, .size = 1, .data = (uint8_t *)RET},
};
static const struct elf_section *stretch_around(const void *arg, uint64_t vaddr)
{
	for (size_t i = 0; i < COUNT(stretches); i++)
		if (vaddr - stretches[i].vaddr < stretches[i].size)
			return &stretches[i];
	return NULL;
}

START_TEST(a_jump_to_other_code)
{
	const struct epilogue_known known = {stretch_around, begins, NULL};
	struct cfi_rule r;
	unsigned insns = 100;
	ck_assert_int_eq(epilogue_find(epilogue, &known, CODE, false, &insns, &r), EPILOGUE_FOUND);
	ck_assert(r.cfa_reg == DWARF_RSP && r.cfa == 16 && r.at[0] == -2);
	ck_assert_uint_eq(insns, 97); /* pop, jmp, ret */
	ck_assert_int_eq(epilogue_find(epilogue, &known, CODE + 8, false, &insns, &r), EPILOGUE_UNKNOWN);
}
END_TEST

START_TEST(at_a_functions_beginning)
{
	struct cfi_rule r;
	struct elf_section code = {.vaddr = FUNCTION, .size = 8, .data = (uint8_t *)ADD_RSP_16 POP_RBX RET};
	ck_assert(find(&code, FUNCTION, false, EPILOGUE_INSNS_MAX, &r));
	ck_assert(r.cfa_reg == DWARF_RSP && r.cfa == 8); /* whatever its code says */
	/* what is called as the last thing before does not return */
	ck_assert(!find(&code, FUNCTION, true, EPILOGUE_INSNS_MAX, &r));
	ck_assert(find(&code, FUNCTION + 4, true, EPILOGUE_INSNS_MAX, &r));
}
END_TEST

static const struct {
	const char *name;
	struct text code; /* its end is asked about */
	bool expect;
} calls[] = {
	{"a near call", TEXT(CALL), true},
	{"by a register", TEXT("\xff\xd0"), true},
	{"by a register with a prefix", TEXT("\x41\xff\xd4"), true},
	{"through memory", TEXT("\xff\x15\x10\0\0\0"), true},
	{"through memory with an index", TEXT("\xff\x94\xc5\0\1\0\0"), true},
	{"through memory at a register", TEXT("\x41\xff\x54\x24\x08"), true},
	{"other instructions before it", TEXT(NOP NOP NOP NOP NOP "\xff\xd0"), true},
	{"none", TEXT(NOP NOP NOP NOP NOP NOP NOP NOP), false},
	{"a jump", TEXT("\xe9\0\0\0\0"), false},
	{"an indirect jump", TEXT(NOP NOP NOP "\xff\xe0"), false},
	{"a push", TEXT(NOP NOP NOP PUSH_RBX), false},
	{"the beginning of the code", TEXT(""), false},
};

static const struct {
	const char *name;
	struct text code;
	enum epilogue_outcome expect;
} outcomes[] = {
	{"a return", TEXT(RET), EPILOGUE_FOUND},
	{"a trap", TEXT("\xf4"), EPILOGUE_NEVER},
	{"an endless loop", TEXT("\xeb\xfe"), EPILOGUE_NEVER},
	{"a call and a trap", TEXT(CALL "\x0f\x0b"), EPILOGUE_NEVER},
	{"a jump that is not told", TEXT(JE("\x02") "\xff\xe0\xf4"), EPILOGUE_UNKNOWN},
	{"code that ends", TEXT(NOP), EPILOGUE_UNKNOWN},
	{"ways that do not agree", TEXT(JE("\x02") POP_RBX RET RET), EPILOGUE_UNKNOWN},
};

START_TEST(why_there_is_no_rule)
{
	struct cfi_rule r;
	unsigned insns = EPILOGUE_INSNS_MAX;
	struct elf_section code = make_code(&outcomes[_i].code);
	const struct epilogue_known known = {code_around, begins, &code};
	const enum epilogue_outcome outcome = epilogue_find(epilogue, &known, CODE, false, &insns, &r);
	ck_assert_msg(outcome == outcomes[_i].expect, "%s: %d", outcomes[_i].name, outcome);
	free(code.data);
}
END_TEST

START_TEST(what_is_behind_a_call)
{
	struct elf_section code = make_code(&calls[_i].code);
	ck_assert_msg(epilogue_is_behind_call(&code, CODE + code.size) == calls[_i].expect, "%s", calls[_i].name);
	ck_assert(!epilogue_is_behind_call(&code, CODE + code.size + 1));
	ck_assert(!epilogue_is_behind_call(&code, CODE - 1));
	free(code.data);
}
END_TEST

/* --- real code: what it says is what its tables say */

static bool no_function(const void *arg, uint64_t vaddr)
{
	return false;
}

struct comparison {
	unsigned n, equal, none, other;
};

static bool is_padding(const uint8_t *p)
{
	while (*p == 0x66 || *p == 0x2e)
		p++;
	return *p == 0x90 || (p[0] == 0x0f && p[1] == 0x1f) || *p == 0xcc || *p == 0xf4;
}

static void compare_function(
	const struct elf_section *code, const struct unwind_table *t, const struct cfi_entry *e, struct comparison *c)
{
	const struct epilogue_known known = {code_around, no_function, code};
	for (uint64_t at = e->start; at < e->end && at - code->vaddr < code->size;) {
		const uint8_t *p = code->data + (at - code->vaddr);
		const int size = insn_length(p, code->size - (at - code->vaddr));
		const struct cfi_rule *r = unwind_table_find(t, at);
		struct cfi_rule said;
		if (size <= 0)
			return;
		at += (uint64_t)size;
		if (r->kind != CFI_RULE_FRAME || is_padding(p))
			continue;
		c->n++;
		unsigned insns = EPILOGUE_INSNS_MAX;
		if (epilogue_find(epilogue, &known, at - (uint64_t)size, false, &insns, &said) != EPILOGUE_FOUND)
			c->none++;
		else if (said.cfa_reg != r->cfa_reg || said.cfa == r->cfa)
			c->equal++;
		else
			c->other++;
	}
}

static const char *const files[] = {"/lib/x86_64-linux-gnu/libm.so.6", "/lib/x86_64-linux-gnu/libc.so.6"};

START_TEST(as_tables_say)
{
	enum { EVERY = 7 };
	fd_auto fd = fd_open(AT_FDCWD, files[_i], O_RDONLY, 0);
	struct elf *f;
	struct unwind_table *t;
	struct comparison c = {0};
	ck_assert_int_eq(elf_read(elf_source_fd(&fd), &f, NULL), 0);
	ck_assert_int_eq(unwind_table_build(f, 256 << 20, &t), 0);
	for (unsigned i = 0; i < f->n_segments; i++) {
		const struct elf_segment *s = &f->segments[i];
		struct elf_section code = {.vaddr = s->vaddr, .size = s->filesz};
		struct cfi_section entries = {.bytes = &f->eh_frame, .open_ended = f->eh_frame_open_ended};
		struct cfi_entry e;
		uint32_t at;
		unsigned n = 0;
		if (!s->exec)
			continue;
		ck_assert_int_eq(elf_bytes(elf_source_fd(&fd), s->offset, s->filesz, "code", &code.data, NULL), 0);
		for (uint64_t off = 0; cfi_entry_next(&entries, &off, &at);)
			if (cfi_entry_read(&entries, at, &e) && e.start - code.vaddr < code.size && n++ % EVERY == 0)
				compare_function(&code, t, &e, &c);
		free(code.data);
	}
	printf("epilogue: %s: %u instructions, %u as the table says, %u without a rule, %u other\n", files[_i], c.n,
		c.equal, c.none, c.other);
	ck_assert_uint_gt(c.n, 5000);
	/* a function that does not return leaves the ways behind its calls in doubt */
	ck_assert_uint_gt(c.equal, c.n / 100 * 95);
	ck_assert_uint_lt(c.other, c.n / 500);
	unwind_table_free(t);
	elf_free(f);
}
END_TEST

UNIT_SUITE(epilogue_x86_64)
{
	Suite *s = suite_create("epilogue_x86_64");
	TCase *t = tcase_create("epilogue");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, what_code_says, 0, COUNT(rows));
	tcase_add_loop_test(t, why_there_is_no_rule, 0, COUNT(outcomes));
	tcase_add_test(t, how_far_it_looks);
	tcase_add_test(t, a_jump_to_other_code);
	tcase_add_test(t, at_a_functions_beginning);
	tcase_add_loop_test(t, what_is_behind_a_call, 0, COUNT(calls));
	tcase_add_loop_test(t, as_tables_say, 0, COUNT(files));
	suite_add_tcase(s, t);
	return s;
}

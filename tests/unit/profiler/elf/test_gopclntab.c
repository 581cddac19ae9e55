/* SPDX-License-Identifier: Apache-2.0 */
/* gopclntab: a table made by hand, in all versions; cut anywhere; and what the rows say of it. */
#include "profiler/elf/gopclntab.h"

#include "profiler/unwind/unwind_table.h"

#include "tests/unit/support/go_table.h"
#include "tests/unit/support/pages.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
/* The same two functions as Go wrote them before 1.18: 8-byte fields, addresses as they are. */
static size_t make_old(uint8_t table[512], uint32_t magic)
{
	uint8_t now[512];
	const bool oldest = magic == 0xfffffffb;
	const uint64_t list = oldest ? 16 : 160, names = oldest ? 0 : 80, pcs = oldest ? 0 : 120,
		       funcs = oldest ? 0 : 160;
	uint64_t functab[] = {TEXT, 64 + list - funcs, TEXT + 0x40, 120 + list - funcs, TEXT + 0x50};
	uint32_t f[2][6] = {{TEXT, 0, 0, 0, 0, 0}, {TEXT + 0x40, 0, 0, 0, 0, 0}};
	make(now, 0xfffffff1);
	memset(table, 0, 512);
	memcpy(table, now, 8);
	memcpy(table, &magic, 4);
	memcpy(table + 8, (uint64_t[]){2}, 8);
	const uint64_t all_names = oldest ? 300 : 80, all_pcs = oldest ? 340 : 120;
	if (!oldest)
		memcpy(table + 8, (uint64_t[]){2, 0, names, 0, 0, pcs, funcs}, 56);
	memcpy(table + all_names, now + 80, 40);
	memcpy(table + all_pcs, now + 120, 40);
	memcpy(table + list, functab, sizeof(functab));
	f[0][2] = (uint32_t)(all_names - names + 1), f[1][2] = (uint32_t)(all_names - names + 8);
	f[0][5] = (uint32_t)(all_pcs - pcs + 1), f[1][5] = (uint32_t)(all_pcs - pcs + 8);
	memcpy(table + list + 64, f[0], sizeof(f[0]));
	memcpy(table + list + 120, f[1], sizeof(f[1]));
	return 400;
}

static size_t make_version(uint8_t table[512], uint32_t magic)
{
	return magic == 0xfffffffa || magic == 0xfffffffb ? make_old(table, magic) : make(table, magic);
}

static const uint32_t magics[] = {0xfffffff0, 0xfffffff1, 0xfffffffa, 0xfffffffb};

START_TEST(functions_and_their_deltas)
{
	uint8_t table[512];
	struct gopclntab t;
	struct gofunc f;
	struct godeltas d;
	uint64_t from;
	size_t size = make_version(table, magics[_i]);
	ck_assert(gopclntab_open(table, size, &t));
	ck_assert_uint_eq(t.n_funcs, 2);
	ck_assert(gopclntab_func(&t, 0, &f));
	ck_assert(f.start == TEXT && f.end == TEXT + 0x40 && !f.is_root && !f.switches);
	godeltas_begin(&t, &f, &d);
	static const int64_t want[][2] = {{0, 0}, {4, 24}, {0x30, 0}};
	for (size_t i = 0; i < LENGTH(want); i++) {
		ck_assert(godeltas_next(&d, &from));
		ck_assert_msg(from == TEXT + (uint64_t)want[i][0] && d.delta == want[i][1], "%zu: %llx %lld", i,
			(unsigned long long)from, (long long)d.delta);
	}
	ck_assert(!godeltas_next(&d, &from));
	ck_assert(gopclntab_func(&t, 1, &f));
	ck_assert(f.is_root && f.start == TEXT + 0x40 && f.end == TEXT + 0x50);
	ck_assert(!gopclntab_func(&t, 1u << 30, &f));
	ck_assert(!gopclntab_find(&t, TEXT - 1, &f));
	ck_assert(gopclntab_find(&t, TEXT, &f) && f.start == TEXT);
	ck_assert(gopclntab_find(&t, TEXT + 0x3f, &f) && f.start == TEXT);
	ck_assert(gopclntab_find(&t, TEXT + 0x40, &f) && f.start == TEXT + 0x40);
	ck_assert(!gopclntab_find(&t, TEXT + 0x50, &f));
}
END_TEST

START_TEST(other_tables)
{
	uint8_t table[512];
	struct gopclntab t;
	size_t size = make(table, 0xfffffff2);
	ck_assert(!gopclntab_open(table, size, &t));
	make(table, magics[0]);
	table[7] = 4; /* 32-bit */
	ck_assert(!gopclntab_open(table, size, &t));
	make(table, magics[0]);
	memset(table + 8 + 7 * 8, 0xff, 8);
	ck_assert(!gopclntab_open(table, size, &t));
	ck_assert(!gopclntab_open(NULL, 0, &t));
}
END_TEST

START_TEST(cut_anywhere)
{
	static const size_t needs[] = {
		160, 160, 168, 72}; /* where the list of functions begins, or its first address ends */
	uint8_t table[512];
	size_t size = make_version(table, magics[_i]);
	for (size_t n = 0; n <= size; n++) {
		struct gopclntab t;
		struct gofunc f;
		struct godeltas d;
		uint64_t from;
		uint8_t *exact = malloc(n ? n : 1);
		memcpy(exact, table, n);
		bool open = gopclntab_open(exact, n, &t);
		ck_assert_msg(open == (n >= needs[_i]), "%zu", n);
		for (size_t i = 0; open && i < t.n_funcs; i++)
			if (gopclntab_func(&t, i, &f))
				for (godeltas_begin(&t, &f, &d); godeltas_next(&d, &from);)
					;
		free(exact);
	}
}
END_TEST

/* A real one, of Go 1.15: Go's own test data. */
#define OLD_TABLE "/usr/lib/go-1.19/src/debug/gosym/testdata/pcln115.gz"

START_TEST(a_table_of_go_1_15)
{
	enum { SIZE = 4 << 20 };
	uint8_t *table = pages_new(SIZE);
	struct gopclntab t;
	struct gofunc f;
	struct godeltas d;
	uint64_t from, last = 0;
	size_t roots = 0, deltas = 0;
	gzFile file = gzopen(OLD_TABLE, "rb");
	if (!file) {
		skip("no " OLD_TABLE);
		return;
	}
	int size = gzread(file, table, SIZE);
	gzclose(file);
	ck_assert_int_gt(size, 1000);
	ck_assert(gopclntab_open(table, (size_t)size, &t));
	ck_assert_uint_gt(t.n_funcs, 1000);
	for (size_t i = 0; i < t.n_funcs; i++) {
		ck_assert_msg(gopclntab_func(&t, i, &f), "%zu", i);
		ck_assert_uint_ge(f.start, last);
		last = f.end;
		roots += f.is_root;
		for (godeltas_begin(&t, &f, &d); godeltas_next(&d, &from); deltas++) {
			ck_assert(from >= f.start && from < f.end);
			ck_assert_msg(d.delta >= 0 && d.delta % 8 == 0, "%lld", (long long)d.delta);
		}
		ck_assert_msg(!f.pcsp || d.pc + 32 > f.end, "%zu", i); /* functions are aligned */
	}
	ck_assert_uint_ge(roots, 3);
	ck_assert_uint_gt(deltas, t.n_funcs);
}
END_TEST

/* An ELF file of Go 1.26: the header's text is 0, runtime.moduledata has it, perhaps only by a relocation. */
struct go_image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh[5];
	char names[64];
	Elf64_Rela rela[3];
	uint64_t module[24];
	uint8_t table[512];
};
#define IN(field) offsetof(struct go_image, field)

static void make_image(struct go_image *x)
{
	static const char names[] = "\0.gopclntab\0.go.module\0.rela.dyn\0.shstrtab";
	memset(x, 0, sizeof(*x));
	memcpy(x->eh.e_ident, ELFMAG "\2\1\1", 7);
	x->eh.e_type = ET_DYN, x->eh.e_machine = EM_X86_64;
	x->eh.e_phoff = IN(ph), x->eh.e_phnum = 1, x->eh.e_phentsize = sizeof(Elf64_Phdr);
	x->eh.e_shoff = IN(sh), x->eh.e_shnum = 5, x->eh.e_shentsize = sizeof(Elf64_Shdr), x->eh.e_shstrndx = 4;
	x->ph = (Elf64_Phdr){.p_type = PT_LOAD, .p_flags = PF_X, .p_vaddr = 0x400000, .p_memsz = 0x10000};
	memcpy(x->names, names, sizeof(names));
	x->sh[1] = (Elf64_Shdr){.sh_name = 1,
		.sh_type = SHT_PROGBITS,
		.sh_addr = 0x500000,
		.sh_offset = IN(table),
		.sh_size = make(x->table, 0xfffffff1)};
	x->sh[2] = (Elf64_Shdr){.sh_name = 12,
		.sh_type = SHT_PROGBITS,
		.sh_addr = 0x600000,
		.sh_offset = IN(module),
		.sh_size = sizeof(x->module)};
	x->sh[3] = (Elf64_Shdr){.sh_name = 23, .sh_type = SHT_RELA, .sh_offset = IN(rela), .sh_size = sizeof(x->rela)};
	x->sh[4] =
		(Elf64_Shdr){.sh_name = 33, .sh_type = SHT_STRTAB, .sh_offset = IN(names), .sh_size = sizeof(x->names)};
	memset(x->table + 24, 0, 8);
	memcpy(x->table + 160, (uint32_t[]){0x10}, 4); /* something of C's comes first */
}

static bool has_rows(const struct go_image *x)
{
	struct elf_memory memory = {x, sizeof(*x)};
	struct elf *elf;
	struct unwind_table *rows;
	ck_assert_int_eq(elf_read(elf_source_memory(&memory), &elf, NULL), 0);
	ck_assert_int_eq(unwind_table_build(elf, 64 << 20, &rows), 0);
	bool found = unwind_table_find(rows, TEXT + 0x14)->kind == CFI_RULE_FRAME;
	unwind_table_free(rows);
	elf_free(elf);
	return found;
}

START_TEST(where_the_text_is_since_go_1_26)
{
	static struct go_image x;
	make_image(&x);
	ck_assert(!has_rows(&x)); /* nobody says */
	x.module[22] = TEXT;
	ck_assert(!has_rows(&x)); /* what says it does not fit the first function */
	x.module[20] = TEXT + 0x10;
	ck_assert(has_rows(&x));
	x.sh[2].sh_size = 22 * 8;
	ck_assert(!has_rows(&x));
	make_image(&x);
	x.rela[0] = (Elf64_Rela){0x600000 + 160, R_X86_64_RELATIVE, TEXT + 0x10};
	x.rela[2] = (Elf64_Rela){0x600000 + 176, R_X86_64_RELATIVE, TEXT};
	ck_assert(has_rows(&x));
	x.rela[2].r_info = R_X86_64_64;
	ck_assert(!has_rows(&x));
}
END_TEST

/* Shorter than its header, whose last words would be read as 0. */
START_TEST(a_table_that_is_no_table)
{
	struct go_image *x = malloc(sizeof(*x));
	for (uint64_t size = 5; size < 80; size++) {
		make_image(x);
		x->sh[1].sh_size = size;
		x->module[22] = TEXT;
		x->module[20] = TEXT + 0xfffffff1; /* as if the table's first word were the first function */
		ck_assert(!has_rows(x));
	}
	free(x);
}
END_TEST

START_TEST(rows_of_it)
{
	uint8_t table[512];
	struct elf elf = {.machine = EM_X86_64,
		.gopclntab = {0x500000, 0, table},
		.n_segments = 1,
		.segments = {{.vaddr = 0x400000, .memsz = 0x10000, .exec = true}}};
	struct unwind_table *rows;
	elf.gopclntab.size = make(table, magics[1]);
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	const struct cfi_rule *r = unwind_table_find(rows, TEXT + 2);
	ck_assert(r->kind == CFI_RULE_FRAME && r->cfa_reg == DWARF_RSP && r->cfa == 8 && r->at[1] == CFI_RULE_SAME);
	r = unwind_table_find(rows, TEXT + 4);
	ck_assert(r->kind == CFI_RULE_FRAME && r->cfa == 32 && r->at[1] == -2 && r->at[CFI_RULE_SAVED - 1] == -1);
	ck_assert(unwind_table_find(rows, TEXT + 0x30)->cfa == 8);
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x40)->kind, CFI_RULE_END);
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x50)->kind, CFI_RULE_NONE);
	ck_assert_int_eq(unwind_table_find(rows, TEXT - 1)->kind, CFI_RULE_NONE);
	unwind_table_free(rows);
}
END_TEST

/* Of the table by hand, with another name for its second function. */
static struct unwind_table *rows_with(uint8_t table[512], const char *name)
{
	struct elf elf = {.machine = EM_X86_64,
		.gopclntab = {0x500000, make(table, magics[1]), table},
		.n_segments = 1,
		.segments = {{.vaddr = 0x400000, .memsz = 0x10000, .exec = true}}};
	struct unwind_table *rows;
	memcpy(table + 88, name, strlen(name) + 1);
	ck_assert_int_eq(unwind_table_build(&elf, 64 << 20, &rows), 0);
	return rows;
}

/* The kernel "returns" to its first byte, and what is looked up is the byte before: that has the rule as well. */
START_TEST(the_signal_trampoline)
{
	uint8_t table[512];
	struct unwind_table *rows = rows_with(table, "runtime.sigreturn");
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x3e)->kind, CFI_RULE_FRAME);
	for (uint64_t at = TEXT + 0x3f; at < TEXT + 0x50; at++) {
		const struct cfi_rule *r = unwind_table_find(rows, at);
		ck_assert(r->kind == CFI_RULE_FULL && r->signal);
		ck_assert_int_eq(unwind_table_full(rows, r)->reg[DWARF_RA].n, 0xa8);
	}
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x50)->kind, CFI_RULE_NONE);
	unwind_table_free(rows);
}
END_TEST

/* On the other stack nothing is known of the caller, and that is another thing than no entry. */
START_TEST(a_switch_of_stacks)
{
	uint8_t table[512];
	struct unwind_table *rows = rows_with(table, "runtime.mcall");
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x3f)->kind, CFI_RULE_FRAME);
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x40)->kind, CFI_RULE_SWITCH);
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x4f)->kind, CFI_RULE_SWITCH);
	ck_assert_int_eq(unwind_table_find(rows, TEXT + 0x50)->kind, CFI_RULE_NONE);
	unwind_table_free(rows);
}
END_TEST

UNIT_SUITE(gopclntab)
{
	Suite *s = suite_create("gopclntab");
	TCase *t = tcase_create("gopclntab");

	tcase_add_loop_test(t, functions_and_their_deltas, 0, LENGTH(magics));
	tcase_add_test(t, other_tables);
	tcase_add_loop_test(t, cut_anywhere, 0, LENGTH(magics));
	tcase_add_test(t, a_table_of_go_1_15);
	tcase_add_test(t, where_the_text_is_since_go_1_26);
	tcase_add_test(t, a_table_that_is_no_table);
	tcase_add_test(t, rows_of_it);
	tcase_add_test(t, the_signal_trampoline);
	tcase_add_test(t, a_switch_of_stacks);
	suite_add_tcase(s, t);
	return s;
}

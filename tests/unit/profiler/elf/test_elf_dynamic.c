/* SPDX-License-Identifier: Apache-2.0 */
/* elf_dynamic: a hand-made file without section headers, whose dynamic segment is spoiled one value at a time. */
#include "profiler/elf/elf_dynamic.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VADDR 0x10000
#define CODE_VADDR 0x30000

/* Symbols 0 to 2 are imports, the others are hashed: two in the first bucket, one in the second. */
enum { N_SYMBOLS = 6, FIRST_HASHED = 3, N_RELOCATIONS = 2 };
enum { PH_LOAD, PH_CODE, PH_DYNAMIC, N_PH };
enum { SYMTAB, SYMENT, STRTAB, STRSZ, HASH, GNU_HASH, JMPREL, PLTREL, PLTRELSZ, LAST, N_DYNAMIC };

struct image {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[N_PH];
	Elf64_Dyn dynamic[N_DYNAMIC];
	uint32_t gnu_hash[4 + 2 + 2 + 3]; /* head, a word of the bloom filter, buckets, chains */
	uint32_t hash[2 + 1 + N_SYMBOLS]; /* head, a bucket, chains */
	Elf64_Sym symbols[N_SYMBOLS];
	char strings[64];
	Elf64_Rela relocations[N_RELOCATIONS];
	uint8_t code[64];
	Elf64_Shdr sections[3]; /* used by some tests */
};
#define AT(field) offsetof(struct image, field)
#define SIZE(field) sizeof(((struct image *)0)->field)

static void image_make(struct image *im)
{
	*im = (struct image){
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = AT(ph),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = N_PH,
			.e_shentsize = sizeof(Elf64_Shdr)},
		.ph =
			{
				/* .bss is behind it, so nothing is mapped behind its bytes */
				[PH_LOAD] = {.p_type = PT_LOAD,
					.p_flags = PF_R,
					.p_vaddr = VADDR,
					.p_filesz = AT(code),
					.p_memsz = AT(code) + 1},
				[PH_CODE] = {.p_type = PT_LOAD,
					.p_flags = PF_R | PF_X,
					.p_offset = AT(code),
					.p_vaddr = CODE_VADDR,
					.p_filesz = SIZE(code),
					.p_memsz = SIZE(code) + 1},
				[PH_DYNAMIC] = {.p_type = PT_DYNAMIC, .p_vaddr = VADDR + AT(dynamic)},
			},
		.dynamic =
			{
				[SYMTAB] = {DT_SYMTAB, {VADDR + AT(symbols)}},
				[SYMENT] = {DT_SYMENT, {sizeof(Elf64_Sym)}},
				[STRTAB] = {DT_STRTAB, {VADDR + AT(strings)}},
				[STRSZ] = {DT_STRSZ, {SIZE(strings)}},
				[HASH] = {DT_HASH, {VADDR + AT(hash)}},
				[GNU_HASH] = {DT_GNU_HASH, {VADDR + AT(gnu_hash)}},
				[JMPREL] = {DT_JMPREL, {VADDR + AT(relocations)}},
				[PLTREL] = {DT_PLTREL, {DT_RELA}},
				[PLTRELSZ] = {DT_PLTRELSZ, {SIZE(relocations)}},
			},
		.gnu_hash = {2, FIRST_HASHED, 1, 6, 0, 0, FIRST_HASHED, FIRST_HASHED + 2, 2, 3, 1},
		.hash = {1, N_SYMBOLS},
		.relocations = {{.r_info = ELF64_R_INFO(1, 7)}, {.r_info = ELF64_R_INFO(2, 7)}},
	};
}

static void no_entry(struct image *im, unsigned which)
{
	im->dynamic[which].d_tag = DT_DEBUG;
}

static void nothing(struct image *im) {}
static void hash_only(struct image *im)
{
	no_entry(im, GNU_HASH);
}
static void gnu_hash_only(struct image *im)
{
	no_entry(im, HASH);
}
static void no_hash(struct image *im)
{
	no_entry(im, HASH);
	no_entry(im, GNU_HASH);
}
static void nothing_exported(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[0] = im->gnu_hash[1] = 1; /* as GNU ld writes it */
	im->gnu_hash[6] = 0;
}
static void no_hash_and_no_stubs(struct image *im)
{
	no_hash(im);
	no_entry(im, JMPREL);
}
static void stubs_of_no_addend(struct image *im)
{
	no_hash(im);
	im->dynamic[PLTREL].d_un.d_val = DT_REL;
}
static void relocation_of_a_far_symbol(struct image *im)
{
	im->relocations[0].r_info = UINT64_MAX;
}
static void hash_forged_to_none(struct image *im)
{
	im->hash[1] = 0;
}
static void hash_forged_to_many(struct image *im)
{
	im->hash[1] = UINT32_MAX;
}
static void hash_elsewhere(struct image *im)
{
	im->dynamic[HASH].d_un.d_ptr = UINT64_MAX - 3;
}
static void hash_across_the_end(struct image *im)
{
	im->dynamic[HASH].d_un.d_ptr = VADDR + AT(code) - 4;
}
static void chain_without_end(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[10] = 2;
	memset(im->hash, 0, sizeof(im->hash));
}
static void chain_begins_far(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[7] = UINT32_MAX;
}
static void buckets_many(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[0] = UINT32_MAX;
}
static void buckets_none(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[0] = 0;
}
static void bloom_large(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[2] = UINT32_MAX;
}
static void first_hashed_far(struct image *im)
{
	no_entry(im, HASH);
	im->gnu_hash[1] = UINT32_MAX;
}
static void gnu_hash_across_the_end(struct image *im)
{
	no_entry(im, HASH);
	im->dynamic[GNU_HASH].d_un.d_ptr = VADDR + AT(code) - 15;
}
/* The file's header is at that address: a missing entry must not make a hash table of it. */
static void no_hash_and_address_0(struct image *im)
{
	no_hash_and_no_stubs(im);
	im->ph[PH_LOAD].p_vaddr = 0;
	im->ph[PH_DYNAMIC].p_vaddr -= VADDR;
	im->dynamic[SYMTAB].d_un.d_ptr -= VADDR;
	im->dynamic[STRTAB].d_un.d_ptr -= VADDR;
}
static void no_symbols(struct image *im)
{
	no_entry(im, SYMTAB);
}
static void symbols_elsewhere(struct image *im)
{
	im->dynamic[SYMTAB].d_un.d_ptr = VADDR - 1;
}
/* Names before them, so that the segment's end is the only bound. */
static void symbols_across_the_end(struct image *im)
{
	im->dynamic[STRTAB].d_un.d_ptr = VADDR + AT(hash);
	im->ph[PH_LOAD].p_filesz = AT(symbols) + 2 * sizeof(Elf64_Sym) + 23;
	im->ph[PH_LOAD].p_memsz = im->ph[PH_LOAD].p_filesz + 1;
}
static void symbols_across_the_end_of_a_page(struct image *im)
{
	symbols_across_the_end(im);
	im->ph[PH_LOAD].p_memsz = im->ph[PH_LOAD].p_filesz;
}
static void symbols_across_the_end_of_the_file(struct image *im)
{
	im->dynamic[STRTAB].d_un.d_ptr = VADDR + AT(hash);
	im->dynamic[SYMTAB].d_un.d_ptr = VADDR + sizeof(*im) - 3 * sizeof(Elf64_Sym);
	im->ph[PH_LOAD].p_filesz = im->ph[PH_LOAD].p_memsz = 1ull << 40;
}
static void symbols_of_another_size(struct image *im)
{
	im->dynamic[SYMENT].d_un.d_val = 16;
}
static void no_symbol_size(struct image *im)
{
	no_entry(im, SYMENT);
}
static void no_strings(struct image *im)
{
	no_entry(im, STRTAB);
}
static void no_strings_size(struct image *im)
{
	no_entry(im, STRSZ);
}
static void strings_large(struct image *im)
{
	im->dynamic[STRSZ].d_un.d_val = UINT64_MAX;
}
static void strings_elsewhere(struct image *im)
{
	im->dynamic[STRTAB].d_un.d_ptr = 0x7000000;
}
static void segment_elsewhere(struct image *im)
{
	im->ph[PH_DYNAMIC].p_vaddr = VADDR + AT(code);
}
static void segment_offset_wraps(struct image *im)
{
	im->ph[PH_LOAD].p_offset = UINT64_MAX - 7; /* 8 bytes on, everything would be in its place again */
	im->ph[PH_LOAD].p_vaddr -= 8;
}
static void segment_without_end(struct image *im)
{
	for (size_t i = LAST; i < N_DYNAMIC; i++)
		im->dynamic[i].d_tag = DT_DEBUG;
	im->ph[PH_LOAD].p_filesz = AT(gnu_hash);
	im->ph[PH_LOAD].p_memsz = sizeof(*im); /* hash tables and symbols are nowhere */
}
static void no_segment(struct image *im)
{
	im->ph[PH_DYNAMIC].p_type = PT_NULL;
}
/* What is mapped there is the second one. */
static void segment_over_the_first(struct image *im)
{
	im->ph[PH_CODE] = im->ph[PH_LOAD];
	im->ph[PH_CODE].p_flags |= PF_X;
	im->ph[PH_LOAD].p_offset = 64;
}
static void headers_beyond(struct image *im)
{
	im->eh.e_shoff = 1ull << 40;
	im->eh.e_shnum = 3;
}
static void headers_of_another_size(struct image *im)
{
	im->eh.e_shoff = AT(sections);
	im->eh.e_shnum = 3;
	im->eh.e_shentsize = 1;
}
static void headers_are_code(struct image *im)
{
	memset(im->code, 0xcc, sizeof(im->code));
	im->eh.e_shoff = AT(code);
	im->eh.e_shnum = im->eh.e_shstrndx = 1;
}
static void headers_are_program_headers(struct image *im)
{
	im->eh.e_shoff = AT(ph);
	im->eh.e_shnum = 3;
	im->eh.e_shstrndx = 2;
}
static void headers_are_zeros(struct image *im)
{
	im->eh.e_shoff = AT(sections);
	im->eh.e_shnum = 3;
}
static void headers_many(struct image *im)
{
	im->eh.e_shoff = AT(sections);
	im->sections[0].sh_size = 1 << 30;
}
static void headers_true(struct image *im)
{
	headers_are_zeros(im);
	im->sections[2] = (Elf64_Shdr){.sh_type = SHT_DYNAMIC, .sh_addr = VADDR + AT(dynamic)};
}
static void headers_of_a_debug_file(struct image *im)
{
	headers_true(im);
	im->sections[2].sh_type = SHT_NOBITS;
}
static void headers_of_another_file(struct image *im)
{
	headers_true(im);
	im->sections[2].sh_addr++;
}

#define NONE 0
static const struct {
	const char *name;
	void (*spoil)(struct image *im);
	size_t symbols, strings;
} rows[] = {
	{"a sound file", nothing, N_SYMBOLS, SIZE(strings)},
	{"DT_HASH alone", hash_only, N_SYMBOLS, SIZE(strings)},
	{"DT_GNU_HASH alone", gnu_hash_only, N_SYMBOLS, SIZE(strings)},
	{"no hash table: what stubs need", no_hash, 3, SIZE(strings)},
	{"a hash table of no symbol: what stubs need", nothing_exported, 3, SIZE(strings)},
	{"neither hash table nor stubs", no_hash_and_no_stubs, NONE, 0},
	{"neither, in a file that begins at address 0", no_hash_and_address_0, NONE, 0},
	{"relocations of another kind", stubs_of_no_addend, NONE, 0},
	{"a relocation of a symbol that is not there", relocation_of_a_far_symbol, N_SYMBOLS, SIZE(strings)},
	{"DT_HASH forged: no symbols", hash_forged_to_none, N_SYMBOLS, SIZE(strings)},
	{"DT_HASH forged: more symbols than file", hash_forged_to_many, N_SYMBOLS, SIZE(strings)},
	{"DT_HASH outside all segments", hash_elsewhere, N_SYMBOLS, SIZE(strings)},
	{"DT_HASH across the end of its segment", hash_across_the_end, N_SYMBOLS, SIZE(strings)},
	{"a chain that never ends", chain_without_end, N_SYMBOLS, SIZE(strings)},
	{"a chain that begins far outside", chain_begins_far, N_SYMBOLS, SIZE(strings)},
	{"more buckets than file", buckets_many, 3, SIZE(strings)},
	{"no buckets", buckets_none, 3, SIZE(strings)},
	{"a bloom filter of 32 GiB", bloom_large, 3, SIZE(strings)},
	{"the first symbol in DT_GNU_HASH far outside", first_hashed_far, N_SYMBOLS, SIZE(strings)},
	{"DT_GNU_HASH across the end of its segment", gnu_hash_across_the_end, 3, SIZE(strings)},
	{"no symbols", no_symbols, NONE, 0},
	{"symbols outside all segments", symbols_elsewhere, NONE, 0},
	{"symbols across the end of their segment", symbols_across_the_end, 2, 0},
	{"symbols across that end, in a mapped page", symbols_across_the_end_of_a_page, N_SYMBOLS, SIZE(strings)},
	{"symbols across the end of the file", symbols_across_the_end_of_the_file, 3, SIZE(strings)},
	{"symbols of 16 bytes", symbols_of_another_size, N_SYMBOLS, SIZE(strings)},
	{"no size of a symbol", no_symbol_size, N_SYMBOLS, SIZE(strings)},
	{"no names", no_strings, NONE, 0},
	{"no size of names: up to the end of the segment", no_strings_size, N_SYMBOLS, AT(code) - AT(strings)},
	{"more names than segment", strings_large, N_SYMBOLS, AT(code) - AT(strings)},
	{"names outside all segments", strings_elsewhere, NONE, 0},
	{"a dynamic segment that no PT_LOAD has", segment_elsewhere, NONE, 0},
	{"a PT_LOAD whose offset wraps around", segment_offset_wraps, NONE, 0},
	{"a dynamic segment without DT_NULL", segment_without_end, NONE, 0},
	{"no dynamic segment", no_segment, NONE, 0},
	{"a PT_LOAD over another one", segment_over_the_first, N_SYMBOLS, SIZE(strings)},
	{"section headers beyond the file", headers_beyond, N_SYMBOLS, SIZE(strings)},
	{"section headers of one byte", headers_of_another_size, N_SYMBOLS, SIZE(strings)},
	{"section headers that are code", headers_are_code, N_SYMBOLS, SIZE(strings)},
	{"section headers that are program headers", headers_are_program_headers, N_SYMBOLS, SIZE(strings)},
	{"section headers that are zeros", headers_are_zeros, N_SYMBOLS, SIZE(strings)},
	{"a billion section headers", headers_many, N_SYMBOLS, SIZE(strings)},
	{"section headers with the dynamic segment", headers_true, NONE, 0},
	{"section headers of a debug file", headers_of_a_debug_file, NONE, 0},
	{"section headers with another dynamic segment", headers_of_another_file, N_SYMBOLS, SIZE(strings)},
};

static const Elf64_Shdr *section_named(const struct elf_tables *t, const char *name)
{
	const Elf64_Shdr *s = elf_tables_section(t, name);
	ck_assert_msg(s != NULL, "no %s", name);
	return s;
}

START_TEST(one_value_spoiled)
{
	struct image im;
	struct elf_tables t;
	struct err e = {0};
	image_make(&im);
	rows[_i].spoil(&im);
	struct elf_memory m = {&im, sizeof(im)};
	ck_assert_msg(elf_tables_read(elf_source_memory(&m), &t, &e) == 0, "%s: %s", rows[_i].name, e.text);
	ck_assert_str_eq(e.text, "");
	ck_assert_msg(t.by_segment == (rows[_i].symbols != NONE), "%s: %d", rows[_i].name, t.by_segment);
	if (t.by_segment) {
		const Elf64_Shdr *symbols = section_named(&t, ".dynsym"), *strings = section_named(&t, ".dynstr");
		ck_assert_msg(symbols->sh_size == rows[_i].symbols * sizeof(Elf64_Sym), "%s: %g symbols", rows[_i].name,
			(double)symbols->sh_size / sizeof(Elf64_Sym));
		ck_assert_msg(!rows[_i].strings || strings->sh_size == rows[_i].strings, "%s: names of %llu bytes",
			rows[_i].name, (unsigned long long)strings->sh_size);
		ck_assert_ptr_eq(&t.sections[symbols->sh_link], strings);
		ck_assert_uint_eq(symbols->sh_entsize, rows[_i].spoil == symbols_of_another_size ? 16 : 24);
	}
	elf_tables_done(&t);
}
END_TEST

START_TEST(places_in_the_file)
{
	struct image im;
	struct elf_tables t;
	image_make(&im);
	struct elf_memory m = {&im, sizeof(im)};
	ck_assert_int_eq(elf_tables_read(elf_source_memory(&m), &t, NULL), 0);
	ck_assert_uint_eq(section_named(&t, ".dynsym")->sh_offset, AT(symbols));
	ck_assert_uint_eq(section_named(&t, ".dynstr")->sh_offset, AT(strings));
	ck_assert_uint_eq(section_named(&t, ".rela.plt")->sh_offset, AT(relocations));
	ck_assert_uint_eq(section_named(&t, ".rela.plt")->sh_size, SIZE(relocations));
	const Elf64_Shdr *code = &t.sections[t.n_sections - 1];
	ck_assert_uint_eq(t.n_sections, 5);
	ck_assert_uint_eq(code->sh_flags, SHF_ALLOC | SHF_EXECINSTR);
	ck_assert_uint_eq(code->sh_addr, CODE_VADDR);
	ck_assert_uint_eq(code->sh_offset, AT(code));
	ck_assert_uint_eq(code->sh_size, SIZE(code));
	elf_tables_done(&t);
}
END_TEST

/* No section reaches beyond the file, wherever it ends. */
START_TEST(truncated_everywhere)
{
	struct image im;
	image_make(&im);
	for (size_t size = AT(dynamic); size < sizeof(im); size++) {
		struct elf_memory m = {&im, size};
		struct elf_tables t;
		ck_assert_int_eq(elf_tables_read(elf_source_memory(&m), &t, NULL), 0);
		for (size_t i = 1; i < t.n_sections; i++)
			ck_assert_msg(t.sections[i].sh_offset + t.sections[i].sh_size <= size || !t.sections[i].sh_size,
				"%zu bytes, section %zu", size, i);
		ck_assert_int_eq(t.by_segment, size > AT(strings));
		elf_tables_done(&t);
	}
}
END_TEST

static ssize_t read_first(void *arg, void *buf, size_t size, uint64_t off)
{
	const struct elf_source *inner = arg;
	return off + size <= AT(dynamic) ? inner->read(inner->arg, buf, size, off) : -EIO;
}

START_TEST(a_read_that_fails_costs_no_more_than_the_names)
{
	struct image im;
	struct elf_tables t;
	image_make(&im);
	struct elf_memory m = {&im, sizeof(im)};
	struct elf_source inner = elf_source_memory(&m);
	ck_assert_int_eq(elf_tables_read((struct elf_source){read_first, &inner}, &t, NULL), 0);
	ck_assert(!t.by_segment);
	elf_tables_done(&t);
}
END_TEST

/* A chain of a gigabyte of even words, and buckets as many: bounded by what symbols there may be. */
static ssize_t read_even(void *arg, void *buf, size_t size, uint64_t off)
{
	const struct elf_memory *m = arg;
	memset(buf, 2, size);
	if (off < m->size)
		memcpy(buf, (const char *)m->data + off, size < m->size - off ? size : m->size - off);
	*(uint64_t *)((char *)arg + sizeof(*m)) += size;
	return (ssize_t)size;
}

static const uint32_t buckets[] = {2, 4 << 20, 5 << 20, UINT32_MAX};

START_TEST(forged_tables_in_bounded_work)
{
	struct {
		struct elf_memory m;
		uint64_t read;
	} source;
	struct image im;
	struct elf_tables t;
	image_make(&im);
	no_entry(&im, HASH);
	im.dynamic[STRTAB].d_un.d_ptr = VADDR + AT(hash);
	im.ph[PH_LOAD].p_filesz = im.ph[PH_LOAD].p_memsz = 1ull << 45;
	im.ph[PH_CODE].p_type = PT_NULL;
	im.gnu_hash[0] = buckets[_i];
	im.gnu_hash[10] = 2;
	source.m = (struct elf_memory){&im, sizeof(im)};
	source.read = 0;
	ck_assert_int_eq(elf_tables_read((struct elf_source){read_even, &source}, &t, NULL), 0);
	ck_assert(t.by_segment);
	ck_assert_uint_le(source.read, 33ull << 20);
	elf_tables_done(&t);
}
END_TEST

UNIT_SUITE(elf_dynamic)
{
	Suite *s = suite_create("elf_dynamic");
	TCase *t = tcase_create("elf_dynamic");
	tcase_add_loop_test(t, one_value_spoiled, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_test(t, places_in_the_file);
	tcase_add_test(t, truncated_everywhere);
	tcase_add_test(t, a_read_that_fails_costs_no_more_than_the_names);
	tcase_add_loop_test(t, forged_tables_in_bounded_work, 0, sizeof(buckets) / sizeof(buckets[0]));
	suite_add_tcase(s, t);
	return s;
}

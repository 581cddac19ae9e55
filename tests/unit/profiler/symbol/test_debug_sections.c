/* SPDX-License-Identifier: Apache-2.0 */
/* debug_sections: what objcopy(1) decompresses, and no more of the file; what is not zlib's, damaged or cut off is left
 * to libdw. */
#include "profiler/symbol/debug_sections.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];

static void must(const char *command)
{
	char line[2048];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void setup(void)
{
	strcpy(dir, "/tmp/pillion-sections.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	must("for i in $(seq 300); do echo \"int f$i(int n) { int k = n * $i; return k > 3 ? f1(k) : k; }\"; done >a.c "
	     "&& "
	     "sed -i '1i int f1(int);' a.c && gcc -w -O1 -g3 -gz=none -fPIC -shared -o plain a.c && "
	     "objcopy --only-keep-debug plain plain.debug && "
	     "objcopy --compress-debug-sections=zlib plain zlib && "
	     "objcopy --compress-debug-sections=zlib plain.debug zlib.debug");
}

static void teardown(void)
{
	must("rm -f *");
	rmdir(dir);
}

static struct elf_memory read_file(const char *name)
{
	char *bytes;
	size_t size;
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, name, O_RDONLY, 0);
	ck_assert_int_eq(fd_slurp(fd, 16 << 20, &bytes, &size), 0);
	return (struct elf_memory){bytes, size};
}

/* In the file's bytes; NULL: it has none of that name. */
static uint8_t *find_section(const struct elf_memory *m, const char *name, size_t *ret_size)
{
	struct elf_tables t;
	struct err e = {0};
	ck_assert_msg(elf_tables_read(elf_source_memory(m), &t, &e) == 0, "%s", e.text);
	const Elf64_Shdr *s = elf_tables_section_any(&t, name);
	uint8_t *at = s ? (uint8_t *)m->data + s->sh_offset : NULL;
	*ret_size = s ? s->sh_size : 0;
	ck_assert(!s || (s->sh_offset <= m->size && s->sh_size <= m->size - s->sh_offset));
	elf_tables_done(&t);
	return at;
}

static const struct {
	const char *file, *as;
} same[] = {
	{"zlib", "plain"},
	{"zlib.debug", "plain.debug"},
};

START_TEST(as_objcopy_decompresses_it)
{
	static const char *const wanted[] = {
		".debug_abbrev", ".debug_info", ".debug_line", ".debug_str", ".debug_line_str", ".debug_aranges"};
	static const char *const others[] = {".debug_loclists", ".debug_macro", ".symtab", ".text"};
	struct elf_memory file = read_file(same[_i].file), plain = read_file(same[_i].as), image;
	size_t got, expect;
	image.data = debug_sections_decompress(&file, &image.size);
	ck_assert_ptr_nonnull(image.data);
	for (size_t i = 0; i < N(wanted); i++) {
		const void *here = find_section(&image, wanted[i], &got),
			   *there = find_section(&plain, wanted[i], &expect);
		ck_assert_msg(here && there && got == expect && !memcmp(here, there, got), "%s", wanted[i]);
	}
	for (size_t i = 0; i < N(others); i++)
		ck_assert_msg(!find_section(&image, others[i], &got), "%s", others[i]);
	ck_assert_ptr_nonnull(find_section(&plain, ".debug_loclists", &got));
	free((void *)image.data);
	free((void *)plain.data);
	free((void *)file.data);
}
END_TEST

static void serves_as_it_is(const struct elf_memory *file, const char *what)
{
	size_t size;
	void *image = debug_sections_decompress(file, &size);
	ck_assert_msg(!image, "%s", what);
}

static const char *const as_they_are[] = {
	"cp plain file",
	"cp plain.debug file",
	"strip -o file plain",
	": >file",
	"echo text >file",
	"head -c 64 plain >file",
};

START_TEST(nothing_is_compressed)
{
	must(as_they_are[_i]);
	struct elf_memory file = read_file("file");
	serves_as_it_is(&file, as_they_are[_i]);
	free((void *)file.data);
}
END_TEST

/* Of .debug_info: its header (elf(5), Elf64_Chdr), or a byte of what is compressed. */
static const struct {
	const char *what;
	uint32_t type;
	int64_t size_more;
	uint64_t size;
	size_t flip; /* 0: none */
} damaged[] = {
	{"by another way", 2, 0, 0, 0},
	{"a byte less", ELFCOMPRESS_ZLIB, -1, 0, 0},
	{"a byte more", ELFCOMPRESS_ZLIB, 1, 0, 0},
	{"more than deflate can make", ELFCOMPRESS_ZLIB, 0, 1 << 30, 0},
	{"all there is", ELFCOMPRESS_ZLIB, 0, UINT64_MAX, 0},
	{"as much as a size can be", ELFCOMPRESS_ZLIB, 0, INT64_MAX, 0},
	{"nothing", ELFCOMPRESS_ZLIB, INT64_MIN, 0, 0},
	{"its first byte", ELFCOMPRESS_ZLIB, 0, 0, sizeof(Elf64_Chdr)},
	{"one amid", ELFCOMPRESS_ZLIB, 0, 0, sizeof(Elf64_Chdr) + 100},
};

START_TEST(what_is_damaged_is_left_to_libdw)
{
	struct elf_memory file = read_file("zlib.debug");
	size_t size;
	uint8_t *info = find_section(&file, ".debug_info", &size);
	Elf64_Chdr h;
	ck_assert(info && size > sizeof(h) + 200);
	memcpy(&h, info, sizeof(h));
	ck_assert_uint_eq(h.ch_type, ELFCOMPRESS_ZLIB);
	h.ch_type = damaged[_i].type;
	h.ch_size = damaged[_i].size			 ? damaged[_i].size
		    : damaged[_i].size_more == INT64_MIN ? 0
							 : h.ch_size + (uint64_t)damaged[_i].size_more;
	memcpy(info, &h, sizeof(h));
	if (damaged[_i].flip)
		info[damaged[_i].flip] ^= 0x55;
	serves_as_it_is(&file, damaged[_i].what);
	free((void *)file.data);
}
END_TEST

/* Wherever it ends: a section is whole, or is none. */
START_TEST(a_file_that_is_cut_off)
{
	struct elf_memory file = read_file("zlib");
	for (size_t size = 0; size < file.size; size += size / 50 + 1) {
		struct elf_memory cut = {malloc(size + !size), size};
		memcpy((void *)cut.data, file.data, size);
		serves_as_it_is(&cut, "the section headers come last");
		free((void *)cut.data);
	}
	free((void *)file.data);
}
END_TEST

/* Where headers lie before what they name, as in files made by hand: sections beyond the end are left out. */
START_TEST(sections_beyond_the_end)
{
	struct elf_memory file = read_file("zlib"), image;
	struct elf_tables t;
	size_t size;
	ck_assert_int_eq(elf_tables_read(elf_source_memory(&file), &t, NULL), 0);
	Elf64_Shdr *headers = (Elf64_Shdr *)(void *)((uint8_t *)file.data + t.header.e_shoff);
	for (size_t i = 1; i < t.n_sections; i++)
		if (!strcmp((const char *)t.names + headers[i].sh_name, ".debug_line"))
			headers[i].sh_offset = file.size - 1;
		else if (!strcmp((const char *)t.names + headers[i].sh_name, ".debug_str"))
			headers[i].sh_size = UINT64_MAX;
		else if (!strcmp((const char *)t.names + headers[i].sh_name, ".debug_line_str"))
			headers[i].sh_name = UINT32_MAX;
	elf_tables_done(&t);
	image.data = debug_sections_decompress(&file, &image.size);
	ck_assert_ptr_nonnull(image.data);
	ck_assert_ptr_nonnull(find_section(&image, ".debug_info", &size));
	ck_assert_ptr_null(find_section(&image, ".debug_line", &size));
	ck_assert_ptr_null(find_section(&image, ".debug_str", &size));
	free((void *)image.data);
	free((void *)file.data);
}
END_TEST

UNIT_SUITE(debug_sections)
{
	Suite *s = suite_create("debug_sections");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, as_objcopy_decompresses_it, 0, N(same));
	tcase_add_loop_test(t, nothing_is_compressed, 0, N(as_they_are));
	tcase_add_loop_test(t, what_is_damaged_is_left_to_libdw, 0, N(damaged));
	tcase_add_test(t, a_file_that_is_cut_off);
	tcase_add_test(t, sections_beyond_the_end);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* lookup: what symtab.h says of every address, of real files and of one that has ten million symbols. */
#include "profiler/symbol/symtab_scan.h"

#include "oci/base/fd.h"
#include "profiler/symbol/symtab.h"
#include "tests/unit/support/many.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct elf_memory map(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0 && fstat(fd, &st) == 0, "%s", path);
	void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert(data != MAP_FAILED);
	close(fd);
	return (struct elf_memory){data, (size_t)st.st_size};
}

static bool is_stub(const char *name)
{
	return name && strstr(name, "@plt");
}

static const char *const files[] = {"/proc/self/exe", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/bin/perl",
	"/usr/lib/x86_64-linux-gnu/libstdc++.so.6"};

/* The second half of the rows is without section headers. */
START_TEST(as_the_table_says)
{
	struct elf_memory image = map(files[(size_t)_i % LENGTH(files)]);
	struct symtab *table;
	struct err e = {0};
	const size_t n = 200000;
	uint64_t *vaddrs = malloc(n * sizeof(*vaddrs)), ignored;
	const char **names = malloc(n * sizeof(*names));
	const uint64_t step = 13 + image.size / n; /* of a large program nothing is at the first addresses */
	size_t named = 0;
	if ((size_t)_i >= LENGTH(files)) {
		ck_assert_int_eq(mprotect((void *)image.data, image.size, PROT_READ | PROT_WRITE), 0);
		((Elf64_Ehdr *)image.data)->e_shoff = image.size;
	}
	ck_assert_msg(symtab_read(elf_source_memory(&image), SIZE_MAX, &table, &e) == 0, "%s", e.text);
	for (size_t i = 0; i < n; i++)
		vaddrs[i] = i * step;
	ck_assert_msg(symtab_scan_symbols(&image, vaddrs, NULL, n, names, &e) == 0, "%s", e.text);
	for (size_t i = 0; i < n; i++) {
		const char *expect = symtab_find(table, vaddrs[i], symtab_label_floor(vaddrs[i]), &ignored);
		if (is_stub(expect))
			continue;
		named += expect != NULL;
		ck_assert_msg(expect ? names[i] && !strcmp(names[i], expect) : !names[i], "%s, %llx: %s, not %s",
			files[(size_t)_i % LENGTH(files)], (unsigned long long)vaddrs[i],
			names[i] ? names[i] : "nothing", expect ? expect : "nothing");
	}
	if ((size_t)_i != LENGTH(files)) /* this program exports nothing */
		ck_assert_uint_gt(named, 1000);
	symtab_free(table);
	free(vaddrs);
	free(names);
	munmap((void *)image.data, image.size);
}
END_TEST

static size_t count_named(const struct elf_memory *image)
{
	uint64_t vaddrs[1000];
	const char *names[LENGTH(vaddrs)];
	size_t named = 0;
	for (size_t i = 0; i < LENGTH(vaddrs); i++)
		vaddrs[i] = i * (image->size / LENGTH(vaddrs));
	ck_assert_int_eq(symtab_scan_symbols(image, vaddrs, NULL, LENGTH(vaddrs), names, NULL), 0);
	for (size_t i = 0; i < LENGTH(vaddrs); i++)
		named += names[i] != NULL;
	return named;
}

/* The section of the number 0 is none, whatever it says (gABI, "Special Sections"). */
START_TEST(no_table_in_the_first_section)
{
	struct elf_memory image = map(files[1]);
	ck_assert_int_eq(mprotect((void *)image.data, image.size, PROT_READ | PROT_WRITE), 0);
	const Elf64_Ehdr *h = image.data;
	Elf64_Shdr *s = (Elf64_Shdr *)((char *)image.data + h->e_shoff);
	ck_assert_uint_gt(count_named(&image), 100);
	for (size_t i = 1; i < h->e_shnum; i++)
		if (s[i].sh_type == SHT_SYMTAB || s[i].sh_type == SHT_DYNSYM) {
			s[0] = s[i];
			s[i].sh_type = SHT_PROGBITS;
		}
	ck_assert_uint_eq(s[0].sh_entsize, sizeof(Elf64_Sym));
	ck_assert_uint_eq(count_named(&image), 0);
	munmap((void *)image.data, image.size);
}
END_TEST

static const int bindings[] = {STB_GLOBAL, STB_WEAK, STB_LOCAL};

/* As in a relocatable file, which has no addresses. */
START_TEST(a_function_at_address_0)
{
	struct elf_memory image = map(files[1]);
	ck_assert_int_eq(mprotect((void *)image.data, image.size, PROT_READ | PROT_WRITE), 0);
	const Elf64_Ehdr *h = image.data;
	const Elf64_Shdr *s = (const Elf64_Shdr *)((const char *)image.data + h->e_shoff);
	while (s->sh_type != SHT_DYNSYM)
		s++;
	Elf64_Sym *sym = (Elf64_Sym *)((char *)image.data + s->sh_offset);
	while (!sym->st_shndx || ELF64_ST_TYPE(sym->st_info) != STT_FUNC)
		sym++;
	sym->st_info = ELF64_ST_INFO(bindings[_i], STT_FUNC);
	sym->st_value = 0;
	sym->st_size = 16;
	const uint64_t vaddrs[] = {0, 15, 16};
	const char *names[LENGTH(vaddrs)];
	ck_assert_int_eq(symtab_scan_symbols(&image, vaddrs, NULL, LENGTH(vaddrs), names, NULL), 0);
	ck_assert(names[0] && names[0][0] && names[1] == names[0]);
	ck_assert_ptr_null(names[2]);
	munmap((void *)image.data, image.size);
}
END_TEST

/* --- ten million symbols: a file of holes, but for its headers, its names and one symbol in a thousand */

#define MANY MANY_OF(10000000ull)
#define SPACING 32

static struct elf_memory make_large(void)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0a_function\0another_one";
	const uint64_t symbols_at = 0x1000, names_at = symbols_at + MANY * sizeof(Elf64_Sym),
		       headers_at = names_at + 4096;
	const size_t size = headers_at + 4 * sizeof(Elf64_Shdr);
	uint8_t *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert(file != MAP_FAILED);
	Elf64_Ehdr *h = (Elf64_Ehdr *)file;
	memcpy(h->e_ident, ELFMAG, SELFMAG);
	h->e_ident[EI_CLASS] = ELFCLASS64;
	h->e_ident[EI_DATA] = ELFDATA2LSB;
	h->e_ident[EI_VERSION] = EV_CURRENT;
	h->e_type = ET_DYN;
	h->e_machine = EM_X86_64;
	h->e_version = EV_CURRENT;
	h->e_ehsize = sizeof(*h);
	h->e_phentsize = sizeof(Elf64_Phdr);
	h->e_shentsize = sizeof(Elf64_Shdr);
	h->e_shoff = headers_at;
	h->e_shnum = 4;
	h->e_shstrndx = 3;
	memcpy(file + names_at, names, sizeof(names));
	Elf64_Shdr *s = (Elf64_Shdr *)(file + headers_at);
	s[1] = (Elf64_Shdr){.sh_name = 1,
		.sh_type = SHT_PROGBITS,
		.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr = 0x1000,
		.sh_offset = 0x1000,
		.sh_size = MANY * SPACING};
	s[2] = (Elf64_Shdr){.sh_name = 7,
		.sh_type = SHT_SYMTAB,
		.sh_offset = symbols_at,
		.sh_size = MANY * sizeof(Elf64_Sym),
		.sh_link = 3,
		.sh_entsize = sizeof(Elf64_Sym)};
	s[3] = (Elf64_Shdr){.sh_name = 15, .sh_type = SHT_STRTAB, .sh_offset = names_at, .sh_size = sizeof(names)};
	Elf64_Sym *symbols = (Elf64_Sym *)(file + symbols_at);
	for (uint64_t i = 0; i < MANY; i++)
		symbols[i] = (Elf64_Sym){.st_name = i % 1000 ? 23 : 34,
			.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
			.st_shndx = 1,
			.st_value = 0x1000 + i * SPACING,
			.st_size = SPACING};
	return (struct elf_memory){file, size};
}

START_TEST(ten_million_symbols_take_no_memory)
{
	struct elf_memory image = make_large();
	struct symtab *table;
	struct err e = {0};
	uint64_t vaddrs[1000];
	const char *names[1000];
	for (size_t i = 0; i < LENGTH(vaddrs); i++)
		vaddrs[i] = 0x1000 + i * (MANY / LENGTH(vaddrs)) * SPACING + i % 2 * SPACING;
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
	ck_assert_int_eq(symtab_read(elf_source_memory(&image), 6 * MANY, &table, &e), -ENOSPC);
	ck_assert_int_eq(symtab_scan_symbols(&image, vaddrs, NULL, LENGTH(vaddrs), names, &e), 0);
	ck_assert_uint_lt(mallinfo2().uordblks + mallinfo2().hblkhd, before + (1 << 20));
	for (size_t i = 0; i < LENGTH(vaddrs); i++)
		ck_assert_str_eq(names[i], i % 2 ? "a_function" : "another_one");
	munmap((void *)image.data, image.size);
}
END_TEST

UNIT_SUITE(symtab_scan)
{
	Suite *s = suite_create("symtab_scan");
	TCase *t = tcase_create("symtab_scan");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, as_the_table_says, 0, 2 * LENGTH(files));
	tcase_add_test(t, no_table_in_the_first_section);
	tcase_add_loop_test(t, a_function_at_address_0, 0, LENGTH(bindings));
	tcase_add_test(t, ten_million_symbols_take_no_memory);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* gopclntab: names and lines, of a table made by hand and of a real program, as Go's own tools say them. */
#include "profiler/elf/gopclntab.h"

#include "oci/base/fd.h"
#include "profiler/symbol/symtab.h"
#include "tests/unit/support/go_table.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
/* Records with all fields; main.f has lines 10 and, from its 8th byte on, 12 of the second file of its unit. */
static size_t make_with_lines(uint8_t table[512])
{
	static const uint8_t lines[] = {22, 8, 4, 0x38, 0}, files[] = {4, 0x40, 0}; /* -1 + 11, + 2; -1 + 2 */
	const uint64_t units = 300, paths = 340;
	const uint32_t unit[] = {7, 5, 1, UINT32_MAX};
	make(table, 0xfffffff1);
	memcpy(table + 8 + 4 * 8, &units, 8);
	memcpy(table + 8 + 5 * 8, &paths, 8);
	memcpy(table + units, unit, sizeof(unit));
	memcpy(table + paths + 1, "/src/b.go", 10);
	memcpy(table + 120 + 16, lines, sizeof(lines));
	memcpy(table + 120 + 24, files, sizeof(files));
	const uint32_t f[] = {0, 1, 0, 0, 1, 24, 16, 0, 1}, g[] = {0x40, 8, 0, 0, 8, 24, 16, 0, 2};
	memcpy(table + 160 + 60, f, sizeof(f));
	memcpy(table + 160 + 20, g, sizeof(g));
	const uint32_t functab[] = {0, 60, 0x40, 20, 0x50};
	memcpy(table + 160, functab, sizeof(functab));
	return 380;
}

static const struct {
	const char *name;
	uint64_t address;
	const char *function, *file;
	uint32_t line;
} places[] = {
	{"before all functions", TEXT - 1, NULL, NULL, 0},
	{"the first byte", TEXT, "main.f", "/src/b.go", 10},
	{"the last byte of a line", TEXT + 7, "main.f", "/src/b.go", 10},
	{"the next line", TEXT + 8, "main.f", "/src/b.go", 12},
	{"the last byte of a function", TEXT + 0x3f, "main.f", "/src/b.go", 12},
	{"a file that is none", TEXT + 0x40, "runtime.goexit", NULL, 0},
	{"behind all functions", TEXT + 0x50, NULL, NULL, 0},
};

START_TEST(names_and_lines)
{
	uint8_t table[512];
	struct gopclntab t;
	struct gofunc f;
	const char *file = NULL;
	uint32_t line = 0;
	ck_assert(gopclntab_open(table, make_with_lines(table), &t));
	bool found = gopclntab_find(&t, places[_i].address, &f);
	ck_assert_msg(found == (places[_i].function != NULL), "%s", places[_i].name);
	if (!found)
		return;
	ck_assert_str_eq(gopclntab_name(&t, &f), places[_i].function);
	ck_assert(gopclntab_line(&t, &f, places[_i].address, &file, &line) == (places[_i].file != NULL));
	ck_assert_msg(line == places[_i].line, "%s: %u", places[_i].name, line);
	if (file)
		ck_assert_str_eq(file, places[_i].file);
}
END_TEST

START_TEST(names_and_lines_cut_anywhere)
{
	uint8_t table[512];
	size_t size = make_with_lines(table);
	for (size_t n = 160; n <= size; n++) {
		struct gopclntab t;
		struct gofunc f;
		const char *file;
		uint32_t line;
		uint8_t *exact = malloc(n);
		memcpy(exact, table, n);
		for (uint64_t at = TEXT; gopclntab_open(exact, n, &t) && at < TEXT + 0x50; at++)
			if (gopclntab_find(&t, at, &f)) {
				const char *name = gopclntab_name(&t, &f);
				ck_assert(!name || strlen(name) < n);
				ck_assert(!gopclntab_line(&t, &f, at, &file, &line) || strlen(file) < n);
			}
		free(exact);
	}
}
END_TEST

/* The kernel "returns" to its first byte, and what is looked up is the byte before: that has the rule as well. */
/* --- a real program */

static char dir[] = "/tmp/test_golines.XXXXXX";
static bool have_go;

static bool shell(const char *command)
{
	char line[600];
	snprintf(line, sizeof(line),
		"cd %s && export GOCACHE=%s/cache GOFLAGS=-mod=mod GO111MODULE=off CGO_ENABLED=0 && %s", dir, dir,
		command);
	return system(line) == 0;
}

static void build(void)
{
	static const char source[] = "package main\n"
				     "import (\"fmt\"; \"sort\")\n"
				     "type pair[T any] struct{ a, b T }\n"
				     "//go:noinline\n"
				     "func (p pair[T]) swap() pair[T] { return pair[T]{p.b, p.a} }\n"
				     "func small(i int) int { return i ^ 3 }\n"
				     "//go:noinline\n"
				     "func work(n int) (sum int) {\n"
				     "	for i := 0; i < n; i++ {\n"
				     "		sum += i * small(i)\n"
				     "	}\n"
				     "	return\n"
				     "}\n"
				     "func main() {\n"
				     "	l := []int{3, 1, 2}\n"
				     "	sort.Slice(l, func(i, j int) bool { return l[i] < l[j] })\n"
				     "	fmt.Println(work(len(l)), pair[int]{1, 2}.swap())\n"
				     "}\n";
	ck_assert_ptr_nonnull(mkdtemp(dir));
	fd_auto at = fd_open_dir(AT_FDCWD, dir);
	fd_auto fd = fd_open(at, "a.go", O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(fd_write_all(fd, source, strlen(source)), 0);
	have_go = shell("command -v go >/dev/null");
	ck_assert(!have_go || shell("go build -o plain a.go && go build -ldflags '-s -w' -o stripped a.go && "
				    "go tool nm plain | sed -n 's/^ *\\([0-9a-f]*\\) [Tt] /\\1 /p' >names"));
}

static void clean(void)
{
	ck_assert(shell("rm -rf a.go plain stripped names asked answers cache"));
	rmdir(dir);
}

static FILE *open_file(const char *name)
{
	char path[100];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	return f;
}

/*
 * The table leaves out types of generic functions, "main.pair[go.shape.int_0].swap" is "main.pair[...].swap", and which
 * calling convention it is, ".abi0".
 */
static bool same_name(const char *a, const char *b)
{
	while (*a && *a == *b) {
		if (*a == '[') {
			a = strrchr(a, ']');
			b = strrchr(b, ']');
			if (!a || !b)
				return false;
		}
		a++;
		b++;
	}
	return *a == *b || (!*a && !strcmp(b, ".abi0"));
}

START_TEST(names_of_a_stripped_program)
{
	char line[1024];
	struct symtab *s = NULL;
	struct err e = {0};
	size_t n = 0, mine = 0;
	if (skip_without("go"))
		return;
	FILE *f = open_file("stripped");
	int fd = fileno(f);
	ck_assert_msg(symtab_read(elf_source_fd(&fd), SIZE_MAX, &s, &e) == 0, "%s", e.text);
	fclose(f);
	f = open_file("names");
	while (fgets(line, sizeof(line), f)) {
		char *end;
		uint64_t offset = 1, address = strtoull(line, &end, 16);
		line[strcspn(line, "\n")] = 0;
		/* where all code begins and ends: no functions */
		if (!strcmp(end, " runtime.text") || !strcmp(end, " runtime.etext"))
			continue;
		const char *name = symtab_find(s, address, 0, &offset);
		ck_assert_msg(name && same_name(name, end + 1) && !offset, "%s is %s + %llu", line, name,
			(unsigned long long)offset);
		n++;
		mine += !strncmp(name, "main.", 5) && symtab_find(s, address + 4, 0, &offset) == name && offset == 4;
	}
	fclose(f);
	ck_assert_uint_gt(n, 1000);
	ck_assert_uint_ge(mine, 3); /* of some bytes */
	symtab_free(s);
}
END_TEST

static uint8_t *table_of_stripped(struct gopclntab *ret)
{
	struct elf *elf = NULL;
	FILE *f = open_file("stripped");
	int fd = fileno(f);
	ck_assert_int_eq(elf_read(elf_source_fd(&fd), &elf, NULL), 0);
	fclose(f);
	uint8_t *data = elf->gopclntab.data;
	ck_assert(gopclntab_open(data, elf->gopclntab.size, ret));
	elf->gopclntab.data = NULL;
	elf_free(elf);
	return data;
}

/* Every 97th byte of all code. "go tool addr2line" answers each address with its function and FILE:LINE. */
START_TEST(lines_of_a_stripped_program)
{
	char answer[1024], asked[100];
	struct gopclntab t;
	struct gofunc g;
	size_t n = 0;
	if (skip_without("go"))
		return;
	uint8_t *data = table_of_stripped(&t);
	snprintf(asked, sizeof(asked), "%s/asked", dir);
	FILE *f = fopen(asked, "w");
	for (uint64_t at = t.text; gopclntab_find(&t, at, &g) || gopclntab_find(&t, at + 97, &g); at += 97)
		if (gopclntab_find(&t, at, &g))
			fprintf(f, "%llx\n", (unsigned long long)at);
	fclose(f);
	ck_assert(shell("go tool addr2line plain <asked >answers"));
	f = open_file("asked");
	FILE *answers = open_file("answers");
	unsigned long long at;
	while (fscanf(f, "%llx", &at) == 1) {
		char mine[1024] = ":-1"; /* what lies between functions */
		const char *file;
		uint32_t line;
		ck_assert(fgets(answer, sizeof(answer), answers) && fgets(answer, sizeof(answer), answers));
		answer[strcspn(answer, "\n")] = 0;
		if (gopclntab_find(&t, at, &g) && gopclntab_line(&t, &g, at, &file, &line))
			snprintf(mine, sizeof(mine), "%s:%u", file, line);
		ck_assert_msg(!strcmp(mine, answer), "%llx: %s, %s for addr2line", at, mine, answer);
		n++;
	}
	ck_assert_uint_gt(n, 3000);
	fclose(f);
	fclose(answers);
	free(data);
}
END_TEST

UNIT_SUITE(golines)
{
	Suite *s = suite_create("golines");
	TCase *t = tcase_create("gopclntab");
	TCase *real = tcase_create("a real program");

	tcase_add_loop_test(t, names_and_lines, 0, LENGTH(places));
	tcase_add_test(t, names_and_lines_cut_anywhere);
	suite_add_tcase(s, t);
	tcase_set_timeout(real, 120);
	tcase_add_unchecked_fixture(real, build, clean);
	tcase_add_test(real, names_of_a_stripped_program);
	tcase_add_test(real, lines_of_a_stripped_program);
	suite_add_tcase(s, real);
	return s;
}

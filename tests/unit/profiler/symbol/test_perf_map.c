/* SPDX-License-Identifier: Apache-2.0 */
/* perfmap: lines of every kind; a file as it grows, shrinks and is exchanged; limits; a large one. */
#include "profiler/symbol/perf_map.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "tests/unit/support/many.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CAP (64u << 20)

static const char sample[] = "7f0000001000 20 LazyCompile:~main /srv/app.js:12\n"
			     "7f0000001020 1f *compiled\n"
			     "0x7f0000002000 0x10 with_0x\n"
			     "7F000000200A 3 UPPER\n"
			     "\n"
			     "7f0000003000\n"
			     "7f0000003000 10\n"
			     "7f0000003000 10 \n"
			     "7f0000003000 0 empty\n"
			     "not a line at all\n"
			     " 7f0000003000 10 indented\n"
			     "7f0000003000 10g glued\n"
			     "10000000000000000 10 too_long_a_number\n"
			     "7f0000003000 10000000000000010 too_long_a_number\n"
			     "7f0000003000,10,commas\n"
			     "0x 10 no_digits\n"
			     "000000000000000000007f0000004000  010   leading zeros, blanks  \n"
			     "7f0000005000 10 dos\r\n"
			     "7f0000006000 10 \xff\xfe not UTF-8 \x80\n"
			     "7f0000007000 10 cut\0 at NUL\n"
			     "fffffffffffffff0 100 wraps\n"
			     "1000 ffffffffffffffff huge\n"
			     "7f0000008000 1000 int Foo::bar<int>(std::string const&)\n"
			     "7f0000008100 10 moved in\n"
			     "7f0000009000 10 the newline is missing";

static const struct {
	const char *name;
	uint64_t address;
	const char *expect;
} lookups[] = {
	{"below everything", 0xfff, NULL},
	{"the first byte", 0x7f0000001000, "LazyCompile:~main /srv/app.js:12"},
	{"the last byte", 0x7f000000101f, "LazyCompile:~main /srv/app.js:12"},
	{"the next one", 0x7f0000001020, "*compiled"},
	{"behind it", 0x7f000000103f, NULL},
	{"0x in front", 0x7f0000002009, "with_0x"},
	{"over the middle of it", 0x7f000000200a, "UPPER"},
	{"what remains behind", 0x7f000000200d, "with_0x"},
	{"lines without sense", 0x7f0000003000, NULL},
	{"leading zeros and blanks", 0x7f000000400f, "leading zeros, blanks  "},
	{"a carriage return", 0x7f0000005000, "dos"},
	{"not UTF-8", 0x7f0000006000, "\xff\xfe not UTF-8 \x80"},
	{"a NUL", 0x7f0000007000, "cut"},
	{"the last byte of the address space", UINT64_MAX, "wraps"},
	{"it does not go on at 0", 0, NULL},
	{"a size beyond sense is cut", 0xfffULL + UINT32_MAX, "huge"},
	{"there", 0x1000ULL + UINT32_MAX, NULL},
	{"a name with blanks", 0x7f00000080ff, "int Foo::bar<int>(std::string const&)"},
	{"room that was used again", 0x7f0000008100, "moved in"},
	{"the rest of the earlier one", 0x7f0000008110, "int Foo::bar<int>(std::string const&)"},
	{"a last line without newline", 0x7f0000009000, NULL},
};

static int empty_file(void)
{
	int fd = memfd_create("perf.map", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static void append(int fd, const void *text, size_t size)
{
	ck_assert_int_eq(fd_write_all(fd, text, size), 0);
}

static struct perf_map *new_map(size_t cap)
{
	struct perf_map *m = NULL;
	ck_assert_int_eq(perf_map_new(cap, &m), 0);
	return m;
}

static void read_all(struct perf_map *m, int fd)
{
	struct err e = {0};
	int r;
	struct file f;
	ck_assert_int_eq(file_on(fd, &f), 0);
	while ((r = perf_map_read(m, &f, &e)) == 1)
		;
	ck_assert_msg(r == 0, "%s", e.text);
}

static void is(const struct perf_map *m, uint64_t address, const char *expect)
{
	const char *name = perf_map_find(m, address);
	ck_assert_msg(name && expect ? !strcmp(name, expect) : name == expect, "0x%llx is %s",
		(unsigned long long)address, name ? name : "nothing");
}

START_TEST(which_name)
{
	int fds = fd_count();
	struct perf_map *m = new_map(CAP);
	int fd = empty_file();
	append(fd, sample, sizeof(sample) - 1);
	read_all(m, fd);
	is(m, lookups[_i].address, lookups[_i].expect);
	ck_assert(!perf_map_truncated(m));
	perf_map_free(m);
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(byte_by_byte)
{
	struct perf_map *m = new_map(CAP);
	fd_auto fd = empty_file();
	for (size_t i = 0; i < sizeof(sample) - 1; i++) {
		append(fd, sample + i, 1);
		read_all(m, fd);
	}
	for (size_t i = 0; i < COUNT(lookups); i++)
		is(m, lookups[i].address, lookups[i].expect);
	append(fd, "\n", 1);
	read_all(m, fd);
	is(m, 0x7f0000009000, "the newline is missing");
	perf_map_free(m);
}
END_TEST

static void rewrite(int fd, const char *text)
{
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	append(fd, text, strlen(text));
}

START_TEST(another_file)
{
	struct perf_map *m = new_map(CAP);
	fd_auto fd = empty_file();
	fd_auto other = empty_file();
	append(fd, "1000 10 first\n2000 10 second\n", 29);
	read_all(m, fd);
	const char *kept = perf_map_find(m, 0x1000);
	rewrite(fd, "3000 10 third\n"); /* shorter */
	read_all(m, fd);
	is(m, 0x1000, NULL);
	is(m, 0x3000, "third");
	ck_assert_str_eq(kept, "first");
	rewrite(fd, "1000 10 first\n3000 10 third\n4000 10 fourth\n"); /* longer, as a JVM does */
	read_all(m, fd);
	is(m, 0x1000, "first");
	is(m, 0x4000, "fourth");
	ck_assert_ptr_eq(perf_map_find(m, 0x1000), kept);
	append(other, "5000 10 fifth\n", 14);
	read_all(m, other);
	is(m, 0x1000, NULL);
	is(m, 0x5000, "fifth");
	perf_map_free(m);
}
END_TEST

START_TEST(long_lines)
{
	enum { LONG = 300000 };
	struct perf_map *m = new_map(CAP);
	fd_auto fd = empty_file();
	char *line = malloc(LONG);
	memset(line, 'x', LONG);
	memcpy(line, "1000 10 ", 8);
	memcpy(line + 65536, "4000 10 ", 8); /* where a chunk begins */
	append(fd, line, LONG);
	read_all(m, fd);
	ck_assert_uint_eq(strlen(perf_map_find(m, 0x1000)), PERF_MAP_NAME_MAX);
	append(fd, line, LONG); /* the same line goes on */
	append(fd, "\n2000 10 next\n", 14);
	memcpy(line, "3000 10 ", 8);
	append(fd, line, 8 + PERF_MAP_NAME_MAX);
	append(fd, "\n", 1);
	read_all(m, fd);
	is(m, 0x2000, "next");
	is(m, 0x4000, NULL);
	ck_assert_ptr_eq(perf_map_find(m, 0x3000), perf_map_find(m, 0x1000));
	free(line);
	perf_map_free(m);
}
END_TEST

START_TEST(no_more_than_the_cap)
{
	struct perf_map *m = new_map(1 << 20);
	fd_auto fd = empty_file();
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	for (unsigned i = 0; i < 100000; i++)
		fprintf(f, "%x 10 function_number_%u\n", 0x1000 + 16 * i, i);
	fclose(f);
	append(fd, text, size);
	read_all(m, fd);
	ck_assert(perf_map_truncated(m));
	ck_assert_uint_le(perf_map_memory(m), 1 << 20);
	is(m, 0x1000 + 16 * 5000, "function_number_5000");
	is(m, 0x1000 + 16 * 99999, NULL);
	/* a repetition takes no more names; another file is taken again */
	rewrite(fd, "1000 10 function_number_7\n");
	read_all(m, fd);
	ck_assert(!perf_map_truncated(m));
	is(m, 0x1000, "function_number_7");
	perf_map_free(m);
	m = new_map(0);
	read_all(m, fd);
	ck_assert(perf_map_truncated(m));
	is(m, 0x1000, NULL);
	perf_map_free(m);
	free(text);
}
END_TEST

/* Also not what would still fit: what came between is not known. */
START_TEST(nothing_behind_the_cap)
{
	struct perf_map *m = new_map(1 << 20);
	fd_auto fd = empty_file();
	append(fd, "10 10 first\n", 12);
	for (unsigned i = 0; i < 4000; i++)
		ck_assert_int_gt(dprintf(fd, "%x 10 %0500u\n", 0x1000 + 16 * i, i), 0);
	read_all(m, fd);
	ck_assert(perf_map_truncated(m));
	append(fd, "20 10 first\n", 12);
	read_all(m, fd);
	is(m, 0x10, "first");
	is(m, 0x20, NULL);
	perf_map_free(m);
}
END_TEST

START_TEST(no_more_than_256_mebibytes)
{
	struct perf_map *m = new_map(CAP);
	fd_auto fd = empty_file();
	/* a hole in the file: one line of NULs */
	append(fd, "1000 10 first\n", 14);
	ck_assert_int_eq(ftruncate(fd, PERF_MAP_BYTES_MAX - 20), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), PERF_MAP_BYTES_MAX - 20);
	append(fd, "\n2000 10 second\n3000 10 third\n", 30);
	read_all(m, fd);
	is(m, 0x1000, "first");
	is(m, 0x2000, "second");
	is(m, 0x3000, NULL);
	ck_assert(perf_map_truncated(m));
	perf_map_free(m);
}
END_TEST

/* A million lines; one after the other, all over each other, or the same again and again. */
START_TEST(many_lines_in_bounded_time)
{
	enum { LINES = MANY_OF(1000000) };
	struct perf_map *m = new_map(512u << 20);
	fd_auto fd = empty_file();
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	for (unsigned i = 0; i < LINES; i++)
		fprintf(f, "7f%08x %x LazyCompile:~function_%u /srv/app/node_modules/some/module.js\n",
			_i == 0	  ? 64 * i
			: _i == 1 ? i
				  : 0,
			_i == 1 ? 2 * (LINES - i) : 64, _i == 2 ? 0 : i % 300000);
	fclose(f);
	append(fd, text, size);
	free(text);
	struct file map;
	ck_assert_int_eq(file_on(fd, &map), 0);
	int64_t begin = clock_cpu();
	for (int r = 1; r == 1;) {
		r = perf_map_read(m, &map, NULL);
		ck_assert_int_ge(r, 0);
	}
	int64_t took = clock_cpu() - begin;
	ck_assert(!perf_map_truncated(m));
	ck_assert_ptr_nonnull(perf_map_find(m, 0x7f00000001));
	ck_assert_int_lt(took, 20 * NSEC_PER_SEC);
	perf_map_free(m);
}
END_TEST

UNIT_SUITE(perf_map)
{
	Suite *s = suite_create("perf_map");
	TCase *t = tcase_create("perf_map");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, which_name, 0, COUNT(lookups));
	tcase_add_test(t, byte_by_byte);
	tcase_add_test(t, another_file);
	tcase_add_test(t, long_lines);
	tcase_add_test(t, no_more_than_the_cap);
	tcase_add_test(t, nothing_behind_the_cap);
	tcase_add_test(t, no_more_than_256_mebibytes);
	tcase_add_loop_test(t, many_lines_in_bounded_time, 0, 3);
	suite_add_tcase(s, t);
	return s;
}

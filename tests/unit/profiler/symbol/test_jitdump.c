/* SPDX-License-Identifier: Apache-2.0 */
/* jitdump: a file made by hand; as it grows, spoiled, exchanged; limits. */
#include "profiler/symbol/jitdump.h"

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

enum { LOAD, MOVE, DEBUG, CLOSE, UNWINDING };

/* --- making a file */

struct dump {
	uint8_t *bytes;
	size_t n, room, record; /* record: where the last one begins */
};

static void put(struct dump *d, const void *bytes, size_t n)
{
	if (d->n + n > d->room) {
		d->room = 2 * (d->n + n);
		d->bytes = realloc(d->bytes, d->room);
	}
	memcpy(d->bytes + d->n, bytes, n);
	d->n += n;
}

static void put32(struct dump *d, uint32_t v)
{
	put(d, &v, 4);
}

static void put64(struct dump *d, uint64_t v)
{
	put(d, &v, 8);
}

static void header(struct dump *d, uint32_t pad)
{
	const uint32_t words[] = {0x4a695444, 1, 40, 62, pad, 1234};
	*d = (struct dump){0};
	put(d, words, sizeof(words));
	put64(d, 77);
	put64(d, 0);
}

static void begin(struct dump *d, uint32_t id)
{
	d->record = d->n;
	put32(d, id);
	put32(d, 0);
	put64(d, d->n);
}

static void end(struct dump *d)
{
	uint32_t size = (uint32_t)(d->n - d->record);
	memcpy(d->bytes + d->record + 4, &size, 4);
}

static void load(struct dump *d, uint64_t address, uint64_t size, uint64_t index, const char *name)
{
	static const char code[64];
	begin(d, LOAD);
	put32(d, 1234);
	put32(d, 1235);
	const uint64_t fields[] = {address, address, size, index};
	put(d, fields, sizeof(fields));
	put(d, name, strlen(name) + 1);
	put(d, code, size < sizeof(code) ? size : sizeof(code));
	end(d);
}

static void move(struct dump *d, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	begin(d, MOVE);
	put32(d, 1234);
	put32(d, 1235);
	const uint64_t fields[] = {to, from, to, size, index};
	put(d, fields, sizeof(fields));
	end(d);
}

struct at {
	uint64_t address;
	uint32_t line;
	const char *file;
};

static void lines(struct dump *d, uint64_t address, const struct at *at, size_t n)
{
	begin(d, DEBUG);
	put64(d, address);
	put64(d, n);
	for (size_t i = 0; i < n; i++) {
		put64(d, at[i].address);
		put32(d, at[i].line);
		put32(d, 0);
		put(d, at[i].file, strlen(at[i].file) + 1);
	}
	end(d);
}

static void sample(struct dump *d, uint32_t pad, uint64_t shift)
{
	header(d, pad);
	load(d, 0x1000, 0x100, 1, "plain");
	lines(d, 0x2000,
		(struct at[]){{0x2000 + shift, 10, "a.js"}, {0x2010 + shift, 12, "\xff"},
			{0x2008 + shift, 99, "back.js"}, {0x2020 + shift, 7, "b.js"}, {0x2020 + shift, 8, "\xff"},
			{0x1ff8, 98, "before.js"}},
		6);
	begin(d, UNWINDING);
	put64(d, 0);
	end(d);
	load(d, 0x2000, 0x40, 2, "with lines");
	lines(d, 0x7000, (struct at[]){{0x7000, 1, "c.js"}}, 1);
	load(d, 0x3000, 0x40, 3, "lines of another one");
	load(d, 0x7000, 0x40, 4, "too late");
	lines(d, 0x4000, (struct at[]){{0x4010 + shift, 5, "d.js"}, {0x4018 + shift, 0x80000000, "\xff"}}, 2);
	load(d, 0x4000, 0x40, 5, "first line behind its beginning");
	load(d, 0x1040, 0x10, 6, "over plain");
	move(d, 0x2000, 0x5000, 0x40, 2);
	move(d, 0x3000, 0x6000, 0x40, 99); /* another index */
	move(d, 0x9999, 0x6000, 0x40, 3);
	load(d, 0x2000, 0x20, 7, "where it was");
	load(d, 0x8000, 0, 8, "empty");
	begin(d, CLOSE);
	end(d);
	load(d, 0x9000, 0x10, 9, "behind the close");
	begin(d, 4711);
	put64(d, 1);
	end(d);
	load(d, UINT64_MAX - 3, 100, 10, "last");
}

static const struct {
	uint64_t address;
	const char *name;
	uint64_t offset;
	const char *file;
	uint32_t line;
} lookups[] = {
	{0xfff, NULL, 0, NULL, 0},
	{0x1000, "plain", 0, NULL, 0},
	{0x103f, "plain", 0x3f, NULL, 0},
	{0x1040, "over plain", 0, NULL, 0},
	{0x1050, "plain", 0x50, NULL, 0},
	{0x1100, NULL, 0, NULL, 0},
	{0x2000, "where it was", 0, NULL, 0},
	{0x2020, "with lines", 0x20, "b.js", 8},
	{0x3000, "lines of another one", 0, NULL, 0},
	{0x400f, "first line behind its beginning", 0xf, NULL, 0},
	{0x4010, "first line behind its beginning", 0x10, "d.js", 5},
	{0x4018, "first line behind its beginning", 0x18, "d.js", 0},
	{0x5000, "with lines", 0, "a.js", 10},
	{0x500f, "with lines", 0xf, "a.js", 10},
	{0x5010, "with lines", 0x10, "a.js", 12},
	{0x503f, "with lines", 0x3f, "b.js", 8},
	{0x5040, NULL, 0, NULL, 0},
	{0x6000, NULL, 0, NULL, 0},
	{0x7000, "too late", 0, NULL, 0},
	{0x8000, NULL, 0, NULL, 0},
	{0x9000, "behind the close", 0, NULL, 0},
	{UINT64_MAX, "last", 3, NULL, 0},
	{0, NULL, 0, NULL, 0},
};

/* --- reading it */

static int file_of(const struct dump *d)
{
	int fd = memfd_create("jit.dump", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, d->bytes, d->n), 0);
	return fd;
}

static struct jitdump *new_dump(size_t cap)
{
	struct jitdump *j = NULL;
	ck_assert_int_eq(jitdump_new(cap, &j), 0);
	return j;
}

static int read_all(struct jitdump *j, int fd, struct err *e)
{
	int r;
	struct file f;
	ck_assert_int_eq(file_on(fd, &f), 0);
	while ((r = jitdump_read(j, &f, e)) == 1)
		;
	return r;
}

static bool equal(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void check_lookup(const struct jitdump *j, size_t i)
{
	struct jitdump_place p = {0};
	uint64_t address = lookups[i].address;
	ck_assert_msg(jitdump_find(j, address, &p) == (lookups[i].name != NULL), "0x%llx: %s",
		(unsigned long long)address, p.name);
	ck_assert_msg(equal(p.name, lookups[i].name) && p.offset == lookups[i].offset, "0x%llx: %s + %llu",
		(unsigned long long)address, p.name, (unsigned long long)p.offset);
	ck_assert_msg(equal(p.file, lookups[i].file) && p.line == lookups[i].line, "0x%llx: %s:%u",
		(unsigned long long)address, p.file, p.line);
}

START_TEST(what_is_where)
{
	int fds = fd_count();
	for (int v8 = 0; v8 < 2; v8++) {
		struct dump d;
		struct err e = {0};
		sample(&d, v8 ? 0xdeadbeef : 0, v8 ? 0x40 : 0);
		int fd = file_of(&d);
		struct jitdump *j = new_dump(CAP);
		ck_assert_msg(read_all(j, fd, &e) == 0, "%s", e.text);
		check_lookup(j, (size_t)_i);
		ck_assert(!jitdump_truncated(j));
		jitdump_free(j);
		fd_close(fd);
		free(d.bytes);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(byte_by_byte)
{
	struct dump d, none = {0};
	sample(&d, 0, 0);
	fd_auto fd = file_of(&none);
	struct jitdump *j = new_dump(CAP);
	for (size_t i = 0; i < d.n; i++) {
		struct jitdump_place p;
		ck_assert_int_eq(fd_write_all(fd, d.bytes + i, 1), 0);
		ck_assert_int_eq(read_all(j, fd, NULL), 0);
		ck_assert(i + 1 == d.n || !jitdump_find(j, UINT64_MAX, &p));
	}
	for (size_t i = 0; i < COUNT(lookups); i++)
		check_lookup(j, i);
	jitdump_free(j);
	free(d.bytes);
}
END_TEST

START_TEST(another_file)
{
	struct jitdump_place p;
	struct dump d, next;
	header(&d, 0);
	load(&d, 0x1000, 0x10, 1, "one");
	sample(&next, 0, 0);
	memset(next.bytes + 24, 0x55, 8); /* when it was made */
	fd_auto fd = file_of(&d);
	struct jitdump *j = new_dump(CAP);
	ck_assert_int_eq(read_all(j, fd, NULL), 0);
	ck_assert(jitdump_find(j, 0x1000, &p) && !strcmp(p.name, "one"));
	const char *kept = p.name;
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(read_all(j, fd, NULL), 0);
	ck_assert(!jitdump_find(j, 0x1000, &p));
	ck_assert_int_eq(pwrite(fd, next.bytes, next.n, 0), (ssize_t)next.n);
	ck_assert_int_eq(read_all(j, fd, NULL), 0);
	for (size_t i = 0; i < COUNT(lookups); i++)
		check_lookup(j, i);
	ck_assert_str_eq(kept, "one");
	jitdump_free(j);
	free(d.bytes);
	free(next.bytes);
}
END_TEST

/* --- spoiled: 32 bits of the file */

static const struct {
	const char *name;
	size_t at;
	uint32_t value;
	int expect;
	const char *text;
} spoiled[] = {
	{"the other byte order", 0, 0x4454694a, -EBADMSG, "jitdump: written in the other byte order"},
	{"no jitdump", 0, 0x464c457f, -EBADMSG, "jitdump: the file is none"},
	{"version 2", 4, 2, -EBADMSG, "jitdump: version 2 is not known"},
	{"a short header", 8, 39, -EBADMSG, "jitdump: a header of 39 bytes"},
	{"a huge header", 8, UINT32_MAX, -EBADMSG, "jitdump: a header of 4294967295 bytes"},
	{"a record of nothing", 44, 0, -EBADMSG, "jitdump: a record of 0 bytes"},
	{"a record of 15 bytes", 44, 15, -EBADMSG, "jitdump: a record of 15 bytes"},
	{"a record that is a prefix only", 44, 16, -EBADMSG, NULL},
	{"a record beyond the end", 44, UINT32_MAX, 0, NULL},
	{"code without a name", 44, 56, -EBADMSG, NULL},
	{"a name without its end", 44, 58, -EBADMSG, NULL},
};

START_TEST(one_field_spoiled)
{
	struct dump d;
	struct jitdump_place p;
	struct err e = {0};
	sample(&d, 0, 0);
	memcpy(d.bytes + spoiled[_i].at, &spoiled[_i].value, 4);
	fd_auto fd = file_of(&d);
	struct jitdump *j = new_dump(CAP);
	for (int twice = 0; twice < 2; twice++) {
		int r = read_all(j, fd, &e);
		ck_assert_msg(r == spoiled[_i].expect, "%s: %d (%s)", spoiled[_i].name, r, e.text);
		if (spoiled[_i].text)
			ck_assert_str_eq(e.text, spoiled[_i].text);
	}
	ck_assert(!jitdump_find(j, 0x1000, &p));
	jitdump_free(j);
	free(d.bytes);
}
END_TEST

START_TEST(lines_that_end_early)
{
	static const struct at two[] = {{0x1000, 1, "a.js"}, {0x1008, 2, "b.js"}};
	for (uint32_t size = 16; size < 100; size++) {
		struct dump d;
		struct jitdump_place p;
		header(&d, 0);
		lines(&d, 0x1000, two, 2);
		size_t whole = d.n - d.record;
		if (size > whole) {
			free(d.bytes);
			break;
		}
		d.n = d.record + size;
		end(&d);
		if (size >= 32)
			memset(d.bytes + d.record + 24, 0xff, 8); /* nr_entry */
		load(&d, 0x1000, 0x10, 1, "f");
		fd_auto fd = file_of(&d);
		struct jitdump *j = new_dump(CAP);
		ck_assert_int_eq(read_all(j, fd, NULL), 0);
		ck_assert(jitdump_find(j, 0x100f, &p) && !strcmp(p.name, "f"));
		ck_assert_uint_eq(p.line, size == whole ? 2 : size >= 53 ? 1 : 0);
		jitdump_free(j);
		free(d.bytes);
	}
}
END_TEST

START_TEST(long_names)
{
	struct dump d;
	struct jitdump_place p;
	static char name[100000];
	memset(name, 'n', sizeof(name) - 1);
	header(&d, 0);
	lines(&d, 0x1000, (struct at[]){{0x1000, 1, name}, {0x1008, 2, "b.js"}}, 2);
	load(&d, 0x1000, 0x10, 1, name);
	name[JITDUMP_FILE_MAX] = 0;
	lines(&d, 0x2000, (struct at[]){{0x2000, 1, name}, {0x2008, 2, "b.js"}}, 2);
	name[JITDUMP_NAME_MAX] = 0;
	load(&d, 0x2000, 0x10, 2, name);
	fd_auto fd = file_of(&d);
	struct jitdump *j = new_dump(CAP);
	ck_assert_int_eq(read_all(j, fd, NULL), 0);
	ck_assert(jitdump_find(j, 0x100f, &p) && !p.file && strlen(p.name) == JITDUMP_NAME_MAX);
	const char *same = p.name;
	ck_assert(jitdump_find(j, 0x200f, &p) && p.line == 2 && p.name == same);
	ck_assert(jitdump_find(j, 0x2000, &p) && strlen(p.file) == JITDUMP_FILE_MAX);
	jitdump_free(j);
	free(d.bytes);
}
END_TEST

START_TEST(no_more_than_the_cap)
{
	enum { MANY = 40000 };
	struct dump d;
	struct jitdump_place p;
	char name[64];
	header(&d, 0);
	for (uint64_t i = 0; i < MANY; i++) {
		uint64_t address = 0x1000 + 16 * i;
		snprintf(name, sizeof(name), "function_number_%u", (unsigned)i);
		lines(&d, address, (struct at[]){{address, 1, "a.js"}, {address + 8, 2, "\xff"}}, 2);
		load(&d, address, 16, i, name);
	}
	fd_auto fd = file_of(&d);
	for (size_t cap = 0; cap <= 1 << 20; cap += 1 << 18) {
		struct jitdump *j = new_dump(cap);
		ck_assert_int_eq(read_all(j, fd, NULL), 0);
		ck_assert(jitdump_truncated(j));
		ck_assert_uint_le(jitdump_memory(j), cap + 2048);
		ck_assert(!cap || (jitdump_find(j, 0x1000 + 16 * 500, &p) && !strcmp(p.name, "function_number_500")));
		ck_assert(!jitdump_find(j, 0x1000 + 16 * (MANY - 1), &p));
		jitdump_free(j);
	}
	struct jitdump *j = new_dump(CAP);
	ck_assert_int_eq(read_all(j, fd, NULL), 0);
	ck_assert(!jitdump_truncated(j));
	ck_assert(jitdump_find(j, 0x1000 + 16 * MANY - 1, &p) && p.line == 2 && !strcmp(p.file, "a.js"));
	jitdump_free(j);
	free(d.bytes);
}
END_TEST

/* Records of gigabytes in a file with holes; as many small ones as go into 64 MiB. */
START_TEST(hostile_in_bounded_time)
{
	struct dump d;
	struct jitdump_place p;
	header(&d, 0);
	load(&d, 0x1000, 0x10, 1, "first");
	uint32_t size = 1u << 29, prefix[4] = {LOAD, size, 0, 0};
	fd_auto fd = file_of(&d);
	ck_assert_int_eq(pwrite(fd, prefix, sizeof(prefix), (off_t)d.n), sizeof(prefix));
	prefix[0] = DEBUG;
	ck_assert_int_eq(pwrite(fd, prefix, sizeof(prefix), (off_t)d.n + size), sizeof(prefix));
	ck_assert_int_eq(ftruncate(fd, 4ll << 30), 0);
	struct jitdump *j = new_dump(CAP);
	ck_assert_int_eq(read_all(j, fd, NULL), 0);
	ck_assert(jitdump_truncated(j) && jitdump_find(j, 0x1000, &p));
	jitdump_free(j);
	size_t n = MANY_OF(4 << 20);
	d.bytes = realloc(d.bytes, d.n + 16 * n);
	prefix[1] = 16;
	for (size_t i = 0; i < n; i++)
		memcpy(d.bytes + d.n + 16 * i, prefix, 16);
	d.n += 16 * n;
	fd_auto many = file_of(&d);
	j = new_dump(CAP);
	int64_t begin_at = clock_cpu();
	ck_assert_int_eq(read_all(j, many, NULL), 0);
	ck_assert_int_lt(clock_cpu() - begin_at, 10 * NSEC_PER_SEC);
	jitdump_free(j);
	free(d.bytes);
}
END_TEST

UNIT_SUITE(jitdump)
{
	Suite *s = suite_create("jitdump");
	TCase *t = tcase_create("jitdump");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, what_is_where, 0, COUNT(lookups));
	tcase_add_test(t, byte_by_byte);
	tcase_add_test(t, another_file);
	tcase_add_loop_test(t, one_field_spoiled, 0, COUNT(spoiled));
	tcase_add_test(t, lines_that_end_early);
	tcase_add_test(t, long_names);
	tcase_add_test(t, no_more_than_the_cap);
	tcase_add_test(t, hostile_in_bounded_time);
	suite_add_tcase(s, t);
	return s;
}

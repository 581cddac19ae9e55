/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/folded.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *scenario;
	struct {
		const char *frames[4]; /* leaf first */
		const char *process;
		int64_t value;
	} samples[3];
	const char *expect;
} rows[] = {
	{"an empty profile is an empty text", {{{0}, NULL, 0}}, ""},
	{"root first, leaf last", {{{"leaf", "main"}, NULL, 7}}, "main;leaf 7\n"},
	{"the process comes first", {{{"leaf", "main"}, "redis", 7}}, "redis;main;leaf 7\n"},
	{"lines are sorted", {{{"b"}, NULL, 1}, {{"a"}, NULL, 2}}, "a 2\nb 1\n"},
	{"equal lines are one", {{{"x;y"}, NULL, 1}, {{"x:y"}, NULL, 2}}, "x:y 3\n"},
	{"separators in names", {{{"f(a;b)\n"}, "p;q", 1}}, "p:q;f(a:b)  1\n"},
	{"a name cannot steer the terminal", {{{"\x1b[2J\xc2\x9b"}, NULL, 1}}, "?[2J? 1\n"},
	{"sums of nothing are left out", {{{"a"}, NULL, 5}, {{"b"}, NULL, 0}}, "a 5\n"},
	{"nor are those of more and less", {{{"a"}, NULL, 5}, {{"b"}, NULL, 6}, {{"a"}, NULL, -5}}, "b 6\n"},
	{"a sum that 64 bits do not hold is the largest", {{{"a"}, NULL, INT64_MAX}, {{"a"}, NULL, 1}},
		"a 9223372036854775807\n"},
	{"or the smallest", {{{"a"}, NULL, INT64_MIN}, {{"a"}, NULL, -1}}, "a -9223372036854775808\n"},
	{"a sample without frames", {{{0}, "idle", 4}}, "idle 4\n"},
};

static struct profile *build(int row)
{
	struct profile_info info = {
		.n_types = 2, .types = (struct profile_type[]){{"samples", "count"}, {"cpu", "nanoseconds"}}};
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (size_t i = 0; i < N(rows[row].samples) && (rows[row].samples[i].frames[0] || rows[row].samples[i].process);
		i++) {
		uint32_t stack[4];
		size_t n = 0;
		for (; n < 4 && rows[row].samples[i].frames[n]; n++) {
			int64_t f =
				profile_function(p, &(struct profile_function){.name = rows[row].samples[i].frames[n]});
			stack[n] = (uint32_t)profile_location(
				p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
		}
		struct profile_label l = {.key = "process", .str = rows[row].samples[i].process};
		ck_assert_int_eq(
			profile_sample(p, stack, n, (int64_t[]){99, rows[row].samples[i].value}, &l, !!l.str), 0);
	}
	return p;
}

START_TEST(test_rows)
{
	int fds = fd_count();
	struct profile *p = build(_i);
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(folded_write(p, 1, "process", f), 0);
	fclose(f);
	ck_assert_msg(!strcmp(text, rows[_i].expect), "%s: %s", rows[_i].scenario, text);
	free(text);
	profile_free(p);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario, *process, *expect;
} inlined_rows[] = {
	{"inlined functions are frames", NULL, "a;d 1\na;d;a;b;c 3\n"},
	{"behind the process too", "redis", "redis;a;d 1\nredis;a;d;a;b;c 3\n"},
};

/* Leaf: c() in b() in a(), inlined; called from an a() into which d() was inlined. */
START_TEST(test_inlined_functions)
{
	struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"samples", "count"}}};
	struct profile_label l = {.key = "process", .str = inlined_rows[_i].process};
	struct profile *p;
	char *text;
	size_t size;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (const char *name = "abcd"; *name; name++)
		profile_function(p, &(struct profile_function){.name = (char[]){*name, 0}});
	uint32_t stack[] = {
		(uint32_t)profile_location(p, PROFILE_NONE, 1, (struct profile_line[]){{2, 5}, {1, 6}, {0, 7}}, 3),
		(uint32_t)profile_location(p, PROFILE_NONE, 2, (struct profile_line[]){{3, 5}, {0, 7}}, 2)};
	profile_sample(p, stack, 2, (int64_t[]){3}, &l, !!l.str);
	profile_sample(p, stack + 1, 1, (int64_t[]){1}, &l, !!l.str);
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(folded_write(p, 0, "process", f), 0);
	fclose(f);
	ck_assert_msg(!strcmp(text, inlined_rows[_i].expect), "%s: %s", inlined_rows[_i].scenario, text);
	free(text);
	profile_free(p);
}
END_TEST

START_TEST(test_labels)
{
	struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"samples", "count"}}};
	struct profile *p;
	char *text;
	size_t size;
	const struct profile_label labels[] = {
		{.key = "process", .str = "web"}, {.key = "pid", .num = -7}, {.key = "thread", .str = "a\nb\xff;c"}};
	ck_assert_int_eq(profile_new(&info, &p), 0);
	int64_t f = profile_function(p, &(struct profile_function){.name = "main"});
	uint32_t stack =
		(uint32_t)profile_location(p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
	profile_sample(p, &stack, 1, (int64_t[]){3}, labels, N(labels));
	profile_sample(p, &stack, 1, (int64_t[]){4}, labels, 1);
	FILE *out = open_memstream(&text, &size);
	ck_assert_int_eq(folded_write(p, 0, "pid", out), 0);
	ck_assert_int_eq(folded_write(p, 0, "thread", out), 0);
	ck_assert_int_eq(folded_write(p, 0, "no", out), 0);
	fclose(out);
	ck_assert_msg(!strncmp(text, "-7;main 3\nmain 4\na b", 20) && strstr(text, ":c;main 3\nmain 4\nmain 7\n"), "%s",
		text);
	free(text);
	profile_free(p);
}
END_TEST

START_TEST(test_failures)
{
	int fds = fd_count();
	struct profile *p = build(1);
	ck_assert_int_eq(folded_write(p, 2, "process", stdout), -EINVAL);
	FILE *full = fopen("/dev/full", "we");
	ck_assert_int_eq(folded_write(p, 1, "process", full), -EIO);
	fclose(full);
	profile_free(p);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* Of lines of 4 KB each, 200 calls would keep 800 KB, if a call kept one. */
START_TEST(a_call_keeps_no_memory)
{
	struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"samples", "count"}}};
	struct profile *p;
	char name[4001], *text;
	size_t size, before = 0;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (int i = 0; i < 3; i++) {
		memset(name, 'a' + i, sizeof(name) - 1);
		name[sizeof(name) - 1] = 0;
		int64_t f = profile_function(p, &(struct profile_function){.name = name});
		uint32_t stack = (uint32_t)profile_location(
			p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
		ck_assert_int_eq(profile_sample(p, &stack, 1, (int64_t[]){1}, NULL, 0), 0);
	}
	for (int i = 0; i < 201; i++) {
		FILE *f = open_memstream(&text, &size);
		ck_assert_int_eq(folded_write(p, 0, "process", f), 0);
		fclose(f);
		ck_assert_uint_eq(size, 3 * (strlen(name) + strlen(" 1\n")));
		free(text);
		before = i ? before : mallinfo2().uordblks;
	}
	ck_assert_uint_lt(mallinfo2().uordblks, before + 100 * sizeof(name));
	profile_free(p);
}
END_TEST

UNIT_SUITE(folded)
{
	Suite *s = suite_create("folded");
	TCase *t = tcase_create("folded");
	tcase_add_loop_test(t, test_rows, 0, N(rows));
	tcase_add_loop_test(t, test_inlined_functions, 0, N(inlined_rows));
	tcase_add_test(t, test_failures);
	tcase_add_test(t, test_labels);
	tcase_add_test(t, a_call_keeps_no_memory);
	suite_add_tcase(s, t);
	return s;
}

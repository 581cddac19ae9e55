/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/top_table.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static struct profile *build(void)
{
	static const struct {
		const char *frames[5]; /* leaf first */
		int64_t ms;
	} samples[] = {
		{{"hash", "parse", "main"}, 600},
		{{"fib", "fib", "fib", "main"}, 300}, /* recursive: once in cum */
		{{"parse", "main"}, 99},
		{{"rare", "main"}, 1},
	};
	struct profile_info info = {.time_ns = 1700000000000000000,
		.duration_ns = 10000000000,
		.n_types = 2,
		.types = (struct profile_type[]){{"samples", "count"}, {"cpu", "nanoseconds"}}};
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (size_t i = 0; i < N(samples); i++) {
		uint32_t stack[5];
		size_t n = 0;
		for (; samples[i].frames[n]; n++) {
			int64_t f = profile_function(p, &(struct profile_function){.name = samples[i].frames[n]});
			stack[n] = (uint32_t)profile_location(
				p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
		}
		struct profile_label l = {.key = "container", .str = "shop"};
		profile_sample(p, stack, n, (int64_t[]){1, samples[i].ms * 1000000}, &l, 1);
	}
	profile_comment(p, "lost 12 records");
	return p;
}

/* Leaf: c() in b() in a(), inlined; called from an a() of its own, into which d() was inlined. */
static struct profile *build_inlined(void)
{
	struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"samples", "count"}}};
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (const char *name = "abcd"; *name; name++)
		profile_function(p, &(struct profile_function){.name = (char[]){*name, 0}});
	uint32_t stack[] = {
		(uint32_t)profile_location(p, PROFILE_NONE, 1, (struct profile_line[]){{2, 5}, {1, 6}, {0, 7}}, 3),
		(uint32_t)profile_location(p, PROFILE_NONE, 2, (struct profile_line[]){{3, 5}, {0, 7}}, 2)};
	ck_assert_int_eq(profile_sample(p, stack, 2, (int64_t[]){3}, NULL, 0), 0);
	ck_assert_int_eq(profile_sample(p, stack + 1, 1, (int64_t[]){1}, NULL, 0), 0);
	return p;
}

START_TEST(test_inlined_functions)
{
	struct profile *p = build_inlined();
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(top_write(p, 0, TOP_ALL, f), 0);
	fclose(f);
	ck_assert_str_eq(text, "      flat  flat%   sum%        cum   cum%\n"
			       "         3 75.00% 75.00%          3 75.00%  c\n"
			       "         1 25.00%   100%          4   100%  d\n"
			       "         0     0%   100%          4   100%  a\n"
			       "         0     0%   100%          3 75.00%  b\n");
	free(text);
	profile_free(p);
}
END_TEST

static const struct {
	const char *scenario;
	unsigned type;
	size_t limit;
	const char *expect;
} rows[] = {
	{"self time, largest first", 1, TOP_ALL,
		"      flat  flat%   sum%        cum   cum%\n"
		"     600ms 60.00% 60.00%      600ms 60.00%  hash\n"
		"     300ms 30.00% 90.00%      300ms 30.00%  fib\n"
		"      99ms  9.90% 99.90%      699ms 69.90%  parse\n"
		"       1ms   0.1%   100%        1ms   0.1%  rare\n"
		"         0     0%   100%         1s   100%  main\n"},
	{"two rows say how many are missing", 1, 2,
		"      flat  flat%   sum%        cum   cum%\n"
		"     600ms 60.00% 60.00%      600ms 60.00%  hash\n"
		"     300ms 30.00% 90.00%      300ms 30.00%  fib\n"
		"       ... 3 more functions\n"},
	{"the other sample type", 0, 1,
		"      flat  flat%   sum%        cum   cum%\n"
		"         1 25.00% 25.00%          2 50.00%  parse\n"
		"       ... 4 more functions\n"},
};

START_TEST(test_table)
{
	int fds = fd_count();
	struct profile *p = build();
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(top_write(p, rows[_i].type, rows[_i].limit, f), 0);
	fclose(f);
	ck_assert_msg(!strcmp(text, rows[_i].expect), "%s:\n%s", rows[_i].scenario, text);
	free(text);
	profile_free(p);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(test_header_says_what_was_lost)
{
	int fds = fd_count();
	struct profile *p = build();
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(top_header(p, "file", f), 0);
	fclose(f);
	ck_assert_str_eq(text, "target    shop\n"
			       "start     2023-11-14 22:13:20 UTC\n"
			       "duration  10s\n"
			       "total     4 samples, 1s cpu\n"
			       "note      lost 12 records\n");
	free(text);
	profile_free(p);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario;
	int64_t value;
	const char *unit, *expect;
} amounts[] = {
	{"nothing has no unit", 0, "nanoseconds", "0"},
	{"nanoseconds", 999, "nanoseconds", "999ns"},
	{"microseconds", 1500, "nanoseconds", "1.50us"},
	{"seconds", 1234567890, "nanoseconds", "1.23s"},
	{"minutes", 90000000000, "nanoseconds", "1.50mins"},
	{"less than nothing", -2000000, "nanoseconds", "-2ms"},
	{"bytes", 524288, "bytes", "512kB"},
	{"much memory", 3ll << 40, "bytes", "3TB"},
	{"milliseconds", 90500, "milliseconds", "1.51mins"},
	{"a millisecond", 1, "ms", "1ms"},
	{"one microsecond", 1500, "microsecond", "1.50ms"},
	{"seconds", 7200, "s", "2hrs"},
	{"minutes of their own", 90, "minutes", "1.50hrs"},
	{"hours", 1, "hours", "1hrs"},
	{"no hours", 0, "hours", "0"},
	{"less than no seconds", -2, "seconds", "-2s"},
	{"kilobytes", 5 << 20, "kilobytes", "5GB"},
	{"megabytes", 3, "MB", "3MB"},
	{"a count", 71, "count", "71"},
	{"a sample", 71, "sample", "71"},
	{"samples are a unit", 71, "samples", "71samples"},
	{"no unit", 71, "", "71"},
	{"a unit nobody knows", 3, "widgets", "3widgets"},
	{"a unit with control characters", 3, "\x1b[", "3?["},
	{"the largest value", INT64_MAX, "count", "9223372036854775807"},
};

START_TEST(test_amounts)
{
	char buf[64];
	top_amount(amounts[_i].value, amounts[_i].unit, buf, sizeof(buf));
	ck_assert_msg(!strcmp(buf, amounts[_i].expect), "%s: %s", amounts[_i].scenario, buf);
}
END_TEST

START_TEST(test_failures)
{
	int fds = fd_count();
	struct profile *p = build();
	ck_assert_int_eq(top_write(p, 2, 1, stdout), -EINVAL);
	FILE *full = fopen("/dev/full", "we");
	ck_assert_int_eq(top_write(p, 1, 1, full), -EIO);
	fclose(full);
	profile_free(p);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* The difference of two profiles, as go tool pprof writes it: "before" is below zero. */
START_TEST(test_values_below_zero)
{
	static const struct {
		const char *label, *expect;
	} signs[] = {
		{NULL, "       100 66.67% 66.67%        100 66.67%  new\n       -50 33.33% 33.33%        -50 33.33%  "
		       "old\n"},
		{"pprof::base", "       100 200.00% 200.00%        100 200.00%  new\n       -50   100%   100%        "
				"-50   100%  old\n"},
	};
	for (size_t i = 0; i < N(signs); i++) {
		const struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"cpu", "count"}}};
		const struct profile_label l = {.key = signs[i].label, .str = "true"};
		struct profile *p;
		char *text;
		size_t size;
		ck_assert_int_eq(profile_new(&info, &p), 0);
		uint32_t new = (uint32_t)profile_named_location(p, PROFILE_NONE, 0, "new"),
			 old = (uint32_t)profile_named_location(p, PROFILE_NONE, 0, "old");
		ck_assert_int_eq(profile_sample(p, &new, 1, (int64_t[]){100}, NULL, 0), 0);
		ck_assert_int_eq(profile_sample(p, &old, 1, (int64_t[]){-50}, &l, signs[i].label != NULL), 0);
		FILE *f = open_memstream(&text, &size);
		ck_assert_int_eq(top_write(p, 0, TOP_ALL, f), 0);
		fclose(f);
		ck_assert_str_eq(strchr(text, '\n') + 1, signs[i].expect);
		free(text);
		profile_free(p);
	}
}
END_TEST

/* Of 100 windows merged. */
START_TEST(test_many_notes)
{
	const struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"cpu", "nanoseconds"}}};
	struct profile *p;
	char note[32], *text;
	size_t len;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (int i = 0; i < 200; i++) {
		snprintf(note, sizeof(note), "samples: %d", i / 2);
		ck_assert_int_eq(profile_comment_once(p, note), 0);
	}
	ck_assert_uint_eq(profile_comments(p), 100);
	FILE *out = open_memstream(&text, &len);
	ck_assert_int_eq(top_header(p, "x", out), 0);
	fclose(out);
	ck_assert_ptr_nonnull(strstr(text, "note      samples: 19\n...       80 more, of other windows\n"));
	ck_assert_ptr_null(strstr(text, "samples: 20"));
	free(text);
	profile_free(p);
}
END_TEST

UNIT_SUITE(top_table)
{
	Suite *s = suite_create("top_table");
	TCase *t = tcase_create("top_table");
	tcase_add_test(t, test_many_notes);
	tcase_add_test(t, test_values_below_zero);
	tcase_add_loop_test(t, test_table, 0, N(rows));
	tcase_add_test(t, test_inlined_functions);
	tcase_add_test(t, test_header_says_what_was_lost);
	tcase_add_loop_test(t, test_amounts, 0, N(amounts));
	tcase_add_test(t, test_failures);
	suite_add_tcase(s, t);
	return s;
}

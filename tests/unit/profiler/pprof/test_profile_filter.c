/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/profile_filter.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct profile *build(void)
{
	static const struct {
		const char *frames[3]; /* leaf first */
		const char *container;
		int64_t tid;
	} samples[] = {{{"hash", "main"}, "web", 7}, {{"operator==", "main"}, "web", 77}, {{"hash", "idle"}, "shop", 7},
		{{"lonely"}, NULL, 0}};
	struct profile_info info = {.n_types = 1, .types = (struct profile_type[]){{"cpu", "nanoseconds"}}};
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	for (size_t i = 0; i < LENGTH(samples); i++) {
		uint32_t stack[3];
		size_t n = 0;
		for (; n < 3 && samples[i].frames[n]; n++) {
			int64_t f = profile_function(p, &(struct profile_function){.name = samples[i].frames[n]});
			stack[n] = (uint32_t)profile_location(
				p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
		}
		struct profile_label l[] = {
			{.key = "container", .str = samples[i].container}, {.key = "tid", .num = samples[i].tid}};
		profile_sample(p, stack, n, (int64_t[]){1 << i}, l, samples[i].container ? 2 : 0);
	}
	return p;
}

static const struct {
	const char *scenario;
	struct profile_filter filter;
	int64_t total; /* a bit for each sample */
} rows[] = {
	{"none: all", {{NULL}, 0}, 15},
	{"a function", {{"hash"}, 1}, 5},
	{"a caller", {{"main"}, 1}, 3},
	{"a part of a name", {{"one"}, 1}, 8},
	{"a label", {{"container=web"}, 1}, 3},
	{"a number is whole", {{"tid=7"}, 1}, 5},
	{"both", {{"container=web", "hash"}, 2}, 1},
	{"'=' in a name", {{"operator=="}, 1}, 2},
	{"no such label", {{"thread=x"}, 1}, 0},
	{"nobody", {{"container=web", "idle"}, 2}, 0},
};

START_TEST(those_that_fit)
{
	struct profile *p = build(), *some;
	struct err e = {0};
	ck_assert_int_eq(profile_filter_apply(p, &rows[_i].filter, &some, &e), 0);
	ck_assert_msg(profile_total(some, 0) == rows[_i].total, "%s: %lld", rows[_i].scenario,
		(long long)profile_total(some, 0));
	ck_assert_uint_eq(
		profile_filter_count(p, &rows[_i].filter), (size_t)__builtin_popcount((unsigned)rows[_i].total));
	profile_free(some);
	profile_free(p);
}
END_TEST

UNIT_SUITE(profile_filter)
{
	Suite *s = suite_create("profile_filter");
	TCase *t = tcase_create("profile_filter");

	tcase_add_loop_test(t, those_that_fit, 0, LENGTH(rows));
	suite_add_tcase(s, t);
	return s;
}

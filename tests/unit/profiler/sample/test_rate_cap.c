/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/rate_cap.h"

#include "oci/base/clock.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct rate_cap cap;
static double others; /* by what sampling is lowered beside */

/* `n` seconds of a target that would bring so much a second; changes of the factor. */
static unsigned seconds(const struct rate_limits *l, unsigned n, double samples, double bytes)
{
	unsigned changes = 0;
	for (unsigned i = 0; i < n; i++) {
		double lowered = rate_cap_factor(&cap) * others;
		changes += rate_cap_look(
			&cap, l, NSEC_PER_SEC, (uint64_t)(samples / lowered), (uint64_t)(bytes / lowered), lowered);
	}
	return changes;
}

static void begin(void)
{
	cap = (struct rate_cap){0};
	others = 1;
}

static bool about(double got, double wanted)
{
	return got > wanted * 0.98 && got < wanted * 1.02;
}

static const struct {
	const char *scenario;
	struct rate_limits limits;
	double samples, bytes, factor;
} rates[] = {
	{"below both", {1000, 1 << 20}, 999, 1 << 20, 1},
	{"a tenth above is not worth it", {1000, 0}, 1090, 0, 1},
	{"twice the samples", {1000, 1 << 20}, 2000, 1000, 2.1},
	{"twice the bytes", {1000, 1 << 20}, 500, 2 << 20, 2.1},
	{"both: what is worse", {1000, 1 << 20}, 4000, 2 << 20, 4.2},
	{"no bound at all", {0, 0}, 1e9, 1e12, 1},
	{"no bound of bytes", {1000, 0}, 500, 1e12, 1},
	{"beyond all measure", {1, 0}, 1e9, 0, RATE_CAP_MOST},
	{"nothing", {1000, 1 << 20}, 0, 0, 1},
};

START_TEST(by_how_much)
{
	seconds(&rates[_i].limits, 1, rates[_i].samples, rates[_i].bytes);
	double first = rate_cap_factor(&cap);
	ck_assert_msg(about(first, rates[_i].factor), "%s: %f", rates[_i].scenario, first);
	/* and it stays there, as what comes now is what is wanted */
	ck_assert_msg(seconds(&rates[_i].limits, 100, rates[_i].samples, rates[_i].bytes) == 0, "%s: %f",
		rates[_i].scenario, rate_cap_factor(&cap));
}
END_TEST

START_TEST(it_ends_after_ten_calm_seconds)
{
	static const struct rate_limits l = {1000, 0};
	seconds(&l, 5, 8000, 0);
	ck_assert(about(rate_cap_factor(&cap), 8.4));
	ck_assert_uint_eq(seconds(&l, RATE_CAP_CALM - 1, 10, 0), 0);
	ck_assert_uint_eq(seconds(&l, 1, 10, 0), 1);
	ck_assert(rate_cap_factor(&cap) == 1);
}
END_TEST

START_TEST(half_of_it_is_half_as_much)
{
	static const struct rate_limits l = {1000, 0};
	seconds(&l, 5, 8000, 0);
	ck_assert_uint_eq(seconds(&l, RATE_CAP_CALM, 4000, 0), 1);
	ck_assert(about(rate_cap_factor(&cap), 4.2));
}
END_TEST

START_TEST(bursts_are_met_by_one_factor)
{
	static const struct rate_limits l = {1000, 0};
	unsigned changes = 0;
	for (int i = 0; i < 20; i++)
		changes += seconds(&l, 2, 5000, 0) + seconds(&l, 4, 10, 0);
	ck_assert_uint_eq(changes, 1);
	ck_assert(about(rate_cap_factor(&cap), 5.25));
}
END_TEST

START_TEST(what_others_lowered_is_not_given_back)
{
	static const struct rate_limits l = {1000, 0};
	seconds(&l, 3, 4000, 0);
	others = 3;
	ck_assert_uint_eq(seconds(&l, 50, 4000, 0), 0);
	ck_assert(about(rate_cap_factor(&cap), 4.2));
}
END_TEST

START_TEST(a_look_without_time_says_nothing)
{
	static const struct rate_limits l = {1, 1};
	ck_assert(!rate_cap_look(&cap, &l, 0, 1000, 1000, 1));
	ck_assert(rate_cap_factor(&cap) == 1);
}
END_TEST

UNIT_SUITE(rate_cap)
{
	Suite *s = suite_create("rate_cap");
	TCase *t = tcase_create("rate_cap");

	tcase_add_checked_fixture(t, begin, NULL);
	tcase_add_loop_test(t, by_how_much, 0, LENGTH(rates));
	tcase_add_test(t, it_ends_after_ten_calm_seconds);
	tcase_add_test(t, half_of_it_is_half_as_much);
	tcase_add_test(t, bursts_are_met_by_one_factor);
	tcase_add_test(t, what_others_lowered_is_not_given_back);
	tcase_add_test(t, a_look_without_time_says_nothing);
	suite_add_tcase(s, t);
	return s;
}

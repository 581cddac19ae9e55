/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/cpu_budget.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>

#define ALLOWED 10000000ull /* 10 ms a second */

static struct cpu_budget a;
static unsigned changes;

/* So many seconds in which `other` ns went anyway, and `sampling` if nothing were lowered. */
static void seconds(unsigned n, double other, double sampling)
{
	for (unsigned i = 0; i < n; i++) {
		struct cpu_budget_cost spent = {(uint64_t)(sampling / cpu_budget_factor(&a)), (uint64_t)other};
		changes += cpu_budget_look(&a, 1, &spent, ALLOWED);
	}
}

static uint64_t in_a_minute(void)
{
	const struct cpu_budget_cost spent = cpu_budget_minute(&a);
	return spent.sampling + spent.other;
}

static void begin(void)
{
	a = (struct cpu_budget){0};
	changes = 0;
}

START_TEST(below_it_nothing_is_lowered)
{
	seconds(600, 1e6, 8e6);
	ck_assert_uint_eq(changes, 0);
	ck_assert(cpu_budget_factor(&a) == 1);
	ck_assert_uint_eq(in_a_minute(), 60 * 9000000ull);
}
END_TEST

START_TEST(a_start_may_spend_a_minute_at_once)
{
	seconds(1, 500e6, 0);
	seconds(100, 0, 1e6);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

/* also a second one that comes while the first is still in the minute's sum, as long as nothing goes on */
START_TEST(what_is_over_lowers_nothing)
{
	seconds(1, 590e6, 0);
	seconds(12, 0, 1e6);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(above_it_all_is_lowered_until_it_is_below)
{
	seconds(20, 0, 30e6);
	ck_assert_uint_eq(changes, 0); /* the minute is not spent yet */
	seconds(10, 0, 30e6);
	ck_assert_uint_eq(changes, 1);
	ck_assert(cpu_budget_factor(&a) > 3 && cpu_budget_factor(&a) < 4);
	seconds(600, 0, 30e6);
	ck_assert_uint_eq(changes, 1); /* and stays: it does not swing */
	ck_assert_uint_lt(in_a_minute(), 60 * ALLOWED);
}
END_TEST

START_TEST(it_is_raised_again_in_steps)
{
	seconds(40, 0, 80e6);
	double lowest = cpu_budget_factor(&a);
	ck_assert(lowest > 8);
	changes = 0;
	seconds(20, 0, 1e6); /* the dearest ten seconds are still among the last thirty */
	ck_assert_uint_eq(changes, 0);
	seconds(40, 0, 1e6);
	ck_assert(changes >= 1 && cpu_budget_factor(&a) >= lowest / 4);
	seconds(180, 0, 1e6);
	ck_assert(cpu_budget_factor(&a) == 1);
	ck_assert_uint_le(changes, 4);
	changes = 0;
	seconds(600, 0, 1e6);
	ck_assert_uint_eq(changes, 0);
}
END_TEST

/* Load that comes and goes, of a length near those of the rules. */
START_TEST(it_does_not_swing)
{
	for (int i = 0; i < 30; i++) {
		seconds(20, 0, 30e6);
		seconds(20, 0, 5e6);
	}
	ck_assert_uint_le(changes, 30); /* in 20 minutes */
	begin();
	for (int i = 0; i < 1200; i++)
		seconds(1, 0, i % 2 ? 22e6 : 18e6);
	ck_assert_uint_le(changes, 2);
}
END_TEST

/* However much else is spent: a lower rate would not lower that. */
START_TEST(what_is_no_sampling_lowers_nothing)
{
	seconds(1200, 50e6, 7e6);
	ck_assert_uint_eq(changes, 0);
	ck_assert(cpu_budget_factor(&a) == 1);
}
END_TEST

START_TEST(sampling_has_three_quarters_whatever_else_is_spent)
{
	seconds(1200, 50e6, 15e6);
	ck_assert(cpu_budget_factor(&a) > 2 && cpu_budget_factor(&a) < 2.5);
	ck_assert_uint_eq(changes, 1);
	ck_assert_uint_lt(cpu_budget_minute(&a).sampling, 60 * ALLOWED * 3 / 4);
	begin();
	seconds(1200, 1e6, 15e6); /* and all that the rest leaves */
	ck_assert(cpu_budget_factor(&a) > 1.6 && cpu_budget_factor(&a) < 2);
	ck_assert_uint_eq(changes, 1);
	ck_assert_uint_lt(in_a_minute(), 60 * ALLOWED);
}
END_TEST

START_TEST(what_can_be_put_off_is_before_sampling_is_lowered)
{
	ck_assert(cpu_budget_has_room(&a, ALLOWED));
	seconds(1, 590e6, 0);
	ck_assert(cpu_budget_has_room(&a, ALLOWED));
	seconds(1, 20e6, 0);
	ck_assert(!cpu_budget_has_room(&a, ALLOWED) && cpu_budget_has_room(&a, 0));
	seconds(60, 0, 0);
	ck_assert(cpu_budget_has_room(&a, ALLOWED));
	/* what sampling leaves, but a quarter */
	seconds(60, 3e6, 6e6);
	ck_assert(cpu_budget_has_room(&a, ALLOWED));
	seconds(60, 5e6, 6e6);
	ck_assert(!cpu_budget_has_room(&a, ALLOWED));
	ck_assert_uint_eq(changes, 0);
}
END_TEST

START_TEST(what_can_be_put_off_has_a_quarter_whatever_sampling_takes)
{
	for (unsigned i = 0; i < CPU_BUDGET_SECONDS; i++)
		a.spent[i] = (struct cpu_budget_cost){2 * ALLOWED, ALLOWED / 4 - 1};
	ck_assert(cpu_budget_has_room(&a, ALLOWED));
	a.spent[0].other += 60;
	ck_assert(!cpu_budget_has_room(&a, ALLOWED));
}
END_TEST

START_TEST(no_bound)
{
	for (int i = 0; i < 100; i++)
		ck_assert(!cpu_budget_look(&a, 1, &(struct cpu_budget_cost){999000000, 999000000}, 0));
	ck_assert(cpu_budget_factor(&a) == 1);
	seconds(60, 0, 80e6);
	ck_assert(cpu_budget_factor(&a) > 1);
	ck_assert(cpu_budget_look(&a, 1, &(struct cpu_budget_cost){80000000, 0}, 0)); /* it was taken away */
	ck_assert(cpu_budget_factor(&a) == 1);
}
END_TEST

START_TEST(a_service_that_was_held_up)
{
	seconds(60, 0, 40e6);
	double lowered = cpu_budget_factor(&a);
	ck_assert(lowered > 4);
	ck_assert(!cpu_budget_look(&a, 0, &(struct cpu_budget_cost){1000, 1000}, ALLOWED));
	/* nobody looked for ten minutes: there was nothing to sample */
	ck_assert(cpu_budget_look(&a, 600, &(struct cpu_budget_cost){0}, ALLOWED));
	ck_assert(cpu_budget_factor(&a) == 1);
	ck_assert_uint_eq(in_a_minute(), 0);
	const struct cpu_budget_cost huge = {UINT64_MAX / 2, UINT64_MAX / 2};
	ck_assert(cpu_budget_look(&a, UINT32_MAX, &huge, ALLOWED));
	ck_assert(cpu_budget_factor(&a) > 1 && cpu_budget_factor(&a) <= CPU_BUDGET_MOST);
}
END_TEST

UNIT_SUITE(cpu_budget)
{
	Suite *s = suite_create("cpu_budget");
	TCase *t = tcase_create("cpu_budget");

	tcase_add_checked_fixture(t, begin, NULL);
	tcase_add_test(t, below_it_nothing_is_lowered);
	tcase_add_test(t, a_start_may_spend_a_minute_at_once);
	tcase_add_test(t, what_is_over_lowers_nothing);
	tcase_add_test(t, above_it_all_is_lowered_until_it_is_below);
	tcase_add_test(t, it_is_raised_again_in_steps);
	tcase_add_test(t, it_does_not_swing);
	tcase_add_test(t, what_is_no_sampling_lowers_nothing);
	tcase_add_test(t, sampling_has_three_quarters_whatever_else_is_spent);
	tcase_add_test(t, what_can_be_put_off_is_before_sampling_is_lowered);
	tcase_add_test(t, what_can_be_put_off_has_a_quarter_whatever_sampling_takes);
	tcase_add_test(t, no_bound);
	tcase_add_test(t, a_service_that_was_held_up);
	suite_add_tcase(s, t);
	return s;
}

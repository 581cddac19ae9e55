/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/process/restart.h"

#include "oci/base/clock.h"
#include "tests/unit/support/suite.h"

#include <check.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define MS NSEC_PER_MSEC

/* Children that end after `lived`: the failures in a row, the pause, and when the next one is due after the end. */
struct life {
	int64_t lived;
	unsigned failures;
	int64_t pause, due;
};

static const struct {
	const char *scenario;
	struct restart_rule rule;
	struct life lives[12];
} cases[] = {
	{"pauses double up to the longest; one that lived as long as `steady` failed, a longer life ends the row",
		{.steady = 1000 * MS, .pause = 50 * MS, .most = 300 * MS},
		{{10 * MS, 1, 50 * MS, 50 * MS}, {10 * MS, 2, 100 * MS, 100 * MS}, {1000 * MS, 3, 200 * MS, 200 * MS},
			{10 * MS, 4, 300 * MS, 300 * MS}, {1001 * MS, 0, 0, 0}, {10 * MS, 1, 50 * MS, 50 * MS}}},
	{"the first failures are free", {.steady = 1000 * MS, .free = 2, .pause = 100 * MS, .most = 5000 * MS},
		{{10 * MS, 1, 0, 0}, {10 * MS, 2, 0, 0}, {10 * MS, 3, 100 * MS, 100 * MS},
			{10 * MS, 4, 200 * MS, 200 * MS}}},
	{"the end of a steady one counts",
		{.steady = 1000 * MS, .steady_counts = 1, .free = 2, .pause = 100 * MS, .most = 5000 * MS},
		{{2000 * MS, 1, 0, 0}, {10 * MS, 2, 0, 0}, {10 * MS, 3, 100 * MS, 100 * MS}, {2000 * MS, 1, 0, 0}}},
	{"a pause follows a steady one, too: that of the row which it ends",
		{.steady = 1000 * MS, .steady_waits = true, .pause = 100 * MS, .most = 5000 * MS},
		{{10 * MS, 1, 100 * MS, 100 * MS}, {2000 * MS, 0, 200 * MS, 200 * MS},
			{2000 * MS, 0, 100 * MS, 100 * MS}}},
	{"pauses from the start: over at once, or when the child has ended already",
		{.steady = 1000 * MS, .pause = 50 * MS, .most = 300 * MS, .from_start = true},
		{{10 * MS, 1, 50 * MS, 40 * MS}, {100 * MS, 2, 100 * MS, 0}, {500 * MS, 3, 200 * MS, -300 * MS},
			{2000 * MS, 0, 0, 0}}},
};

START_TEST(pauses_by_rule)
{
	struct restart r = {0};
	int64_t now = 5000 * MS;
	for (const struct life *l = cases[_i].lives; l->lived; l++) {
		const int at = (int)(l - cases[_i].lives);
		restart_started(&r, now);
		ck_assert(!restart_is_due(&r, INT64_MAX)); /* there is one */
		now += l->lived;
		const int64_t pause = restart_ended(&r, &cases[_i].rule, now);
		ck_assert_msg(r.failures == l->failures && pause == l->pause && r.due == now + l->due,
			"%s: %d: %u failures, a pause of %lld ns", cases[_i].scenario, at, r.failures,
			(long long)pause);
		ck_assert(!restart_is_due(&r, r.due - 1));
		ck_assert(restart_is_due(&r, r.due));
		now = r.due > now ? r.due : now;
	}
}
END_TEST

START_TEST(after_a_row_of_millions_the_pause_is_the_longest)
{
	const struct restart_rule rule = {.steady = 1, .pause = 1000 * MS, .most = 60000 * MS};
	struct restart r = {.failures = 4000000};
	restart_started(&r, 1);
	ck_assert_int_eq(restart_ended(&r, &rule, 1), 60000 * MS);
}
END_TEST

UNIT_SUITE(restart)
{
	Suite *s = suite_create("restart");
	TCase *t = tcase_create("restart");
	tcase_add_loop_test(t, pauses_by_rule, 0, LENGTH(cases));
	tcase_add_test(t, after_a_row_of_millions_the_pause_is_the_longest);
	suite_add_tcase(s, t);
	return s;
}

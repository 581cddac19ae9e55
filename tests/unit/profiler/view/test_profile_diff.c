/* SPDX-License-Identifier: Apache-2.0 */
/* moved: shares of two profiles, and how likely a change comes by chance. */
#include "profiler/view/profile_diff.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TYPES 2

static struct profile *sides[2];
static struct profile_delta l;

/* `n` samples of 10 ns each with this leaf below main. */
static void add(unsigned side, const char *leaf, int64_t n)
{
	const char *names[] = {leaf, "main"};
	uint32_t stack[2];
	for (unsigned i = 0; i < 2; i++) {
		const int64_t f = profile_function(
			sides[side], &(struct profile_function){.name = names[i], .system_name = "", .file = ""});
		stack[i] = (uint32_t)profile_location(
			sides[side], PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
	}
	ck_assert_int_eq(profile_sample(sides[side], stack, 2, (int64_t[]){n, 10 * n}, NULL, 0), 0);
}

static void begin_with(const char *first)
{
	const struct profile_info info = {
		.n_types = TYPES, .types = (struct profile_type[]){{first, "events"}, {"cpu", "nanoseconds"}}};
	for (unsigned i = 0; i < 2; i++)
		ck_assert_int_eq(profile_new(&info, &sides[i]), 0);
}

static void begin(void)
{
	begin_with("samples");
}
static void end(void)
{
	profile_diff_done(&l);
	for (unsigned i = 0; i < 2; i++)
		sides[i] = profile_free(sides[i]);
}

static const struct function_delta *row_of(const char *name)
{
	for (size_t i = 0; i < l.n; i++)
		if (!strcmp(l.rows[i].name, name))
			return &l.rows[i];
	return NULL;
}

START_TEST(what_moved_by_more_than_chance_stands_first)
{
	add(0, "a", 500), add(0, "b", 480), add(0, "rare", 1), add(0, "gone", 19);
	add(1, "a", 1200), add(1, "b", 800), add(1, "rare", 0);
	ck_assert_int_eq(profile_diff_find(sides[0], sides[1], "cpu", false, &l), 0);
	ck_assert_uint_eq(l.n, 4);
	ck_assert_uint_eq(l.n_sure, 3);
	ck_assert_str_eq(l.rows[0].name, "a");
	ck_assert_double_eq_tol(l.rows[0].before, 0.5, 1e-9);
	ck_assert_double_eq_tol(l.rows[0].after, 0.6, 1e-9);
	/* z = 0.1 / sqrt(0.5667 * 0.4333 * (1/1000 + 1/2000)) = 5.21 */
	ck_assert_double_eq_tol(l.rows[0].chance, 1.9e-7, 0.2e-7);
	ck_assert_double_eq_tol(row_of("gone")->after, 0, 1e-9);
	ck_assert_double_gt(row_of("rare")->chance, 0.1);
	ck_assert_ptr_eq(row_of("rare"), &l.rows[3]);
}
END_TEST

START_TEST(by_all_that_it_calls)
{
	add(0, "a", 10), add(1, "b", 20);
	ck_assert_int_eq(profile_diff_find(sides[0], sides[1], "cpu", true, &l), 0);
	ck_assert_uint_eq(l.n, 3);
	ck_assert_double_eq_tol(row_of("main")->before, 1, 1e-9);
	ck_assert_double_eq_tol(row_of("main")->after, 1, 1e-9);
	ck_assert_double_eq_tol(row_of("main")->chance, 1, 1e-9);
	ck_assert_double_eq_tol(row_of("b")->after, 1, 1e-9);
}
END_TEST

/* Twenty functions of 5 % each, drawn again: what differs is chance, whichever of them differs most. One in 20 times.
 */
START_TEST(of_many_that_did_not_move_hardly_one_is_sure)
{
	unsigned sure = 0;
	for (unsigned seed = 0; seed < 100; seed++) {
		end();
		begin();
		srand(seed);
		for (unsigned side = 0; side < 2; side++)
			for (unsigned i = 0; i < 1000; i++)
				add(side, (char[]){(char)('a' + rand() % 20), 0}, 1);
		ck_assert_int_eq(profile_diff_find(sides[0], sides[1], "cpu", false, &l), 0);
		ck_assert_uint_eq(l.n, 20);
		sure += l.n_sure > 0;
	}
	ck_assert_uint_le(sure, 12);
}
END_TEST

START_TEST(without_samples_chance_is_not_known)
{
	end();
	begin_with("others");
	add(0, "a", 10), add(1, "b", 20);
	ck_assert_int_eq(profile_diff_find(sides[0], sides[1], "cpu", false, &l), 0);
	ck_assert_uint_eq(l.n_sure, 0);
	ck_assert_double_eq_tol(l.rows[0].chance, -1, 1e-9);
	profile_diff_done(&l);
	ck_assert_int_eq(profile_diff_find(sides[0], sides[1], "nothing", false, &l), -EINVAL);
}
END_TEST

START_TEST(nothing_has_moved_nowhere)
{
	ck_assert_int_eq(profile_diff_find(sides[0], sides[1], "cpu", false, &l), 0);
	ck_assert_uint_eq(l.n, 0);
}
END_TEST

UNIT_SUITE(profile_diff)
{
	Suite *s = suite_create("profile_diff");
	TCase *t = tcase_create("profile_diff");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, what_moved_by_more_than_chance_stands_first);
	tcase_add_test(t, by_all_that_it_calls);
	tcase_add_test(t, of_many_that_did_not_move_hardly_one_is_sure);
	tcase_add_test(t, without_samples_chance_is_not_known);
	tcase_add_test(t, nothing_has_moved_nowhere);
	suite_add_tcase(s, t);
	return s;
}

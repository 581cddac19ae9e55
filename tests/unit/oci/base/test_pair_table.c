/* SPDX-License-Identifier: Apache-2.0 */
/* pairs: against a list, over its growth; what differs in one half only is kept apart. */
#include "oci/base/pair_table.h"
#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

static struct pair_table t;

static void end(void)
{
	pair_table_done(&t);
	ck_assert_uint_eq(t.count, 0);
}

START_TEST(numbers_are_dense_and_stay)
{
	const uint64_t n = 100000;
	for (int round = 0; round < 2; round++)
		for (uint64_t i = 0; i < n; i++)
			ck_assert_int_eq(pair_table_add(&t, i % 7, i * 0x1000), (int64_t)i);
	ck_assert_uint_eq(t.count, n);
	for (uint64_t i = 0; i < n; i += 97) {
		ck_assert_int_eq(pair_table_find(&t, i % 7, i * 0x1000), (int64_t)i);
		ck_assert_int_eq(pair_table_find(&t, i % 7, i * 0x1000 + 1), -ENOENT);
		ck_assert_uint_eq(t.items[i].b, i * 0x1000);
	}
}
END_TEST

START_TEST(each_half_counts)
{
	static const struct pair rows[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {UINT64_MAX, 0}, {0, UINT64_MAX},
		{UINT64_MAX, UINT64_MAX}, {1ull << 63, 0}, {0, 1ull << 63}};
	const size_t n = sizeof(rows) / sizeof(rows[0]);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(pair_table_add(&t, rows[i].a, rows[i].b), (int64_t)i);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(pair_table_find(&t, rows[i].a, rows[i].b), (int64_t)i);
}
END_TEST

START_TEST(nothing_is_in_an_empty_table)
{
	ck_assert_int_eq(pair_table_find(&t, 0, 0), -ENOENT);
}
END_TEST

static void grow_without_memory(const void *left)
{
	take_memory(*(const size_t *)left);
	MUST(pair_table_add(&t, 1, 2) == -ENOMEM);
	MUST(pair_table_find(&t, 1, 2) == -ENOENT && t.count == 0);
}

START_TEST(without_memory_nothing_is_added)
{
	/* its two tables take 2 KiB and 1 KiB at first: for none, for one of them */
	for (size_t left = 0; left < 3000 && memory_can_end(); left += 250)
		ck_assert_msg(in_child(grow_without_memory, &left) == 0, "with %zu bytes", left);
}
END_TEST

UNIT_SUITE(pair_table)
{
	Suite *s = suite_create("pair_table");
	TCase *c = tcase_create("pair_table");
	tcase_add_checked_fixture(c, NULL, end);
	tcase_add_test(c, numbers_are_dense_and_stay);
	tcase_add_test(c, each_half_counts);
	tcase_add_test(c, nothing_is_in_an_empty_table);
	tcase_add_test(c, without_memory_nothing_is_added);
	suite_add_tcase(s, c);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/array.h"

#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

static const struct {
	const char *scenario;
	size_t capacity, wanted, first, then;
} rows[] = {
	{"nothing is wanted", 0, 0, 8, 0},
	{"the first element", 0, 1, 8, 8},
	{"more than the first capacity", 0, 9, 8, 9},
	{"no first capacity", 0, 3, 0, 3},
	{"there is room", 8, 8, 4, 8},
	{"it doubles", 8, 9, 4, 16},
	{"to twice as many", 8, 16, 4, 16},
	{"more than twice as many", 8, 17, 4, 17},
};

START_TEST(capacities)
{
	size_t capacity = rows[_i].capacity;
	uint32_t *array = capacity ? calloc(capacity, sizeof(*array)) : NULL;
	for (size_t i = 0; i < capacity; i++)
		array[i] = (uint32_t)i;
	ck_assert_int_eq(array_reserve(&array, &capacity, rows[_i].wanted, sizeof(*array), rows[_i].first), 0);
	ck_assert_msg(capacity == rows[_i].then, "%s: %zu", rows[_i].scenario, capacity);
	ck_assert((array != NULL) == (capacity > 0));
	for (size_t i = 0; i < rows[_i].capacity; i++)
		ck_assert_uint_eq(array[i], i);
	for (size_t i = 0; i < capacity; i++)
		array[i] = 7; /* it is there: sanitizers look */
	free(array);
}
END_TEST

static const struct {
	size_t capacity, wanted, size;
} too_large[] = {{0, SIZE_MAX, 2}, {0, SIZE_MAX / 8 + 1, 8}, {0, SIZE_MAX / 2, 1}};

START_TEST(what_is_too_large_changes_nothing)
{
	uint8_t *array = malloc(4), *before = array;
	size_t capacity = 4;
	if (memory_can_end())
		ck_assert_int_eq(
			array_reserve(&array, &capacity, too_large[_i].wanted, too_large[_i].size, 1), -ENOMEM);
	ck_assert(array == before && capacity == 4);
	free(array);
}
END_TEST

START_TEST(within_a_limit)
{
	struct array_limit limit = {.max = 14000};
	uint32_t *array = NULL;
	size_t capacity = 0, n = 0;
	int r;
	while ((r = array_reserve_limited(&limit, &array, &capacity, n + 1, sizeof(*array))) == 0)
		array[n++] = 1;
	/* the next ones would be 8 KiB, beside 4 KiB until they have moved, and 4 KiB count already */
	ck_assert_int_eq(r, -E2BIG);
	ck_assert(n == 1024 && capacity == 1024 && limit.used == 1024 * sizeof(*array));
	ck_assert_int_eq(array_reserve_limited(&limit, &array, &capacity, n, sizeof(*array)), 0);
	ck_assert_uint_eq(limit.used, 1024 * sizeof(*array));
	free(array);
}
END_TEST

static void grow_limited(const void *arg)
{
	struct array_limit limit = {.max = 1u << 20};
	uint32_t *array = NULL;
	size_t capacity = 0;
	take_memory(0);
	MUST(array_reserve_limited(&limit, &array, &capacity, 1, sizeof(*array)) == -ENOMEM);
	MUST(!array && !capacity && !limit.used);
}

START_TEST(without_memory_nothing_is_counted)
{
	if (memory_can_end())
		ck_assert_int_eq(in_child(grow_limited, NULL), 0);
}
END_TEST

UNIT_SUITE(array)
{
	Suite *s = suite_create("array");
	TCase *t = tcase_create("array");
	tcase_add_loop_test(t, capacities, 0, sizeof(rows) / sizeof(rows[0]));
	tcase_add_loop_test(t, what_is_too_large_changes_nothing, 0, sizeof(too_large) / sizeof(too_large[0]));
	tcase_add_test(t, within_a_limit);
	tcase_add_test(t, without_memory_nothing_is_counted);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* intervals: rows of what covers what, noise against a plain array, and how memory and time grow. */
#include "oci/base/interval_map.h"

#include "oci/base/clock.h"
#include "tests/unit/support/many.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NONE UINT32_MAX
#define NO_LIMIT SIZE_MAX

static uint32_t at(const struct interval_map *t, uint64_t address)
{
	uint32_t value = NONE;
	return interval_map_find(t, address, &value) ? value : NONE;
}

/* Additions get the values 0, 1, 2 ... */
static const struct {
	const char *name;
	struct {
		uint64_t start, size;
	} add[4];
	struct {
		uint64_t address;
		uint32_t value;
	} expect[8];
} rows[] = {
	{"nothing", {{0}}, {{0, NONE}, {UINT64_MAX, NONE}}},
	{"one", {{0x10, 0x10}}, {{0xf, NONE}, {0x10, 0}, {0x1f, 0}, {0x20, NONE}}},
	{"the same again", {{0x10, 0x10}, {0x10, 0x10}}, {{0xf, NONE}, {0x10, 1}, {0x1f, 1}, {0x20, NONE}}},
	{"side by side", {{0x10, 0x10}, {0x20, 0x10}}, {{0x1f, 0}, {0x20, 1}, {0x2f, 1}, {0x30, NONE}}},
	{"over the end", {{0x10, 0x10}, {0x18, 0x10}}, {{0x10, 0}, {0x17, 0}, {0x18, 1}, {0x27, 1}, {0x28, NONE}}},
	{"over the beginning", {{0x18, 0x10}, {0x10, 0x10}}, {{0xf, NONE}, {0x10, 1}, {0x1f, 1}, {0x20, 0}, {0x27, 0}}},
	{"in the middle", {{0x10, 0x30}, {0x20, 0x10}},
		{{0x10, 0}, {0x1f, 0}, {0x20, 1}, {0x2f, 1}, {0x30, 0}, {0x3f, 0}}},
	{"over several", {{0x10, 0x10}, {0x20, 0x10}, {0x30, 0x10}, {0x18, 0x20}},
		{{0x17, 0}, {0x18, 3}, {0x20, 3}, {0x37, 3}, {0x38, 2}, {0x3f, 2}, {0x40, NONE}}},
	{"over all of them", {{0x10, 1}, {0x20, 1}, {0x30, 1}, {0, 0x100}},
		{{0, 3}, {0x10, 3}, {0x30, 3}, {0x100, NONE}}},
	{"of no size", {{0x10, 0}}, {{0x10, NONE}, {0xf, NONE}, {UINT64_MAX, NONE}}},
	{"over the end of the address space", {{UINT64_MAX - 1, 0x10}},
		{{UINT64_MAX, 0}, {UINT64_MAX - 2, NONE}, {0, NONE}}},
	{"the last byte", {{UINT64_MAX, 1}, {UINT64_MAX - 4, 5}, {UINT64_MAX - 2, 1}},
		{{UINT64_MAX, 1}, {UINT64_MAX - 2, 2}, {UINT64_MAX - 5, NONE}}},
	{"the last byte but one", {{UINT64_MAX - 4, 4}},
		{{UINT64_MAX - 5, NONE}, {UINT64_MAX - 1, 0}, {UINT64_MAX, NONE}}},
	{"everything", {{0, UINT64_MAX}}, {{0, 0}, {0xfffffffe, 0}, {0xffffffff, NONE}}},
};

START_TEST(what_covers_what)
{
	struct interval_map t = {0};
	for (uint32_t i = 0; i < COUNT(rows[_i].add); i++)
		if (rows[_i].add[i].start || rows[_i].add[i].size)
			ck_assert_int_eq(
				interval_map_add(&t, rows[_i].add[i].start, rows[_i].add[i].size, i, NO_LIMIT), 0);
	for (size_t i = 0; i < COUNT(rows[_i].expect); i++) {
		uint64_t address = rows[_i].expect[i].address;
		if (i && !address)
			break;
		ck_assert_msg(at(&t, address) == rows[_i].expect[i].value, "%s: 0x%llx is %u", rows[_i].name,
			(unsigned long long)address, at(&t, address));
	}
	interval_map_done(&t);
}
END_TEST

static uint64_t state;

static uint32_t noise(uint32_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33) % below;
}

START_TEST(as_a_plain_array_says)
{
	enum { SPACE = 2000, MANY = 3000 };
	static uint32_t plain[SPACE];
	struct interval_map t = {0};
	state = (uint64_t)_i;
	memset(plain, 0xff, sizeof(plain));
	for (uint32_t n = 0; n < MANY; n++) {
		uint32_t start = noise(SPACE), size = noise(_i % 2 ? 10 : SPACE / 2) + 1;
		if (size > SPACE - start)
			size = SPACE - start;
		ck_assert_int_eq(interval_map_add(&t, start, size, n, NO_LIMIT), 0);
		for (uint32_t a = start; a < start + size; a++)
			plain[a] = n;
		for (uint32_t a = 0; n % 97 == 0 && a < SPACE; a++)
			ck_assert_uint_eq(at(&t, a), plain[a]);
		ck_assert_uint_lt(t.count, 2 * (n + 1));
		for (unsigned i = 1; i < t.n_runs; i++)
			ck_assert_uint_gt(t.runs[i - 1].weight, t.runs[i].weight);
	}
	for (uint32_t a = 0; a < SPACE; a++)
		ck_assert_uint_eq(at(&t, a), plain[a]);
	interval_map_done(&t);
}
END_TEST

START_TEST(within_a_limit)
{
	struct interval_map t = {0};
	const size_t limit = 100000;
	uint32_t n = 0;
	int r;
	while ((r = interval_map_add(&t, 16 * n, 16, n, limit)) == 0) {
		n++;
		ck_assert_uint_le(interval_map_memory(&t), limit);
	}
	ck_assert_int_eq(r, -ENOSPC);
	ck_assert_uint_gt(n, limit / 48);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(at(&t, 16 * i + 15), i);
	ck_assert_uint_eq(at(&t, 16 * n), NONE);
	ck_assert_int_eq(interval_map_add(&t, 0, 1, 0, 0), -ENOSPC);
	ck_assert_uint_eq(at(&t, 16 * n), NONE);
	interval_map_done(&t);
	ck_assert_uint_eq(interval_map_memory(&t), 0);
}
END_TEST

/* The merge of 2048 and 2048 needs more room than is kept, that of 1024 and 1024 does not. */
START_TEST(a_large_merge_gives_its_memory_back)
{
	struct interval_map t = {0};
	uint32_t n = 0;
	for (; n < 2048; n++)
		ck_assert_int_eq(interval_map_add(&t, 16 * n, 16, n, NO_LIMIT), 0);
	ck_assert(t.n_runs == 1 && t.scratch && t.scratch_room >= 2048);
	ck_assert_uint_eq(interval_map_memory(&t), (t.room + t.scratch_room) * sizeof(struct interval));
	for (; n < 4096; n++)
		ck_assert_int_eq(interval_map_add(&t, 16 * n, 16, n, NO_LIMIT), 0);
	ck_assert(t.n_runs == 1 && !t.scratch);
	ck_assert_uint_eq(interval_map_memory(&t), t.room * sizeof(struct interval));
	for (; n < 4100; n++) /* the next merges take memory anew */
		ck_assert_int_eq(interval_map_add(&t, 16 * n, 16, n, NO_LIMIT), 0);
	ck_assert(t.n_runs == 2 && t.scratch && t.scratch_room < 2048);
	for (uint32_t i = 0; i < n; i++)
		ck_assert_uint_eq(at(&t, 16 * i), i);
	interval_map_done(&t);
}
END_TEST

/* Each one a part of the one before; each one around the one before; all of them alike; in order; across it. */
START_TEST(many_in_bounded_time)
{
	enum { MANY = MANY_OF(250000) };
	struct interval_map t = {0};
	int64_t begin = clock_cpu();
	for (uint32_t n = 0; n < MANY; n++) {
		const uint64_t shapes[][2] = {{n, 2 * (MANY - n)}, {MANY - n, 2 * n + 1}, {7, 7}, {16 * n, 16},
			{(n * 2654435761u) % MANY * 16, 40}};
		ck_assert_int_eq(interval_map_add(&t, shapes[_i][0], shapes[_i][1], n, NO_LIMIT), 0);
	}
	for (uint32_t n = 0; n < MANY; n++)
		at(&t, n * 16);
	ck_assert_int_lt(clock_cpu() - begin, 20 * NSEC_PER_SEC);
	ck_assert_uint_lt(t.count, 2 * MANY);
	interval_map_done(&t);
}
END_TEST

UNIT_SUITE(interval_map)
{
	Suite *s = suite_create("interval_map");
	TCase *t = tcase_create("interval_map");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, what_covers_what, 0, COUNT(rows));
	tcase_add_loop_test(t, as_a_plain_array_says, 0, 6);
	tcase_add_test(t, within_a_limit);
	tcase_add_test(t, a_large_merge_gives_its_memory_back);
	tcase_add_loop_test(t, many_in_bounded_time, 0, 5);
	suite_add_tcase(s, t);
	return s;
}

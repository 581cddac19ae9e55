/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/value_unit.h"

#include "tests/unit/support/suite.h"

#include <check.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	enum unit_family family;
	int64_t factor;
} rows[] = {
	{"nanoseconds", UNIT_TIME, 1},
	{"nanosecond", UNIT_TIME, 1},
	{"ns", UNIT_TIME, 1},
	{"microseconds", UNIT_TIME, 1000},
	{"us", UNIT_TIME, 1000},
	{"\xce\xbcs", UNIT_TIME, 1000},
	{"\xc2\xb5s", UNIT_TIME, 1000},
	{"milliseconds", UNIT_TIME, 1000000},
	{"Millisecond", UNIT_TIME, 1000000},
	{"MS", UNIT_TIME, 1000000},
	{"seconds", UNIT_TIME, 1000000000},
	{"secs", UNIT_TIME, 1000000000},
	{"s", UNIT_TIME, 1000000000},
	{"minutes", UNIT_TIME, 60000000000},
	{"mins", UNIT_TIME, 60000000000},
	{"hours", UNIT_TIME, 3600000000000},
	{"HRS", UNIT_TIME, 3600000000000},
	{"bytes", UNIT_MEMORY, 1},
	{"b", UNIT_MEMORY, 1},
	{"kilobytes", UNIT_MEMORY, 1 << 10},
	{"kB", UNIT_MEMORY, 1 << 10},
	{"kbytes", UNIT_MEMORY, 1 << 10},
	{"megabyte", UNIT_MEMORY, 1 << 20},
	{"MBs", UNIT_MEMORY, 1 << 20},
	{"gigabytes", UNIT_MEMORY, 1 << 30},
	{"terabytes", UNIT_MEMORY, 1ll << 40},
	{"petabytes", UNIT_MEMORY, 1ll << 50},
	{"", UNIT_OTHER, 1},
	{"count", UNIT_OTHER, 1},
	{"byte seconds", UNIT_OTHER, 1},
	{"bs", UNIT_OTHER, 1}, /* of two letters none is taken for the plural's, as in Go */
	{"secondss", UNIT_OTHER, 1},
	{"nanosecondsnanoseconds", UNIT_OTHER, 1},
};

START_TEST(test_names)
{
	const struct value_unit u = value_unit_find(rows[_i].name);
	ck_assert_msg(u.family == rows[_i].family && u.factor == rows[_i].factor, "%s: %d %lld", rows[_i].name,
		(int)u.family, (long long)u.factor);
}
END_TEST

UNIT_SUITE(value_unit)
{
	Suite *s = suite_create("value_unit");
	TCase *t = tcase_create("value_unit");
	tcase_add_loop_test(t, test_names, 0, N(rows));
	suite_add_tcase(s, t);
	return s;
}

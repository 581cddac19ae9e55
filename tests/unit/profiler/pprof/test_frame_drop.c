/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/frame_drop.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *drop, *keep, *name;
	int expect;
} rows[] = {
	{"malloc", "", "malloc", 1},
	{"malloc", "", "malloc_consolidate", 0},
	{"malloc", "", "xmalloc", 0},
	{"malloc|operator new", "", "operator new(unsigned long)", 1},
	{"runtime\\..*", "", "runtime.mallocgc", 1},
	{"runtime\\..*", "runtime\\.main", "runtime.main", 0},
	{"runtime\\..*", "runtime\\.mai", "runtime.main", 1}, /* the whole name has to fit */
	{".*", ".*", "f", 0},
	{".*", "", "", 0}, /* no name fits nothing */
	{"f", "", "f(int)", 1},
	{"f\\(int\\)", "", "f(int)", 0},
	{"\\(anonymous namespace\\)::g", "", "(anonymous namespace)::g(int)", 1},
	{"A::operator\\(\\)", "", "A::operator()(int) const", 1},
	{"dotted", "", ".dotted", 1},
	{"\\.dotted", "", ".dotted", 0},
	{"dotted", "", "..dotted", 0},
	{"a)|(b", "", "ax", 1}, /* ^(a)|(b)$ */
	{"a)|(b", "", "xa", 0},
};

START_TEST(test_hides)
{
	struct frame_drop f;
	ck_assert_int_eq(frame_drop_open(&f, rows[_i].drop, rows[_i].keep), 0);
	ck_assert_msg(frame_drop_hides(&f, rows[_i].name) == rows[_i].expect, "%s %s: %s", rows[_i].drop, rows[_i].keep,
		rows[_i].name);
	frame_drop_done(&f);
	ck_assert_int_eq(frame_drop_hides(&f, rows[_i].name), 0);
}
END_TEST

START_TEST(test_refused)
{
	struct frame_drop f;
	ck_assert_int_eq(frame_drop_open(&f, "(", ""), -EINVAL);
	ck_assert_int_eq(frame_drop_open(&f, "f", "["), -EINVAL);
	ck_assert_int_eq(frame_drop_hides(&f, "f"), 0);
	ck_assert_int_eq(frame_drop_open(&f, "(a{100}){100}", ""), -E2BIG);
}
END_TEST

START_TEST(test_steps_end)
{
	struct frame_drop f;
	static char name[60001];
	memset(name, 'a', sizeof(name) - 1);
	ck_assert_int_eq(frame_drop_open(&f, "(a?){1000}b", ""), 0);
	f.steps = 1000000;
	ck_assert_int_eq(frame_drop_hides(&f, name), -EFBIG);
	ck_assert_int_eq(frame_drop_hides(&f, "b"), -EFBIG);
	frame_drop_done(&f);
}
END_TEST

UNIT_SUITE(frame_drop)
{
	Suite *s = suite_create("frame_drop");
	TCase *t = tcase_create("frame_drop");
	tcase_add_loop_test(t, test_hides, 0, N(rows));
	tcase_add_test(t, test_refused);
	tcase_add_test(t, test_steps_end);
	suite_add_tcase(s, t);
	return s;
}

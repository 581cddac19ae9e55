/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/attach_strategy.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

static const struct {
	const char *scenario;
	enum attach asked;
	bool running, app;
	struct attach_method rows[6]; /* in this order, and then none */
} cases[] = {
	{"anything: the cgroup first, kernel frames before doing without", ATTACH_AUTO, false, false,
		{{STRATEGY_CGROUP, true, "cgroup"}, {STRATEGY_CGROUP, false, "cgroup, user code only"},
			{STRATEGY_PROCESS, true, "process"}, {STRATEGY_PROCESS, false, "process, user code only"}}},
	{"the cgroup and nothing else", ATTACH_CGROUP, false, false,
		{{STRATEGY_CGROUP, true, "cgroup"}, {STRATEGY_CGROUP, false, "cgroup, user code only"}}},
	{"the process and nothing else", ATTACH_PROCESS, false, false,
		{{STRATEGY_PROCESS, true, "process"}, {STRATEGY_PROCESS, false, "process, user code only"}}},
	{"a process with a socket for libpillion: timers last", ATTACH_PROCESS, false, true,
		{{STRATEGY_PROCESS, true, "process"}, {STRATEGY_PROCESS, false, "process, user code only"},
			{STRATEGY_TIMERS, false, "timers"}}},
	{"the cgroup and nothing else, socket or not", ATTACH_CGROUP, false, true,
		{{STRATEGY_CGROUP, true, "cgroup"}, {STRATEGY_CGROUP, false, "cgroup, user code only"}}},
	{"anything that runs: threads in the place of the process", ATTACH_AUTO, true, false,
		{{STRATEGY_CGROUP, true, "cgroup"}, {STRATEGY_CGROUP, false, "cgroup, user code only"},
			{STRATEGY_THREADS, true, "threads"}, {STRATEGY_THREADS, false, "threads, user code only"}}},
	{"the cgroup of what runs", ATTACH_CGROUP, true, false,
		{{STRATEGY_CGROUP, true, "cgroup"}, {STRATEGY_CGROUP, false, "cgroup, user code only"}}},
	{"the process that runs", ATTACH_PROCESS, true, false,
		{{STRATEGY_THREADS, true, "threads"}, {STRATEGY_THREADS, false, "threads, user code only"}}},
	{"the process that runs, with a socket for libpillion: timers last", ATTACH_PROCESS, true, true,
		{{STRATEGY_THREADS, true, "threads"}, {STRATEGY_THREADS, false, "threads, user code only"},
			{STRATEGY_TIMERS, false, "timers"}}},
};

START_TEST(the_attempts_in_their_order)
{
	size_t i = 0;
	for (; cases[_i].rows[i].name; i++) {
		const struct attach_method *want = &cases[_i].rows[i],
					   *a = strategy_attempt(cases[_i].asked, cases[_i].running, cases[_i].app, i);
		ck_assert_msg(
			a && a->strategy == want->strategy && a->kernel == want->kernel && !strcmp(a->name, want->name),
			"%s: row %zu", cases[_i].scenario, i);
	}
	for (size_t beyond = i; beyond < i + 3; beyond++)
		ck_assert_msg(!strategy_attempt(cases[_i].asked, cases[_i].running, cases[_i].app, beyond),
			"%s: the end", cases[_i].scenario);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(each_has_a_name)
{
	ck_assert_str_eq(strategy_name(STRATEGY_CGROUP), "cgroup");
	ck_assert_str_eq(strategy_name(STRATEGY_THREADS), "threads");
	ck_assert_str_eq(strategy_name(STRATEGY_TIMERS), "timers");
}
END_TEST

UNIT_SUITE(attach_strategy)
{
	Suite *s = suite_create("attach_strategy");
	TCase *t = tcase_create("attach_strategy");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, the_attempts_in_their_order, 0, LENGTH(cases));
	tcase_add_test(t, each_has_a_name);
	suite_add_tcase(s, t);
	return s;
}

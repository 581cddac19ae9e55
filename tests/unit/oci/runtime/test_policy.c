/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/policy.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *scenario, *patterns, *text;
	bool lets;
} rows[] = {
	{"no list lets everybody", "", "x", true},
	{"a name", "a,b", "b", true},
	{"spaces", "a, b", "b", true},
	{"not among them", "a,b", "c", false},
	{"the beginning of a name", "abc", "ab", false},
	{"a star", "prod-*", "prod-eu", true},
	{"a star is also nothing", "prod*", "prod", true},
	{"another beginning", "prod-*", "dev-prod-eu", false},
	{"a star alone lets the nameless", "*", "", true},
	{"the nameless among names", "a", "", false},
	{"a slash is any text", "tracepoint:*", "tracepoint:a/b", true},
	{"no pattern between commas", ",,a", "", false},
};

START_TEST(lets)
{
	ck_assert_msg(policy_lets(rows[_i].patterns, rows[_i].text) == rows[_i].lets, "%s", rows[_i].scenario);
}
END_TEST

START_TEST(long_patterns_let_nobody)
{
	char patterns[600];
	memset(patterns, 'a', sizeof(patterns) - 1);
	patterns[sizeof(patterns) - 1] = 0;
	ck_assert(!policy_lets(patterns, "a"));
}
END_TEST

START_TEST(users_by_number)
{
	static struct options o;
	static struct container c;
	struct err e = {0};
	options_default(&o);
	container_init(&c);
	snprintf(o.settings.policy.allow_users, sizeof(o.settings.policy.allow_users), "%u", (unsigned)geteuid());
	ck_assert_int_eq(policy_permits(&o.settings, &c, &e), 0);
	snprintf(o.settings.policy.allow_users, sizeof(o.settings.policy.allow_users), "nobody-of-this-name");
	ck_assert_int_lt(policy_permits(&o.settings, &c, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, "policy.conf: users"));
}
END_TEST

UNIT_SUITE(policy)
{
	Suite *s = suite_create("policy");
	TCase *t = tcase_create("policy");
	tcase_add_loop_test(t, lets, 0, N(rows));
	tcase_add_test(t, long_patterns_let_nobody);
	tcase_add_test(t, users_by_number);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/frame_regex.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define MANY (1u << 30)

static bool matches(const char *pattern, const char *text, uint64_t steps)
{
	struct frame_regex *x = NULL;
	const int r = frame_regex_compile(pattern, &x);
	ck_assert_msg(r == 0, "%s: %d", pattern, r);
	const bool is = frame_regex_matches(x, text, &steps);
	ck_assert_msg(frame_regex_matches(x, text, &steps) == is, "%s: the second time differs", pattern);
	frame_regex_free(x);
	return is;
}

/* Go's regexp.MatchString returns the same for each. */
static const struct {
	const char *pattern, *yes[3], *no[3];
} rows[] = {
	{"malloc", {"malloc", "xmallocx"}, {"mallo", "", "MALLOC"}},
	{"^malloc$", {"malloc"}, {"xmalloc", "mallocx"}},
	{"a|bc|", {"a", "bc", ""}, {NULL}},
	{"^(a|bc|def)$", {"a", "bc", "def"}, {"ab", "abc", "de"}},
	{"^ab*c$", {"ac", "abc", "abbbbc"}, {"abb", "aac"}},
	{"^ab+?c$", {"abc", "abbc"}, {"ac"}},
	{"^ab?c$", {"ac", "abc"}, {"abbc"}},
	{"^(ab){2}$", {"abab"}, {"ab", "ababab"}},
	{"^(ab){2,}$", {"abab", "ababab"}, {"ab", ""}},
	{"^a{0,2}$", {"", "a", "aa"}, {"aaa"}},
	{"^a{1,3}b$", {"ab", "aaab"}, {"b", "aaaab"}},
	{"^a{0}b$", {"b"}, {"ab"}},
	{"^a{,2}$", {"a{,2}"}, {"aa"}},
	{"^x{y$", {"x{y"}, {"xy"}},
	{"^(a*)*$", {"", "aaaa"}, {"b"}},
	{"^(|a)+$", {"", "aaaa"}, {"b"}},
	{"^.$", {"a", "\xc3\xb6", "\xff"}, {"", "ab", "\n"}},
	{"^(?s).$", {"\n"}, {"ab"}},
	{"^[a-c_]+$", {"abc_"}, {"d", ""}},
	{"^[^a-c]$", {"d", "\n", "\xe2\x82\xac"}, {"a"}},
	{"^[]a]+$", {"]a"}, {"b"}},
	{"^[a-]+$", {"a-"}, {"b"}},
	{"^[-a]+$", {"a-"}, {"b"}},
	{"^[a-c-e]$", {"-", "e", "b"}, {"d"}},
	{"^[\xc3\xa0-\xc3\xbc]$", {"\xc3\xb6"}, {"o", "\xc3\xbf"}},
	{"^[[:alpha:]_]+$", {"ab_"}, {"a1"}},
	{"^[[:^digit:]]$", {"a"}, {"1"}},
	{"^[\\d.]+$", {"1.5"}, {"a"}},
	{"^[\\W]$", {"-", "\xc3\xb6"}, {"a", "_", "1"}},
	{"^\\w+\\s\\S\\D\\d$", {"ab :x1"}, {"ab :11"}},
	{"^\\x41\\x{42}\\103\\.\\t$", {"ABC.\t"}, {"ABCx\t"}},
	{"\\bnew\\b", {"operator new", "new"}, {"renew", "news"}},
	{"\\Bnew", {"renew"}, {"new"}},
	{"\\Aa\\z", {"a"}, {"ab"}},
	{"^\\Qa+b|\\E+$", {"a+b|", "a+b||"}, {"aab"}},
	{"(?i)^mal[L-O]oc$", {"malloc", "MALLOC"}, {"malpoc"}},
	{"^(?i:m)x(?i)y$", {"MxY", "mxy"}, {"mXy"}},
	{"^(a(?i)b)c$", {"aBc"}, {"aBC"}},
	{"^(?P<name>a)(?:b)$", {"ab"}, {"a"}},
	{"^(?i-i)a$", {"a"}, {"A"}},
};

START_TEST(test_matches)
{
	for (size_t i = 0; i < 3; i++) {
		const char *yes = rows[_i].yes[i], *no = rows[_i].no[i];
		ck_assert_msg(!yes || matches(rows[_i].pattern, yes, MANY), "%s: not '%s'", rows[_i].pattern, yes);
		ck_assert_msg(!no || !matches(rows[_i].pattern, no, MANY), "%s: '%s'", rows[_i].pattern, no);
	}
}
END_TEST

static const struct {
	const char *pattern;
	int expect;
} refused[] = {
	{"(", -EINVAL},
	{")", -EINVAL},
	{"a)|(b", -EINVAL},
	{"(a", -EINVAL},
	{"[", -EINVAL},
	{"[a", -EINVAL},
	{"[]", -EINVAL},
	{"[b-a]", -EINVAL},
	{"[a-\\d]", -EINVAL},
	{"[[:none:]]", -EINVAL},
	{"*a", -EINVAL},
	{"a|+", -EINVAL},
	{"{2}", -EINVAL},
	{"a**", -EINVAL},
	{"a{2}{3}", -EINVAL},
	{"a{3,2}", -EINVAL},
	{"a{1001}", -EINVAL},
	{"\\", -EINVAL},
	{"\\8", -EINVAL},
	{"\\1", -EINVAL},
	{"\\E", -EINVAL},
	{"\\pL", -EINVAL},
	{"\\x{110000}", -EINVAL},
	{"\\x{41", -EINVAL},
	{"(?", -EINVAL},
	{"(?x)", -EINVAL},
	{"(?-)", -EINVAL},
	{"(?P<>a)", -EINVAL},
	{"(?P<a", -EINVAL},
	{"(?=a)", -EINVAL},
	{"\xff", -EINVAL},
	{"a{1000}{", 0},
	{"(a{100}){100}", -E2BIG},
	{"((((((){1000}){1000}){1000}){1000}){1000}){1000}", -E2BIG},
	{"((((((a?){1000}){1000}){1000}){1000}){1000}){1000}", -E2BIG},
};

START_TEST(test_refused)
{
	struct frame_regex *x = NULL;
	const int r = frame_regex_compile(refused[_i].pattern, &x);
	ck_assert_msg(r == refused[_i].expect, "%s: %d", refused[_i].pattern, r);
	ck_assert(!x == (r < 0));
	frame_regex_free(x);
}
END_TEST

static void repeated(const char *part, size_t n, const char *behind, int expect)
{
	struct frame_regex *x = NULL;
	char *pattern = calloc(n + 1, strlen(part) + strlen(behind));
	for (size_t i = 0; i < n; i++)
		memcpy(pattern + i * strlen(part), part, strlen(part));
	strcat(pattern, behind);
	const int r = frame_regex_compile(pattern, &x);
	ck_assert_msg(r == expect, "%s...: %d", part, r);
	frame_regex_free(x);
	free(pattern);
}

START_TEST(test_large_patterns)
{
	repeated("(", 60000, "", -E2BIG);
	repeated("a", 60000, "", -E2BIG);
	repeated("a|", 20000, "", -E2BIG);
	repeated("a|", 1000, "", 0);
	repeated("(a|", 1000, "", -E2BIG);
	repeated("[[:punct:]]", 5000, "", -E2BIG);
}
END_TEST

/* A matcher that goes back would need 2^30 steps and more for these. */
START_TEST(test_time_is_a_product)
{
	static char text[1001];
	memset(text, 'a', sizeof(text) - 1);
	ck_assert(!matches("^(a*)*b$", text, 100000));
	ck_assert(!matches("^(a|a|aa)*b$", text, 100000));
	ck_assert(!matches("^(a?){500}(a){500}b$", text, 20000000));
}
END_TEST

START_TEST(test_steps_end)
{
	struct frame_regex *x = NULL;
	static char text[1001];
	uint64_t steps = 500;
	memset(text, 'a', sizeof(text) - 1);
	ck_assert_int_eq(frame_regex_compile("^[ab]*$", &x), 0);
	ck_assert(!frame_regex_matches(x, text, &steps));
	ck_assert_uint_eq(steps, 0);
	ck_assert(!frame_regex_matches(x, "", &steps));
	steps = 100000;
	ck_assert(frame_regex_matches(x, text, &steps));
	ck_assert(steps > 0);
	ck_assert_ptr_null(frame_regex_free(x));
	ck_assert_ptr_null(frame_regex_free(NULL));
}
END_TEST

UNIT_SUITE(frame_regex)
{
	Suite *s = suite_create("frame_regex");
	TCase *t = tcase_create("frame_regex");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_matches, 0, N(rows));
	tcase_add_loop_test(t, test_refused, 0, N(refused));
	tcase_add_test(t, test_large_patterns);
	tcase_add_test(t, test_time_is_a_product);
	tcase_add_test(t, test_steps_end);
	suite_add_tcase(s, t);
	return s;
}

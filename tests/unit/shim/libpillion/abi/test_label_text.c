/* SPDX-License-Identifier: Apache-2.0 */
/* label_text: sets of labels as text; what is none is refused, whoever wrote it. */
#include "shim/libpillion/abi/label_text.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_KEY "k23456789012345678901234567890123456789012345678901234567890123"
#define EIGHT "a=1\nb=1\nc=1\nd=1\ne=1\nf=1\ng=1\nh=1\n"

static const struct {
	const char *scenario, *had, *key, *value;
	long error;
	const char *wanted;
} changes[] = {
	{"the first", "", "kind", "read", 0, "kind=read\n"},
	{"another value", "kind=read\n", "kind", "write", 0, "kind=write\n"},
	{"in their order", "b=1\nd=2\n", "c", "x", 0, "b=1\nc=x\nd=2\n"},
	{"before all", "b=1\n", "a", "x", 0, "a=x\nb=1\n"},
	{"behind all", "b=1\n", "c", "x", 0, "b=1\nc=x\n"},
	{"a longer key is behind a shorter one", "ab=1\n", "a", "x", 0, "a=x\nab=1\n"},
	{"none any more", "kind=read\n", "kind", NULL, 0, ""},
	{"one less", "a=1\nb=2\nc=3\n", "b", NULL, 0, "a=1\nc=3\n"},
	{"one that there is not", "a=1\n", "b", NULL, 0, "a=1\n"},
	{"a value with a sign of equality in it", "", "q", "a=b", 0, "q=a=b\n"},
	{"an empty value", "", "q", "", 0, "q=\n"},
	{"UTF-8 of two, three and four bytes", "", "q", "\xc3\xbc\xe2\x82\xac\xf0\x9f\x8e\x88", 0,
		"q=\xc3\xbc\xe2\x82\xac\xf0\x9f\x8e\x88\n"},
	{"the longest key", "", LONG_KEY, "1", 0, LONG_KEY "=1\n"},
	{"the eighth", "a=1\nb=1\nc=1\nd=1\ne=1\nf=1\ng=1\n", "h", "1", 0, EIGHT},
	{"one of eight", EIGHT, "d", "2", 0, "a=1\nb=1\nc=1\nd=2\ne=1\nf=1\ng=1\nh=1\n"},
	{"the ninth", EIGHT, "i", "1", -E2BIG, NULL},
	{"the ninth, before all", EIGHT, "A", "1", -E2BIG, NULL},
	{"no key", "", NULL, "1", -EINVAL, NULL},
	{"an empty key", "", "", "1", -EINVAL, NULL},
	{"a key that is too long", "", LONG_KEY "x", "1", -EINVAL, NULL},
	{"a key that begins with a digit", "", "1a", "1", -EINVAL, NULL},
	{"a key with a space", "", "a b", "1", -EINVAL, NULL},
	{"a key that is none, to be taken away", "", "a b", NULL, -EINVAL, NULL},
	{"a line in a value", "", "a", "1\nb=2", -EINVAL, NULL},
	{"a control character", "", "a", "\x1b[1m", -EINVAL, NULL},
	{"one of Latin-1's", "", "a", "\xc2\x9b", -EINVAL, NULL},
	{"DEL", "", "a", "\x7f", -EINVAL, NULL},
	{"no UTF-8", "", "a", "\xfc", -EINVAL, NULL},
	{"half a character", "", "a", "\xc3", -EINVAL, NULL},
	{"a character the long way", "", "a", "\xc0\xaf", -EINVAL, NULL},
	{"three bytes where two would do", "", "a", "\xe0\x82\xa0", -EINVAL, NULL},
	{"a surrogate", "", "a", "\xed\xa0\x80", -EINVAL, NULL},
	{"beyond the last character", "", "a", "\xf4\x90\x80\x80", -EINVAL, NULL},
};

START_TEST(a_change)
{
	char text[LABEL_TEXT_MAX];
	const long n = label_change(changes[_i].had, strlen(changes[_i].had), changes[_i].key, changes[_i].value, text);
	ck_assert_msg(n == (changes[_i].wanted ? (long)strlen(changes[_i].wanted) : changes[_i].error), "%s: %ld",
		changes[_i].scenario, n);
	ck_assert_msg(
		n < 0 || !memcmp(text, changes[_i].wanted, (size_t)n), "%s: %.*s", changes[_i].scenario, (int)n, text);
	ck_assert_msg(n < 0 || label_is_set(text, (size_t)n), "%s", changes[_i].scenario);
}
END_TEST

START_TEST(the_longest_value)
{
	char value[LABEL_VALUE_MAX + 2], text[LABEL_TEXT_MAX];
	memset(value, 'x', sizeof(value));
	value[LABEL_VALUE_MAX + 1] = 0;
	ck_assert_int_eq(label_change("", 0, "a", value, text), -EINVAL);
	value[LABEL_VALUE_MAX] = 0;
	ck_assert_int_eq(label_change("", 0, "a", value, text), LABEL_VALUE_MAX + 3);
}
END_TEST

START_TEST(eight_of_the_longest_fit)
{
	char key[LABEL_KEY_MAX + 1] = LONG_KEY, value[LABEL_VALUE_MAX + 1], text[LABEL_TEXT_MAX], had[LABEL_TEXT_MAX];
	long n = 0;
	memset(value, 'x', sizeof(value));
	value[LABEL_VALUE_MAX] = 0;
	for (char c = 'a'; c < 'a' + LABEL_COUNT_MAX; c++) {
		key[0] = c;
		memcpy(had, text, sizeof(had));
		n = label_change(had, (size_t)n, key, value, text);
		ck_assert_int_gt(n, 0);
	}
	ck_assert_int_eq(n, LABEL_TEXT_MAX);
	ck_assert(label_is_set(text, LABEL_TEXT_MAX));
}
END_TEST

static const char *const none[] = {"a", "a=1", "=1\n", "a=1\n\n", "a=1\nb", "1=a\n", "a=\x01\n", EIGHT "i=1\n"};

START_TEST(no_set)
{
	ck_assert_msg(!label_is_set(none[_i], strlen(none[_i])), "%s", none[_i]);
}
END_TEST

UNIT_SUITE(label_text)
{
	Suite *s = suite_create("label_text");
	TCase *c = tcase_create("label_text");
	tcase_add_loop_test(c, a_change, 0, sizeof(changes) / sizeof(changes[0]));
	tcase_add_test(c, the_longest_value);
	tcase_add_test(c, eight_of_the_longest_fit);
	tcase_add_loop_test(c, no_set, 0, sizeof(none) / sizeof(none[0]));
	suite_add_tcase(s, c);
	return s;
}

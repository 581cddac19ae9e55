/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/utf8.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *scenario, *text, *clean;
} cleans[] = {
	{"nothing", "", ""},
	{"plain", "web-0.shop", "web-0.shop"},
	{"other letters", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
	{"an escape sequence", "\x1b[31mred", "?[31mred"},
	{"newline, tab, delete", "a\nb\tc\x7f", "a?b?c?"},
	{"C1 as UTF-8",
		"\xc2\x9b"
		"31m",
		"?31m"},
	{"what follows C1", "\xc2\xa0", "\xc2\xa0"},
	{"C1 alone",
		"\x9b"
		"31m",
		"?31m"},
	{"a lead byte at the end", "ab\xe2\x82", "ab??"},
	{"a lead byte in front of a letter", "\xc3z", "?z"},
	{"overlong", "\xc0\xaf", "??"},
	{"a surrogate", "\xed\xa0\x80", "???"},
	{"beyond the last", "\xf4\x90\x80\x80", "????"},
};

START_TEST(safe_for_a_terminal_and_json)
{
	char *text = strdup(cleans[_i].text); /* ends where its memory does */
	utf8_clean(text);
	ck_assert_msg(!strcmp(text, cleans[_i].clean), "%s: \"%s\"", cleans[_i].scenario, text);
	utf8_clean(text);
	ck_assert_str_eq(text, cleans[_i].clean);
	free(text);
}
END_TEST

/* Beyond that, what makes a name look like another one. */
static const struct {
	const char *text, *pairs, *printed;
} prints[] = {
	{"caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80", NULL, "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"},
	{"a\xe2\x80\xae"
	 "b\xe2\x80\x8b"
	 "c\xef\xbb\xbf",
		NULL, "a?b?c?"},
	{"\x1b[31m\x7f\xc2\x9b", NULL, "?[31m??"},
	{"\x9b"
	 "31m\xe2\x82",
		NULL, "?31m??"},
	{"a;b\nc\td", ";:\n ", "a:b c?d"},
	{"", NULL, ""},
};

START_TEST(printed_for_a_terminal)
{
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	utf8_print(out, prints[_i].text, prints[_i].pairs);
	fclose(out);
	ck_assert_str_eq(text, prints[_i].printed);
	free(text);
}
END_TEST

UNIT_SUITE(utf8)
{
	Suite *s = suite_create("utf8");
	TCase *t = tcase_create("utf8");

	tcase_add_loop_test(t, safe_for_a_terminal_and_json, 0, LENGTH(cleans));
	tcase_add_loop_test(t, printed_for_a_terminal, 0, LENGTH(prints));
	suite_add_tcase(s, t);
	return s;
}

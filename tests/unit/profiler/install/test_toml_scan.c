/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/toml_scan.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *scenario, *text, *expect; /* NULL: there is none */
} lists[] = {
	{"none", "a = 1\n", NULL},
	{"on one line", "imports = [\"a\", 'b']\n", "a|b|"},
	{"on several, with comments and a comma at the end", "  imports=[ \"a\", # \"x\"\n# \"y\"\n\t\"b\",\n]\n",
		"a|b|"},
	{"the last counts", "imports = [\"a\"]\nimports = [\"b\"]", "b|"},
	{"a comment is none", "# imports = [\"a\"]\n", NULL},
	{"a longer name is another", "imports2 = [\"a\"]\n", NULL},
	{"without an end", "imports = [\"a\", \"b", "a|b|"},
	{"empty", "imports = []", ""},
};

START_TEST(finds_lists)
{
	static struct toml_words words;
	char got[256] = "";
	bool found = toml_scan_list(lists[_i].text, "imports", &words);
	ck_assert_msg(found == (lists[_i].expect != NULL), "%s", lists[_i].scenario);
	for (size_t i = 0; found && i < words.n; i++)
		strcat(strcat(got, words.words[i]), "|");
	if (found)
		ck_assert_str_eq(got, lists[_i].expect);
}
END_TEST

static const struct {
	const char *scenario, *before, *after, *missing;
} texts[] = {
	{"the same", "a = 1\nb = 2\n", "b = 2\n  a = 1\n", NULL},
	{"one more", "a = 1\n", "a = 1\nb = 2\n", NULL},
	{"one less", "a = 1\nb = 2\n", "a = 1\n", "b = 2"},
	{"another value", "a = 1\n", "a = 2\n", "a = 1"},
	{"two of a kind, and one is left", "[x]\na = 1\n[y]\na = 1\n", "[x]\n[y]\na = 1\n", "a = 1"},
	{"what is empty need not be", "a = \"\"\nb = false\nc = 0\nd = []\n\n# e\nimports = [\"x\"]\n", "z = 1\n",
		NULL},
};

START_TEST(compares)
{
	const char *missing;
	size_t len = 0;
	bool all = toml_scan_has_all(texts[_i].before, texts[_i].after, &missing, &len);
	ck_assert_msg(all == !texts[_i].missing, "%s", texts[_i].scenario);
	if (!all)
		ck_assert_msg(len == strlen(texts[_i].missing) && !memcmp(missing, texts[_i].missing, len), "%s",
			texts[_i].scenario);
}
END_TEST

START_TEST(numbers)
{
	ck_assert_int_eq(toml_scan_number("version = 2\n", "version"), 2);
	ck_assert_int_eq(toml_scan_number("# version = 2\n", "version"), -1);
	ck_assert_int_eq(toml_scan_number("version = \"2\"\n", "version"), -1);
}
END_TEST

UNIT_SUITE(toml_scan)
{
	Suite *s = suite_create("toml_scan");
	TCase *t = tcase_create("toml_scan");
	tcase_add_loop_test(t, finds_lists, 0, N(lists));
	tcase_add_loop_test(t, compares, 0, N(texts));
	tcase_add_test(t, numbers);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/columns.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *scenario, *text;
	unsigned width, used;
	const char *shown;
} rows[] = {
	{"it fits", "abcdef", 6, 6, "abcdef"},
	{"one too many", "abcdefg", 6, 6, "abc..."},
	{"no room for dots", "abcdefg", 3, 3, "abc"},
	{"no room at all", "abc", 0, 0, ""},
	{"wide characters fit", "漢字", 4, 4, "漢字"},
	{"half of one does not", "漢字漢字", 6, 5, "漢..."},
	{"a combining one takes no column",
		"e\xcc\x81"
		"abc",
		4, 4,
		"e\xcc\x81"
		"abc"},
	{"an escape sequence", "\033[31m", 9, 5, "?[31m"},
	{"a newline", "a\nb", 9, 3, "a?b"},
	{"C1 as UTF-8",
		"\xc2\x9b"
		"1m",
		9, 3, "?1m"},
	{"writing turned round",
		"\xe2\x80\xae"
		"exe",
		9, 4, "?exe"},
	{"no UTF-8", "\xff\xc3(", 9, 3, "?\?("},
	{"cut short", "\xe6\xbc", 9, 2, "??"},
};

START_TEST(fits_in_columns)
{
	char *text = NULL, *exact = strdup(rows[_i].text); /* ends where its memory does */
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_uint_eq(columns_print(f, exact, rows[_i].width), rows[_i].used);
	fclose(f);
	ck_assert_msg(!strcmp(text, rows[_i].shown), "%s: \"%s\"", rows[_i].scenario, text);
	free(text);
	free(exact);
}
END_TEST

UNIT_SUITE(columns)
{
	Suite *s = suite_create("columns");
	TCase *t = tcase_create("columns");

	tcase_add_loop_test(t, fits_in_columns, 0, LENGTH(rows));
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/maps/code_ranges.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

#define A "55aa00001000-55aa00003000 r-xp 00001000 fe:00 11                         /bin/x\n"
#define B "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 \n"
#define DATA "55aa00003000-55aa00004000 rw-p 00003000 fe:00 11                         /bin/x\n"

static const struct {
	const char *scenario, *text, *kept;
	size_t whole; /* bytes that were lines */
	uint32_t ranges;
} texts[] = {
	{"nothing", "", "", 0, 0},
	{"a line of code", A, A, sizeof(A) - 1, 1},
	{"a line of data", DATA, "", sizeof(DATA) - 1, 0},
	{"code, data and code", A DATA B, A B, sizeof(A DATA B) - 1, 2},
	{"the beginning of a line stays for the next time", A "7f00000", A, sizeof(A) - 1, 1},
	{"no whole line at all", "55aa00001000-55aa00003000 r-xp", "", 0, 0},
	{"an empty line, and one of words", "\nwords r-xp\n" A, A, sizeof("\nwords r-xp\n" A) - 1, 1},
	{"a range that ends before it begins", "2000-1000 r-xp 0\n", "", 17, 0},
	{"a range without an end", "2000- r-xp 0\n", "", 13, 0},
	{"capital letters are not the kernel's", "A000-B000 r-xp 0\n", "", 17, 0},
};

START_TEST(lines_of_code)
{
	static struct code c;
	char text[1024];
	size_t len = strlen(texts[_i].text);
	memset(&c, 0, sizeof(c));
	memcpy(text, texts[_i].text, len);
	size_t whole = code_lines(&c, text, &len);
	ck_assert_msg(whole == texts[_i].whole, "%s: %zu", texts[_i].scenario, whole);
	ck_assert_msg(len == strlen(texts[_i].kept) && !memcmp(text, texts[_i].kept, len), "%s: %.*s",
		texts[_i].scenario, (int)len, text);
	ck_assert_msg(c.n == texts[_i].ranges, "%s: %u ranges", texts[_i].scenario, c.n);
}
END_TEST

START_TEST(addresses)
{
	static struct code c;
	char text[] = A DATA B;
	size_t len = sizeof(text) - 1;
	memset(&c, 0, sizeof(c));
	ck_assert(code_has(&c, 1)); /* nothing is known yet */
	code_lines(&c, text, &len);
	ck_assert(!code_has(&c, 0x55aa00000fff));
	ck_assert(code_has(&c, 0x55aa00001000));
	ck_assert(code_has(&c, 0x55aa00002fff));
	ck_assert(!code_has(&c, 0x55aa00003000));
	ck_assert(code_has(&c, 0x7f0000000fff));
	ck_assert(!code_has(&c, 0x7f0000001000));
	ck_assert(!code_has(&c, UINT64_MAX));
}
END_TEST

START_TEST(more_than_there_is_room_for)
{
	static struct code c;
	static char text[CODE_RANGES * 32 + 64];
	size_t len = 0;
	memset(&c, 0, sizeof(c));
	for (unsigned i = 0; i <= CODE_RANGES; i++)
		len += (size_t)sprintf(text + len, "%x000-%x800 r-xp 0\n", i + 1, i + 1);
	code_lines(&c, text, &len);
	ck_assert_uint_eq(c.n, CODE_RANGES);
	ck_assert(code_has(&c, 0x1900)); /* between two: nobody can tell any more */
}
END_TEST

UNIT_SUITE(code_ranges)
{
	Suite *s = suite_create("code_ranges");
	TCase *t = tcase_create("code_ranges");

	tcase_add_loop_test(t, lines_of_code, 0, LENGTH(texts));
	tcase_add_test(t, addresses);
	tcase_add_test(t, more_than_there_is_room_for);
	suite_add_tcase(s, t);
	return s;
}

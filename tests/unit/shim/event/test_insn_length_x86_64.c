/* SPDX-License-Identifier: Apache-2.0 */
/* Every instruction of this machine's C library has the length that objdump says; what is none, or is cut, has none. */
#include "shim/event/insn_length.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
	const char *name;
	uint8_t bytes[16];
	size_t size;
	int length;
} rows[] = {
	{"nothing", {0}, 0, -ENODATA},
	{"ret", {0xc3}, 1, 1},
	{"push", {0x55}, 1, 1},
	{"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, 4, 4},
	{"mov reg", {0x48, 0x89, 0xe5}, 3, 3},
	{"relative to ip", {0x48, 0x8b, 0x05, 1, 2, 3, 4}, 7, 7},
	{"SIB without a base", {0x8b, 0x04, 0x25, 1, 2, 3, 4}, 7, 7},
	{"SIB and a byte", {0x8b, 0x44, 0x24, 8}, 4, 4},
	{"an immediate of 8", {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, 10, 10},
	{"an immediate of 2", {0x66, 0xb8, 1, 2}, 4, 4},
	{"66 and REX.W", {0x66, 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8}, 11, 11},
	{"test has an immediate", {0xf7, 0xc0, 1, 2, 3, 4}, 6, 6},
	{"not has none", {0xf7, 0xd0}, 2, 2},
	{"moffs", {0xa1, 1, 2, 3, 4, 5, 6, 7, 8}, 9, 9},
	{"enter", {0xc8, 1, 0, 0}, 4, 4},
	{"call", {0xe8, 1, 2, 3, 4}, 5, 5},
	{"call of a TLS sequence", {0x66, 0x66, 0x48, 0xe8, 1, 2, 3, 4}, 8, 8},
	{"jmp of two bytes, or four", {0x66, 0xe9, 1, 2, 3, 4}, 6, -EINVAL},
	{"a REX that is not the last", {0x48, 0x66, 0xb8, 1, 2}, 5, 5},
	{"vzeroupper", {0xc5, 0xf8, 0x77}, 3, 3},
	{"VEX with a byte", {0xc4, 0xe3, 0x7d, 0x18, 0xc1, 1}, 6, 6},
	{"EVEX", {0x62, 0xa1, 0xfd, 0x48, 0x7b, 0xca}, 6, 6},
	{"XOP", {0x8f, 0xe9, 0x78, 0x01, 0xc8}, 5, 5},
	{"pop to memory", {0x8f, 0x00}, 2, 2},
	{"of 32 bits alone", {0x06}, 1, -EINVAL},
	{"no opcode", {0x0f, 0x04}, 2, -EINVAL},
	{"prefixes and no end", {0x66, 0x66, 0x66}, 3, -ENODATA},
	{"too long", {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90},
		16, -EINVAL},
};

START_TEST(lengths)
{
	const int r = insn_length(rows[_i].bytes, rows[_i].size);
	ck_assert_msg(r == rows[_i].length, "%s: %d", rows[_i].name, r);
	for (size_t cut = 0; r > 0 && cut < (size_t)r; cut++)
		ck_assert_msg(insn_length(rows[_i].bytes, cut) == -ENODATA, "%s, cut to %zu", rows[_i].name, cut);
}
END_TEST

/* "  27340:\t48 89 e5             \tmov    %rsp,%rbp" */
static bool parse(char *line, uint8_t bytes[32], size_t *ret_n, const char **ret_text)
{
	char *at = strchr(line, '\t'), *text = at ? strchr(at + 1, '\t') : NULL;
	*ret_n = 0;
	if (!text)
		return false;
	*text = 0;
	*ret_text = text + 1;
	for (at++; *ret_n < 32; at += 2) {
		at += strspn(at, " ");
		if (!*at)
			return true;
		bytes[(*ret_n)++] = (uint8_t)strtoul((char[]){at[0], at[1], 0}, NULL, 16);
	}
	return false;
}

/* To a CPU fwait is an instruction of its own; to objdump it is a part of some others. */
START_TEST(as_objdump_has_them)
{
	static char line[4096];
	uint8_t bytes[32];
	size_t n;
	const char *text;
	unsigned long all = 0;
	FILE *said = popen("objdump -d -w \"$(ldd /bin/sh | sed -n 's/.*libc.so.6 => \\([^ ]*\\).*/\\1/p')\"", "r");
	ck_assert_ptr_nonnull(said);
	while (fgets(line, sizeof(line), said)) {
		if (!parse(line, bytes, &n, &text) || strstr(text, "(bad)"))
			continue;
		const int r = insn_length(bytes, n);
		all++;
		ck_assert_msg(r == (int)n || (bytes[0] == 0x9b && r == 1), "%d instead of %zu: %s", r, n, text);
	}
	ck_assert_int_eq(pclose(said), 0);
	ck_assert_uint_ge(all, 100000);
}
END_TEST

UNIT_SUITE(insn_length_x86_64)
{
	Suite *s = suite_create("insn_length_x86_64");
	TCase *c = tcase_create("insn_length_x86_64");
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, lengths, 0, LENGTH(rows));
	tcase_add_test(c, as_objdump_has_them);
	suite_add_tcase(s, c);
	return s;
}

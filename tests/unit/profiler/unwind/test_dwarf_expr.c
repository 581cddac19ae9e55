/* SPDX-License-Identifier: Apache-2.0 */
/* expression: what each operation yields, and what is refused. */
#include "profiler/unwind/dwarf_expr.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

struct text {
	size_t len;
	const char *bytes;
};
#define TEXT(s)                                                                                                        \
	{                                                                                                              \
		sizeof(s) - 1, s                                                                                       \
	}

static bool read_nothing(void *arg, uint64_t addr, uint64_t *ret)
{
	*ret = addr + 1;
	return addr != 0xbad;
}

START_TEST(expressions)
{
	static const struct {
		struct text expression;
		bool good;
		uint64_t value;
	} kinds[] = {
		{TEXT("\x77\x08"), true, 1008},					    /* rsp + 8 */
		{TEXT("\x77\x78"), true, 992},					    /* rsp - 8 */
		{TEXT("\x77\x08\x06"), true, 1009},				    /* what is there */
		{TEXT("\x77\x08\x80\x01\x3f\x1a\x3b\x2a\x33\x24\x22"), true, 1016}, /* a PLT's: rip & 15 >= 11 */
		{TEXT("\x0a\xad\x0b\x06"), false, 0},				    /* cannot be read */
		{TEXT("\x31\x32\x1c"), true, UINT64_MAX},
		{TEXT("\x09\xff\x34\x26"), true, UINT64_MAX},
		{TEXT("\x31\x08\x40\x24"), true, 0},
		{TEXT("\x31\x12\x22\x23\5"), true, 7},
		{TEXT("\x22"), false, 0},
		{TEXT(""), false, 0},
		{TEXT("\x31\x31\x1b"), false, 0}, /* division */
		{TEXT("\x2f\xfd\xff"), false, 0}, /* a jump */
		{TEXT("\x0e\1"), false, 0},
		{TEXT("\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30\x30"), false, 0},
	};
	uint64_t regs[DWARF_REGS] = {[DWARF_RSP] = 1000, [DWARF_RA] = 0x500b}, value;
	for (size_t i = 0; i < LENGTH(kinds); i++) {
		size_t len = kinds[i].expression.len;
		uint8_t *exact = malloc(len + !len); /* so that a sanitizer sees a byte too many */
		memcpy(exact, kinds[i].expression.bytes, len);
		struct dwarf_expr x = {exact, len};
		bool good = dwarf_expr_eval(x, regs, UINT32_MAX, NULL, read_nothing, NULL, &value);
		ck_assert_msg(good == kinds[i].good && (!good || value == kinds[i].value), "%zu: %d %llu", i, good,
			(unsigned long long)value);
		free(exact);
	}
}
END_TEST

START_TEST(what_is_known)
{
	static const uint8_t deref_first[] = {0x06, 0x23, 2}, breg3[] = {0x73, 0};
	uint64_t regs[DWARF_REGS] = {0}, value, first = 7;
	ck_assert(dwarf_expr_eval((struct dwarf_expr){deref_first, 3}, regs, 0, &first, read_nothing, NULL, &value));
	ck_assert_uint_eq(value, 10);
	ck_assert(!dwarf_expr_eval((struct dwarf_expr){deref_first, 3}, regs, 0, NULL, read_nothing, NULL, &value));
	ck_assert(dwarf_expr_eval((struct dwarf_expr){breg3, 2}, regs, 1u << 3, NULL, read_nothing, NULL, &value));
	ck_assert(!dwarf_expr_eval((struct dwarf_expr){breg3, 2}, regs, ~(1u << 3), NULL, read_nothing, NULL, &value));
}
END_TEST

UNIT_SUITE(dwarf_expr)
{
	Suite *s = suite_create("dwarf_expr");
	TCase *t = tcase_create("dwarf_expr");

	tcase_add_test(t, expressions);
	tcase_add_test(t, what_is_known);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* symbol_arch: the slot of each kind of stub, and code that is none. */
#include "profiler/symbol/symbol_arch.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stddef.h>

static const struct {
	const char *name;
	uint8_t code[ELF_ARCH_STUB];
	uint64_t slot; /* of a stub at 0x1000; 0: it is none */
} rows[] = {
	{"jmp", {0xff, 0x25, 0x10, 0x20}, 0x1000 + 6 + 0x2010},
	{"jmp back", {0xff, 0x25, 0xfa, 0xff, 0xff, 0xff}, 0x1000},
	{"endbr64, jmp", {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 1}, 0x1000 + 10 + 1},
	{"endbr64, bnd jmp", {0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 1}, 0x1000 + 11 + 1},
	{"jmp by a register", {0xff, 0x20, 1}, 0},
	{"the first stub", {0xff, 0x35, 0x10, 0x20}, 0},
	{"nothing", {0}, 0},
};

START_TEST(slots)
{
	uint64_t slot = 0;
	const bool found = symbol_stub_slot(rows[_i].code, 0x1000, &slot);
	ck_assert_msg(found == (rows[_i].slot > 0) && slot == rows[_i].slot, "%s: %#llx", rows[_i].name,
		(unsigned long long)slot);
}
END_TEST

UNIT_SUITE(symbol_arch_x86_64)
{
	Suite *s = suite_create("symbol_arch_x86_64");
	TCase *t = tcase_create("symbol_arch_x86_64");
	tcase_add_loop_test(t, slots, 0, sizeof(rows) / sizeof(rows[0]));
	suite_add_tcase(s, t);
	return s;
}

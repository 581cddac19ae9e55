/* SPDX-License-Identifier: Apache-2.0 */
/* event_arch: the masks are of the registers that the kernel's header has under these names. */
#include "shim/event/event_arch.h"
#include "tests/unit/support/suite.h"

#include <asm/perf_regs.h>
#include <check.h>
#include <stdint.h>

#define BIT(name) (1ull << PERF_REG_X86_##name)
#define BITS(first, last) (2 * BIT(last) - BIT(first))

START_TEST(masks)
{
	ck_assert_uint_eq(PERF_REGS_USER_MASK, BITS(AX, IP) | BITS(R8, R15));
	ck_assert_uint_eq(PERF_REGS_PLACE_MASK, BIT(BP) | BIT(SP) | BIT(IP));
}
END_TEST

UNIT_SUITE(event_arch_x86_64)
{
	Suite *s = suite_create("event_arch_x86_64");
	TCase *t = tcase_create("event_arch_x86_64");
	tcase_add_test(t, masks);
	suite_add_tcase(s, t);
	return s;
}

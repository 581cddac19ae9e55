/* SPDX-License-Identifier: Apache-2.0 */
/* inproc_arch: each register comes to its place, once, and a page fault is an access. */
#include "profiler/inproc/inproc_arch.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <string.h>

START_TEST(registers)
{
	const struct shm_regs r = {.ip = 1, .sp = 2, .bp = 3, .bx = 4, .r12 = 5, .r13 = 6, .r14 = 7, .r15 = 8};
	const struct shm_more_regs more = {
		.ax = 9, .cx = 10, .dx = 11, .si = 12, .di = 13, .r8 = 14, .r9 = 15, .r10 = 16, .r11 = 17};
	static const uint64_t all[UNWIND_REGS] = {9, 4, 10, 11, 12, 13, 3, 2, 1, 14, 15, 16, 17, 5, 6, 7, 8};
	struct unwind_regs got = {{0}};
	inproc_regs_take(&r, NULL, &got);
	for (size_t i = 0; i < UNWIND_REGS; i++)
		ck_assert_uint_eq(got.r[i], all[i] <= 8 ? all[i] : 0);
	inproc_regs_take(&r, &more, &got);
	ck_assert_mem_eq(got.r, all, sizeof(all));
}
END_TEST

START_TEST(names)
{
	uint32_t named = 0;
	for (size_t i = 0; i < UNWIND_REGS; i++) {
		ck_assert_ptr_nonnull(inproc_regs[i].name);
		named |= 1u << inproc_regs[i].reg;
	}
	ck_assert_uint_eq(named, (1u << UNWIND_REGS) - 1);
	ck_assert(!strcmp(inproc_regs[0].name, "rip") && inproc_regs[0].reg == UNWIND_IP);
	ck_assert_str_eq(inproc_flags, "eflags");
}
END_TEST

START_TEST(accesses)
{
	static const struct {
		uint64_t trap, error;
		const char *is;
	} rows[] = {{14, 4, "read of "}, {14, 6, "write to "}, {14, 20, "code at "}, {13, 0, ""}, {0, 2, ""}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_str_eq(
			inproc_access(&(struct shm_crash){.trap = rows[i].trap, .error = rows[i].error}), rows[i].is);
}
END_TEST

UNIT_SUITE(inproc_arch_x86_64)
{
	Suite *s = suite_create("inproc_arch_x86_64");
	TCase *t = tcase_create("inproc_arch_x86_64");
	tcase_add_test(t, registers);
	tcase_add_test(t, names);
	tcase_add_test(t, accesses);
	suite_add_tcase(s, t);
	return s;
}

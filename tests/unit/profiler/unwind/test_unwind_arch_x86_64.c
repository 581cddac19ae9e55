/* SPDX-License-Identifier: Apache-2.0 */
/* unwind_arch: the registers of a signal's frame, of a Go function, of a stub in .plt and behind a call. */
#include "profiler/unwind/cfi_execute.h"
#include "profiler/unwind/unwind.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <ucontext.h>

#define SAME CFI_RULE_SAME
#define AT(name) offsetof(ucontext_t, uc_mcontext.gregs[REG_##name])

START_TEST(a_signals_frame)
{
	ck_assert_uint_eq(UNWIND_SIGNAL_FP, AT(RBP));
	ck_assert_uint_eq(UNWIND_SIGNAL_SP, AT(RSP));
	ck_assert_uint_eq(UNWIND_SIGNAL_IP, AT(RIP));
}
END_TEST

static void check_rule(const struct cfi_rule *r, int64_t cfa, int16_t fp)
{
	const int16_t at[CFI_RULE_SAVED] = {SAME, fp, SAME, SAME, SAME, SAME, -1};
	ck_assert(r->kind == CFI_RULE_FRAME && r->cfa_reg == DWARF_RSP && !r->signal && r->cfa == cfa);
	ck_assert_mem_eq(r->at, at, sizeof(at));
}

START_TEST(go_rules)
{
	struct cfi_rule r = unwind_go_rule(0);
	check_rule(&r, 8, SAME);
	r = unwind_go_rule(24);
	check_rule(&r, 32, -2);
}
END_TEST

static const struct {
	bool lazy, first;
	size_t n;
	uint64_t from[UNWIND_STUB_ROWS];
	int64_t cfa[UNWIND_STUB_ROWS];
} stubs[] = {
	{false, false, 1, {0}, {8}},
	{true, true, 2, {0, 6}, {16, 24}},
	{true, false, 2, {0, 11}, {8, 16}},
};

START_TEST(stub_rows)
{
	struct cfi_row rows[UNWIND_STUB_ROWS];
	ck_assert_uint_eq(unwind_stub_rows(stubs[_i].lazy, stubs[_i].first, rows), stubs[_i].n);
	for (size_t i = 0; i < stubs[_i].n; i++) {
		ck_assert_uint_eq(rows[i].from, stubs[_i].from[i]);
		check_rule(&rows[i].rule, stubs[_i].cfa[i], SAME);
	}
}
END_TEST

START_TEST(a_call_undone)
{
	const uint64_t words[] = {0x401005, 7};
	const uint8_t *stack = (const uint8_t *)words;
	uint64_t size = sizeof(words[0]) - 1;
	struct unwind_regs r = {{[UNWIND_IP] = 1, [UNWIND_SP] = 0x7000, [UNWIND_BP] = 5}};
	ck_assert(!unwind_undo_call(&r, &stack, &size) && r.r[UNWIND_IP] == 1 && r.r[UNWIND_SP] == 0x7000);
	size = sizeof(words);
	ck_assert(unwind_undo_call(&r, &stack, &size));
	ck_assert(r.r[UNWIND_IP] == 0x401004 && r.r[UNWIND_SP] == 0x7008 && r.r[UNWIND_BP] == 5);
	ck_assert(stack == (const uint8_t *)&words[1] && size == sizeof(words[1]));
}
END_TEST

UNIT_SUITE(unwind_arch_x86_64)
{
	Suite *s = suite_create("unwind_arch_x86_64");
	TCase *t = tcase_create("unwind_arch_x86_64");
	tcase_add_test(t, a_signals_frame);
	tcase_add_test(t, go_rules);
	tcase_add_loop_test(t, stub_rows, 0, sizeof(stubs) / sizeof(stubs[0]));
	tcase_add_test(t, a_call_undone);
	suite_add_tcase(s, t);
	return s;
}

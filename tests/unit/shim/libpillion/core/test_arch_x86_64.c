/* SPDX-License-Identifier: Apache-2.0 */
/* arch: registers, words, clocks, and the children that run on another stack or on none. */
#include "shim/libpillion/core/arch.h"

#include "shim/libpillion/core/syscall.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(a_signals_context)
{
	ucontext_t c = {0};
	struct shm_regs r;
	struct shm_more_regs more;
	struct shm_crash crash = {0};
	for (int i = 0; i < NGREG; i++)
		c.uc_mcontext.gregs[i] = 100 + i;
	ucontext_fill(&r, &c);
	ucontext_fill_more(&more, &c);
	ucontext_fill_exception(&crash, &c);
	ck_assert(r.ip == 100 + REG_RIP && r.sp == 100 + REG_RSP && r.bp == 100 + REG_RBP && r.bx == 100 + REG_RBX);
	ck_assert(r.r12 == 100 + REG_R12 && r.r13 == 100 + REG_R13 && r.r14 == 100 + REG_R14 && r.r15 == 100 + REG_R15);
	ck_assert(more.ax == 100 + REG_RAX && more.cx == 100 + REG_RCX && more.dx == 100 + REG_RDX);
	ck_assert(more.si == 100 + REG_RSI && more.di == 100 + REG_RDI && more.r8 == 100 + REG_R8);
	ck_assert(more.r9 == 100 + REG_R9 && more.r10 == 100 + REG_R10 && more.r11 == 100 + REG_R11);
	ck_assert(crash.flags == 100 + REG_EFL && crash.trap == 100 + REG_TRAPNO && crash.error == 100 + REG_ERR);
	ck_assert(ucontext_ip(&c) == r.ip && ucontext_sp(&c) == r.sp);
}
END_TEST

START_TEST(registers_here)
{
	struct shm_regs r;
	ARCH_REGS_HERE(&r);
	const uint64_t frame = (uintptr_t)__builtin_frame_address(0), here = (uintptr_t)registers_here_fn;
	ck_assert(r.ip > here && r.ip - here < 4096);
	ck_assert(r.sp <= (uintptr_t)&r && frame - r.sp < 4096);
}
END_TEST

START_TEST(words_and_clocks)
{
	uint64_t word = UINT32_MAX, ticks = ticks_read();
	ARCH_INCREMENT(word);
	ARCH_ADD(word, 5ull);
	ck_assert_uint_eq(word, (1ull << 32) + 5);
	ck_assert(!ticks_invariant() || ticks_read() > ticks);
	ck_assert_uint_eq(thread_pointer(), (uintptr_t)__builtin_thread_pointer());
	ck_assert_int_eq(sys_call(close, -1), -EBADF);
	ck_assert_int_eq(sys_call(getpid), getpid());
}
END_TEST

static int add_one(void *arg)
{
	return ++*(int *)arg;
}

START_TEST(a_child_on_another_stack)
{
	static uint8_t stack[16384] __attribute__((aligned(64)));
	int n = 6, status;
	const long pid = clone_call(CLONE_VM | CLONE_VFORK | SIGCHLD, add_one, &n, stack + sizeof(stack));
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid((pid_t)pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7 && n == 7);
}
END_TEST

/*
 * Another process is its parent: it ends as soon as its own child has. It gives up its memory, so it must be alone
 * there: after fork(3) ThreadSanitizer starts a thread of its own in the child.
 */
START_TEST(a_keeper)
{
	int status;
	const pid_t pid = (pid_t)sys_call(clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (sys_call(clone, SIGCHLD, 0, 0, 0, 0) == 0)
			_exit(3);
		keeper_wait(-1, -1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

UNIT_SUITE(arch_x86_64)
{
	Suite *s = suite_create("arch_x86_64");
	TCase *t = tcase_create("arch_x86_64");
	tcase_add_test(t, a_signals_context);
	tcase_add_test(t, registers_here);
	tcase_add_test(t, words_and_clocks);
	tcase_add_test(t, a_child_on_another_stack);
	tcase_add_test(t, a_keeper);
	suite_add_tcase(s, t);
	return s;
}

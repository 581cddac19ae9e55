/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/process/oom_score.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int score(void)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	close(fd);
	return atoi(text);
}

/* 0 to 1000, of who is forked now */
static int score_of_child(void)
{
	int ends[2], got = -1, status;
	ck_assert_int_eq(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		got = score();
		_exit(write(ends[1], &got, sizeof(got)) != sizeof(got));
	}
	ck_assert_int_eq(read(ends[0], &got, sizeof(got)), sizeof(got));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	close(ends[0]);
	close(ends[1]);
	return got;
}

START_TEST(children_go_first)
{
	int own = score();
	struct oom_score o = oom_score_open();
	ck_assert_int_eq(o.own, own);
	oom_score_after_fork(&o);
	oom_score_before_fork(&o, 1);
	ck_assert_ptr_null(o.reserve);
	int first = score_of_child();
	oom_score_before_fork(&o, 2);
	int second = score_of_child();
	oom_score_after_fork(&o);
	ck_assert_ptr_nonnull(o.reserve);
	ck_assert_int_eq(first, own + 800 < 1000 ? own + 800 : 1000);
	ck_assert_int_eq(second, own + 900 < 1000 ? own + 900 : 1000);
	ck_assert_int_eq(score(), own);
	ck_assert_int_eq(score_of_child(), own);
	close(o.fd);
}
END_TEST

START_TEST(never_beyond_the_most)
{
	struct oom_score o = oom_score_open();
	o.own = 900;
	oom_score_before_fork(&o, 1);
	ck_assert_int_eq(score(), 1000);
	close(o.fd);
}
END_TEST

START_TEST(without_proc)
{
	struct oom_score o = {.fd = -1};
	int own = score();
	oom_score_before_fork(&o, 1);
	oom_score_after_fork(&o);
	oom_score_before_fork(NULL, 1);
	oom_score_after_fork(NULL);
	ck_assert_ptr_null(o.reserve);
	ck_assert_int_eq(score(), own);
}
END_TEST

/* bytes of it that are there */
static size_t resident(const struct oom_score *o)
{
	unsigned char pages[OOM_SCORE_RESERVE >> 12];
	size_t n = 0;
	ck_assert_int_eq(mincore(o->reserve, OOM_SCORE_RESERVE, pages), 0);
	for (size_t i = 0; i < sizeof(pages); i++)
		n += pages[i] & 1 ? 4096 : 0;
	return n;
}

START_TEST(a_reserve)
{
	struct oom_score o = oom_score_open();
	oom_score_after_fork(&o);
	ck_assert_uint_eq(resident(&o), OOM_SCORE_RESERVE);
	void *at = o.reserve;
	oom_score_after_fork(&o);
	ck_assert_ptr_eq(o.reserve, at);
	oom_score_before_fork(&o, 1);
	ck_assert_ptr_null(o.reserve);
	oom_score_before_fork(&o, 1);
	close(o.fd);
	o.fd = -1;
	oom_score_after_fork(&o);
	ck_assert_ptr_null(o.reserve);
}
END_TEST

UNIT_SUITE(oom_score)
{
	Suite *s = suite_create("oom_score");
	TCase *t = tcase_create("score");
	tcase_add_test(t, children_go_first);
	tcase_add_test(t, never_beyond_the_most);
	tcase_add_test(t, without_proc);
	tcase_add_test(t, a_reserve);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/init_check.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Containers that are parked, and those that are not any more: tests/integration/suite_nri.sh. */

START_TEST(one_of_the_machine)
{
	struct err e = {0};
	ck_assert_int_eq(init_check_parked(getpid(), "x", &e), -EPERM);
	ck_assert_msg(strstr(e.text, "is not parked by runc, crun or youki: it runs /"), "%s", e.text);
}
END_TEST

/* It is easily called so: that is not enough. */
START_TEST(one_with_the_name_of_a_runtime)
{
	struct err e = {0};
	prctl(PR_SET_NAME, "runc:[2:INIT]");
	ck_assert_int_eq(init_check_parked(getpid(), "x", &e), -EPERM);
	ck_assert_msg(strstr(e.text, "(runc:[2:INIT])"), "%s", e.text);
}
END_TEST

START_TEST(one_that_has_ended)
{
	struct err e = {0};
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(init_check_parked(pid, "x", &e), -ESRCH);
}
END_TEST

UNIT_SUITE(init_check)
{
	Suite *s = suite_create("init_check");
	TCase *t = tcase_create("init_check");
	tcase_add_test(t, one_of_the_machine);
	tcase_add_test(t, one_with_the_name_of_a_runtime);
	tcase_add_test(t, one_that_has_ended);
	suite_add_tcase(s, t);
	return s;
}

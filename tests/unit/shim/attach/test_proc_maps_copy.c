/* SPDX-License-Identifier: Apache-2.0 */
/* mappings: the code of a process, and nothing else; none of one that has no memory. */
#include "shim/attach/proc_maps_copy.h"

#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static int fds;

static void begin(void)
{
	fds = fd_count();
}

static void end(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

START_TEST(our_code)
{
	char *text, want[64];
	size_t len;
	int fd = proc_maps_copy(getpid(), getpid());
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_slurp(fd, PROC_MAPS_COPY_MAX, &text, &len), 0);
	fd_close(fd);
	bool found = false;
	unsigned long at = (unsigned long)(uintptr_t)begin;
	for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		unsigned long start, stop;
		char perms[8];
		ck_assert_msg(sscanf(line, "%lx-%lx %7s", &start, &stop, perms) == 3 && perms[2] == 'x', "%s", line);
		found |= start <= at && at < stop;
	}
	snprintf(want, sizeof(want), "%lx is in it", at);
	ck_assert_msg(found, "%s", want);
	free(text);
}
END_TEST

START_TEST(nobody)
{
	ck_assert_int_lt(proc_maps_copy(4194304, 4194304), 0);
	pid_t pid = fork(); /* a zombie */
	if (pid == 0)
		_exit(0);
	siginfo_t info;
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_lt(proc_maps_copy(pid, pid), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

UNIT_SUITE(proc_maps_copy)
{
	Suite *s = suite_create("proc_maps_copy");
	TCase *t = tcase_create("proc_maps_copy");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, our_code);
	tcase_add_test(t, nobody);
	suite_add_tcase(s, t);
	return s;
}

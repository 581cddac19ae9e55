/* SPDX-License-Identifier: Apache-2.0 */
/* registry: files that are let go are closed by children, and of those none stays. */
#include "profiler/daemon/target_registry.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 100

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Until there is no child. */
static void reap_all(void)
{
	while (waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) == 0) {
		usleep(1000);
		registered_reap();
	}
	ck_assert_int_eq(errno, ECHILD);
}

START_TEST(many_are_closed_and_no_child_stays)
{
	int fds[MANY];
	for (int i = 0; i < MANY; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < MANY; i++)
		close_possibly_blocking(fds[i]);
	reap_all();
	for (int i = 0; i < MANY; i++)
		ck_assert(!is_open(fds[i]));
}
END_TEST

/* As where no process of ours has a CPU for a while: those that close are stopped before they have begun. */
START_TEST(what_has_no_process_is_closed_later)
{
	enum { FEW = 40 }; /* more than there are processes */
	int fds[FEW], open_now = 0;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	/* Children have our policy: by SCHED_FIFO none runs before we rest. */
	const bool alone = sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}) == 0;
	for (int i = 0; i < FEW; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < FEW; i++)
		close_possibly_blocking(fds[i]);
	for (int i = 0; i < FEW; i++)
		open_now += is_open(fds[i]);
	ck_assert(!alone || open_now == FEW);
	reap_all();
	for (int i = 0; i < FEW; i++)
		ck_assert(!is_open(fds[i]));
}
END_TEST

/* Somebody else's children are nobody's of ours. */
START_TEST(other_children_are_left_alone)
{
	int status;
	pid_t other = fork();
	if (other == 0)
		_exit(7);
	close_possibly_blocking(open("/dev/null", O_RDONLY | O_CLOEXEC));
	ck_assert_int_eq(waitid(P_PID, (id_t)other, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	registered_reap();
	ck_assert_int_eq(waitpid(other, &status, 0), other);
	ck_assert_int_eq(WEXITSTATUS(status), 7);
	close_possibly_blocking(-1);
	reap_all();
}
END_TEST

UNIT_SUITE(target_registry)
{
	Suite *s = suite_create("target_registry");
	TCase *t = tcase_create("closing");
	tcase_add_test(t, many_are_closed_and_no_child_stays);
	tcase_add_test(t, what_has_no_process_is_closed_later);
	tcase_add_test(t, other_children_are_left_alone);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* census: threads and processes that are there, that come, and that go; those of others are not in it. */
#include "shim/attach/thread_scan.h"

#include "oci/base/fd.h"
#include "oci/isolation/cgroup.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
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

static void *wait_in_thread(void *arg)
{
	prctl(PR_SET_NAME, "a thread of two");
	char byte;
	MUST(write(((int *)arg)[3], "", 1) == 1);
	MUST(read(((int *)arg)[0], &byte, 1) == 0);
	return NULL;
}

/* A child with two threads and a child of its own, which says so and ends when the pipe does. */
static pid_t start_family(int pipes[4])
{
	char byte;
	ck_assert_int_eq(pipe(pipes), 0);
	ck_assert_int_eq(pipe(pipes + 2), 0);
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t t;
		close(pipes[1]);
		if (fork() == 0) {
			prctl(PR_SET_NAME, "grandchild");
			MUST(write(pipes[3], "", 1) == 1);
			MUST(read(pipes[0], &byte, 1) == 0);
			_exit(0);
		}
		MUST(pthread_create(&t, NULL, wait_in_thread, pipes) == 0);
		pthread_join(t, NULL);
		wait(NULL);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(read(pipes[2], &byte, 1), 1);
	return pid;
}

static void end_family(pid_t pid, int pipes[4])
{
	close(pipes[1]);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	close(pipes[0]);
	close(pipes[2]);
	close(pipes[3]);
}

static unsigned alive(struct thread_scan *c)
{
	unsigned n = 0;
	for (size_t i = 0; i < thread_scan_count(c); i++)
		n += thread_scan_at(c, i)->alive;
	return n;
}

static bool has(struct thread_scan *c, pid_t pid, bool leader, const char *name)
{
	for (size_t i = 0; i < thread_scan_count(c); i++) {
		const struct thread_scan_task *t = thread_scan_at(c, i);
		if (t->alive && (!pid || t->proc_pid == pid) && (t->pid == t->tid) == leader && !strcmp(t->name, name))
			return true;
	}
	return false;
}

static void check_family(const struct thread_scan_scope *scope, pid_t pid, int pipes[4])
{
	struct thread_scan *c;
	ck_assert_int_eq(thread_scan_new(scope, &c), 0);
	int n = thread_scan_look(c); /* a sanitizer may have threads of its own in there */
	ck_assert_int_ge(n, 3);
	ck_assert_int_eq(thread_scan_look(c), 0);
	ck_assert_uint_eq(alive(c), (unsigned)n);
	ck_assert(has(c, pid, false, "a thread of two"));
	ck_assert(has(c, 0, true, "grandchild"));
	end_family(pid, pipes);
	ck_assert_int_eq(thread_scan_look(c), 0);
	ck_assert_uint_eq(alive(c), 0);
	ck_assert_uint_eq(thread_scan_count(c), (size_t)n);
	ck_assert_ptr_null(thread_scan_free(c));
}

START_TEST(a_process_its_threads_and_its_children)
{
	int pipes[4];
	pid_t pid = start_family(pipes);
	check_family(&(struct thread_scan_scope){.root = pid}, pid, pipes);
}
END_TEST

START_TEST(numbers_are_translated)
{
	int pipes[4]; /* into our own pid namespace, so that they are the same */
	pid_t pid = start_family(pipes);
	check_family(&(struct thread_scan_scope){.root = pid, .depth = (unsigned)proc_status_nspid_depth(getpid())},
		pid, pipes);
}
END_TEST

START_TEST(the_cgroup_that_we_are_in_holds_us)
{
	struct thread_scan_scope scope = {.root = 1};
	struct thread_scan *c;
	const char *controller = cgroup_path(getpid(), NULL, scope.cgroup, sizeof(scope.cgroup)) == 0 ? "" : "pids";
	snprintf(scope.controller, sizeof(scope.controller), "%s", controller);
	if (controller[0])
		ck_assert_int_eq(cgroup_path(getpid(), controller, scope.cgroup, sizeof(scope.cgroup)), 0);
	ck_assert_int_eq(thread_scan_new(&scope, &c), 0);
	ck_assert_int_gt(thread_scan_look(c), 0);
	bool found = false;
	for (size_t i = 0; i < thread_scan_count(c); i++)
		found |= thread_scan_at(c, i)->pid == getpid();
	ck_assert(found);
	thread_scan_free(c);
}
END_TEST

START_TEST(a_cgroup_that_nobody_is_in)
{
	struct thread_scan_scope scope = {.root = 1, .cgroup = "/no/such"};
	struct thread_scan *c;
	ck_assert_int_eq(thread_scan_new(&scope, &c), 0);
	ck_assert_int_eq(thread_scan_look(c), 0);
	thread_scan_free(c);
}
END_TEST

START_TEST(whose_parent_is_gone_stays)
{
	int pipes[4];
	struct thread_scan *c;
	pid_t pid = start_family(pipes);
	ck_assert_int_eq(thread_scan_new(&(struct thread_scan_scope){.root = pid}, &c), 0);
	ck_assert_int_ge(thread_scan_look(c), 3);
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	ck_assert_int_eq(thread_scan_look(c), 0);
	ck_assert(has(c, 0, true, "grandchild"));
	ck_assert(!has(c, pid, false, "a thread of two"));
	for (int i = 0; i < 4; i++)
		close(pipes[i]);
	thread_scan_free(c);
}
END_TEST

UNIT_SUITE(thread_scan)
{
	Suite *s = suite_create("thread_scan");
	TCase *t = tcase_create("thread_scan");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, a_process_its_threads_and_its_children);
	tcase_add_test(t, numbers_are_translated);
	tcase_add_test(t, the_cgroup_that_we_are_in_holds_us);
	tcase_add_test(t, a_cgroup_that_nobody_is_in);
	tcase_add_test(t, whose_parent_is_gone_stays);
	suite_add_tcase(s, t);
	return s;
}

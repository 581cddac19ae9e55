/* SPDX-License-Identifier: Apache-2.0 */
/* When a reader waits for a session's last window: by what the session says, and by what has become of its target and
 * of itself. */
#include "profiler/spool/spool_lock.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOON (SPOOL_LOCK_VERDICT_NS - 1)
#define LATER (SPOOL_LOCK_VERDICT_NS + 1)
#define TOO_LATE (SPOOL_LOCK_LAST_NS + 1)

static char path[64];
static int dir;
static struct spool_lock lock;

static void begin(void)
{
	snprintf(path, sizeof(path), "/tmp/spool_lock.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(path));
	dir = fd_open_dir(AT_FDCWD, path);
	ck_assert_int_ge(dir, 0);
}

static void end(void)
{
	char command[128];
	close(dir);
	snprintf(command, sizeof(command), "rm -r %s", path);
	ck_assert_int_eq(system(command), 0);
}

static void take(void)
{
	ck_assert_int_eq(spool_lock_take(dir, &lock), 0);
}

static unsigned count_files(void)
{
	unsigned n = 0;
	char command[128];
	snprintf(command, sizeof(command), "ls -A %s | wc -l", path);
	FILE *f = popen(command, "r");
	ck_assert_int_eq(fscanf(f, "%u", &n), 1);
	pclose(f);
	return n;
}

static pid_t begin_child(void)
{
	const pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	ck_assert_int_gt(pid, 0);
	return pid;
}

static void end_child(pid_t pid, bool reaped)
{
	siginfo_t info;
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | (reaped ? 0 : WNOWAIT)), 0);
}

static pid_t describe_child(void)
{
	uint64_t start;
	const pid_t pid = begin_child();
	ck_assert_int_eq(proc_stat_start_time(pid, &start), 0);
	spool_lock_describe(&lock, pid, start);
	return pid;
}

START_TEST(no_session)
{
	ck_assert(!spool_lock_pending(dir, 0));
}
END_TEST

START_TEST(target_has_not_come)
{
	take();
	ck_assert(!spool_lock_pending(dir, 0));
	spool_lock_release(&lock);
}
END_TEST

/* i: is its first process reaped? */
START_TEST(target_runs_and_ends)
{
	take();
	const pid_t pid = describe_child();
	ck_assert(!spool_lock_pending(dir, 0));
	end_child(pid, _i);
	ck_assert(spool_lock_pending(dir, 0));
	ck_assert(spool_lock_pending(dir, SOON));
	ck_assert(!spool_lock_pending(dir, LATER)); /* whatever the session waits for */
	spool_lock_set_state(&lock, SPOOL_LOCK_ENDED);
	ck_assert(spool_lock_pending(dir, LATER));
	ck_assert(!spool_lock_pending(dir, TOO_LATE));
	spool_lock_release(&lock);
	ck_assert(!spool_lock_pending(dir, 0));
	ck_assert_uint_eq(count_files(), 0);
	if (!_i)
		end_child(pid, true);
}
END_TEST

START_TEST(others_of_the_target_live_on)
{
	take();
	end_child(describe_child(), true);
	spool_lock_set_state(&lock, SPOOL_LOCK_LIVES_ON);
	ck_assert(!spool_lock_pending(dir, 0));
	spool_lock_set_state(&lock, SPOOL_LOCK_ENDED);
	ck_assert(spool_lock_pending(dir, 0));
	spool_lock_release(&lock);
}
END_TEST

START_TEST(pid_is_of_another_process_by_now)
{
	uint64_t start;
	take();
	ck_assert_int_eq(proc_stat_start_time(getpid(), &start), 0);
	spool_lock_describe(&lock, getpid(), start);
	ck_assert(!spool_lock_pending(dir, 0));
	spool_lock_describe(&lock, getpid(), start - 1);
	ck_assert(spool_lock_pending(dir, 0));
	spool_lock_release(&lock);
}
END_TEST

static void overwrite(const char *text, const char *with)
{
	char line[128] = "";
	ck_assert_int_gt(pread(lock.file, line, sizeof(line) - 1, 0), 0);
	const char *at = strstr(line, text);
	ck_assert_ptr_nonnull(at);
	ck_assert_int_eq(pwrite(lock.file, with, strlen(with), at - line), (ssize_t)strlen(with));
}

START_TEST(other_pid_namespace)
{
	take();
	end_child(describe_child(), true);
	overwrite("namespace=", "namespace=                   1");
	ck_assert(!spool_lock_pending(dir, 0));
	spool_lock_release(&lock);
}
END_TEST

START_TEST(no_such_line)
{
	take();
	end_child(describe_child(), true);
	ck_assert_int_eq(ftruncate(lock.file, _i), 0);
	ck_assert(!spool_lock_pending(dir, 0));
	ck_assert_int_eq(pwrite(lock.file, "pid=x start=", 12, 0), 12);
	ck_assert(!spool_lock_pending(dir, 0));
	spool_lock_release(&lock);
}
END_TEST

/* It is killed, and so is, later, what it had forked. */
START_TEST(session_is_killed)
{
	int tell[2], hold[2];
	char c;
	ck_assert_int_eq(pipe(tell), 0);
	ck_assert_int_eq(pipe(hold), 0);
	const pid_t session = fork();
	if (session == 0) {
		take();
		spool_lock_describe(&lock, 1, 0);
		if (fork() == 0) {
			spool_lock_close_directory(&lock);
			spool_lock_set_state(&lock, SPOOL_LOCK_ENDED);
			close(hold[1]);
			ck_assert_int_eq(write(tell[1], "", 1), 1);
			_exit(read(hold[0], &c, 1) != 0);
		}
		pause();
	}
	close(tell[1]);
	ck_assert_int_eq(read(tell[0], &c, 1), 1);
	end_child(session, true);
	ck_assert(spool_lock_pending(dir, 0));
	close(hold[1]);
	ck_assert_int_eq(read(tell[0], &c, 1), 0); /* the last one of it has ended */
	ck_assert(!spool_lock_pending(dir, 0));
	ck_assert_uint_eq(count_files(), 1);
	take();
	ck_assert_uint_eq(count_files(), 1); /* and that is ours */
	spool_lock_release(&lock);
	ck_assert_uint_eq(count_files(), 0);
	close(tell[0]);
	close(hold[0]);
}
END_TEST

START_TEST(two_sessions)
{
	struct spool_lock other;
	char from[96], to[96];
	take();
	end_child(describe_child(), true);
	snprintf(from, sizeof(from), "%s/.session-%d", path, (int)getpid());
	snprintf(to, sizeof(to), "%s/.session-1", path);
	ck_assert_int_eq(rename(from, to), 0);
	ck_assert_int_eq(spool_lock_take(dir, &other), 0);
	ck_assert_uint_eq(count_files(), 2);
	ck_assert(spool_lock_pending(dir, 0));
	spool_lock_release(&other);
	ck_assert(spool_lock_pending(dir, 0));
	close(lock.file);
	close(lock.dir);
	ck_assert(!spool_lock_pending(dir, 0));
}
END_TEST

START_TEST(none_can_be_had)
{
	const int closed = fd_open(AT_FDCWD, "/proc", O_RDONLY | O_DIRECTORY, 0);
	ck_assert_int_lt(spool_lock_take(closed, &lock), 0);
	ck_assert_int_eq(lock.file, -1);
	ck_assert_int_eq(lock.dir, -1);
	spool_lock_describe(NULL, 1, 1);
	spool_lock_set_state(NULL, SPOOL_LOCK_ENDED);
	spool_lock_release(&lock);
	close(closed);
}
END_TEST

UNIT_SUITE(spool_lock)
{
	Suite *s = suite_create("spool_lock");
	TCase *t = tcase_create("spool_lock");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, no_session);
	tcase_add_test(t, target_has_not_come);
	tcase_add_loop_test(t, target_runs_and_ends, 0, 2);
	tcase_add_test(t, others_of_the_target_live_on);
	tcase_add_test(t, pid_is_of_another_process_by_now);
	tcase_add_test(t, other_pid_namespace);
	tcase_add_loop_test(t, no_such_line, 0, 80);
	tcase_add_test(t, session_is_killed);
	tcase_add_test(t, two_sessions);
	tcase_add_test(t, none_can_be_had);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/process/child_process.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

static pid_t sleeper(void)
{
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void finish(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* A pid that was a process a moment ago. */
static pid_t dead_pid(void)
{
	pid_t pid = sleeper();
	finish(pid);
	return pid;
}

START_TEST(fields_of_status)
{
	char text[64], small[2];

	ck_assert_int_eq(proc_status_field(getpid(), "Tgid", text, sizeof(text)), 0);
	ck_assert_int_eq(atoi(text), getpid());
	ck_assert_int_eq(proc_status_field(getpid(), "Name", text, sizeof(text)), 0); /* the first line */
	ck_assert_str_eq(text, "units");
	ck_assert_int_eq(proc_status_field(getpid(), "NoSuch", text, sizeof(text)), -ENODATA);
	ck_assert_int_eq(proc_status_field(getpid(), "VmSize", small, sizeof(small)), -ENOBUFS);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_process_that_is_gone)
{
	pid_t pid = dead_pid(), parent;
	uint64_t n;
	char text[64];

	ck_assert_int_eq(proc_status_field(pid, "Tgid", text, sizeof(text)), -ESRCH);
	ck_assert_int_eq(proc_status_nspid(pid, &parent), -ESRCH);
	ck_assert_int_eq(proc_stat_start_time(pid, &n), -ESRCH);
	ck_assert_int_eq(proc_status_parent(pid), -ESRCH);
	ck_assert_int_eq(proc_namespace(pid, "pid", &n), -ESRCH);
	ck_assert_int_eq(child_process_pidfd(pid), -ESRCH);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(parent_pid_and_namespace)
{
	pid_t pid = sleeper(), own;
	uint64_t ours, theirs, net;

	ck_assert_int_eq(proc_status_parent(pid), getpid());
	ck_assert_int_eq(proc_status_nspid(pid, &own), 0);
	ck_assert_int_gt(own, 0);
	ck_assert_int_eq(proc_namespace(pid, "mnt", &theirs), 0);
	ck_assert_int_eq(proc_namespace(getpid(), "mnt", &ours), 0);
	ck_assert_int_eq(proc_namespace(pid, "net", &net), 0);
	ck_assert_uint_eq(ours, theirs);
	ck_assert_uint_ne(net, theirs);
	fd_auto pidfd = child_process_pidfd(pid);
	ck_assert_int_ge(pidfd, 0);
	ck_assert_int_eq(fcntl(pidfd, F_GETFD), FD_CLOEXEC);
	finish(pid);
	pidfd = fd_close(pidfd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_name_with_spaces_and_parentheses)
{
	uint64_t before, after;

	ck_assert_int_eq(proc_stat_start_time(getpid(), &before), 0);
	ck_assert_uint_gt(before, 0);
	ck_assert_int_eq(prctl(PR_SET_NAME, "x) R 1 2 (3) 4"), 0);
	ck_assert_int_eq(proc_stat_start_time(getpid(), &after), 0);
	ck_assert_uint_eq(before, after);
	ck_assert_int_eq(proc_status_parent(getpid()), getppid());
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(two_processes_are_told_apart_by_their_start)
{
	uint64_t ours, theirs;
	usleep(30000); /* ticks are 10 ms */
	pid_t pid = sleeper();
	ck_assert_int_eq(proc_stat_start_time(getpid(), &ours), 0);
	ck_assert_int_eq(proc_stat_start_time(pid, &theirs), 0);
	ck_assert_uint_gt(theirs, ours);
	finish(pid);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void look_at_the_namespace(const void *arg)
{
	pid_t own;
	MUST(unshare(CLONE_NEWPID) == 0); /* moves the children, not the caller */
	pid_t inner = fork();
	MUST(inner >= 0);
	if (inner == 0) {
		pause();
		_exit(0);
	}
	MUST(proc_status_nspid(inner, &own) == 0 && own == 1 && inner != 1);
	MUST(proc_status_nspid(getpid(), &own) == 0 && own == getpid());
	kill(inner, SIGKILL);
	MUST(waitpid(inner, NULL, 0) == inner);
}

START_TEST(the_pid_in_the_innermost_namespace)
{
	if (geteuid() == 0)
		ck_assert_int_eq(in_child(look_at_the_namespace, NULL), 0);
	else
		skip("a pid namespace needs root");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void exit_3(void)
{
	_exit(3);
}

static void die_by_term(void)
{
	signal(SIGTERM, SIG_DFL);
	raise(SIGTERM);
}

static void never_end(void)
{
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

static void end_in_a_while(void)
{
	usleep(50000);
	_exit(0);
}

static const struct {
	const char *scenario;
	void (*child)(void);
	int64_t within;
	const char *fate;
	int64_t least; /* ms */
} waits[] = {
	{"exits at once", exit_3, 5 * NSEC_PER_SEC, "exited with status 3", 0},
	{"exits a little later", end_in_a_while, 5 * NSEC_PER_SEC, "exited with status 0", 40},
	{"dies by a signal", die_by_term, 5 * NSEC_PER_SEC, "was killed by signal 15", 0},
	{"never ends", never_end, 50 * NSEC_PER_MSEC, "did not finish within its time and was killed", 50},
	{"no time at all", never_end, 0, "did not finish within its time and was killed", 0},
};

START_TEST(a_child_is_waited_for_and_reaped)
{
	char text[80];
	int64_t began = clock_now();
	pid_t pid = fork();
	if (pid == 0)
		waits[_i].child();
	int status = child_process_wait(pid, deadline_in(waits[_i].within));
	int64_t ms = (clock_now() - began) / NSEC_PER_MSEC;
	ck_assert_str_eq(child_process_fate(status, text, sizeof(text)), waits[_i].fate);
	ck_assert_msg(ms >= waits[_i].least, "%s: %d ms", waits[_i].scenario, (int)ms);
	ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), -1); /* no zombie */
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_child_answers_on_a_pipe)
{
	char got[8];
	int line, dies_with;
	pid_t pid = child_process_fork_answering(&line);
	if (pid == 0) {
		prctl(PR_GET_PDEATHSIG, &dies_with);
		_exit(fd_write_all(line, "answer", 6) < 0 ? 1 : dies_with);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(fd_read_all(line, got, sizeof(got)), 6); /* to the end: no other process can write */
	ck_assert_mem_eq(got, "answer", 6);
	ck_assert_int_eq(child_process_wait(pid, deadline_in(5 * NSEC_PER_SEC)), SIGKILL << 8);
	fd_close(line);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(fates_that_are_no_status)
{
	char text[80];
	ck_assert_str_eq(
		child_process_fate(-ECHILD, text, sizeof(text)), "could not be waited for (No child processes)");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(why_an_init_cannot_be_looked_at)
{
	struct err e = {0};
	ck_assert_int_eq(child_process_explain(7, -ESRCH, &e), -ESRCH);
	ck_assert_str_eq(e.text, "the container's init (pid 7) is gone already");
	ck_assert_int_eq(child_process_explain(7, -EACCES, &e), -EACCES);
	ck_assert_str_eq(e.text, "cannot look at the container's init (pid 7): Permission denied");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
			     "pillions:x:1:1::/:/bin/false\n"
			     "pill:x:2:2::/:/bin/false\n"
			     "opener:8:9:9::/:/bin/false\n"
			     "open::3:4::/:/bin/false\n"
			     "short:x\n"
			     "letters:x:a:b::/:\n"
			     "\n"
			     "pillion:x:996:995::/:/bin/false\n"
			     "pillion:x:1:1:a second one:/:/bin/false\n"
			     "last:!:4294967294:7::/:/bin/false";

static const struct {
	const char *name;
	int result;
	uid_t uid;
	gid_t gid;
} users[] = {
	{"root", 0, 0, 0},
	{"pillion", 0, 996, 995},
	{"pill", 0, 2, 2},
	{"open", 0, 3, 4},
	{"last", 0, 4294967294u, 7},
	{"pil", -ENOENT, 0, 0},
	{"short", -ENOENT, 0, 0},
	{"letters", -ENOENT, 0, 0},
	{"nobody-here", -ENOENT, 0, 0},
	{"x", -ENOENT, 0, 0},
};

static const char group[] = "root:x:0:\n"
			    "none\n"
			    "letters:x:a:\n"
			    "adm:x:4:syslog,root\n"
			    "open::3:\n"
			    "last:x:100:a,b";

static const struct {
	const char *name;
	int result;
	gid_t gid;
} groups[] = {{"root", 0, 0}, {"adm", 0, 4}, {"open", 0, 3}, {"last", 0, 100}, {"ad", -ENOENT, 0}, {"none", -ENOENT, 0},
	{"letters", -ENOENT, 0}, {"syslog", -ENOENT, 0}};

static void look_groups_up(const void *file)
{
	MUST(unshare(CLONE_NEWNS) == 0);
	MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount(file, "/etc/group", NULL, MS_BIND, NULL) == 0);
	for (size_t i = 0; i < LENGTH(groups); i++) {
		gid_t gid = 12345;
		int r = passwd_group(groups[i].name, &gid);
		if (r != groups[i].result || gid != (r == 0 ? groups[i].gid : 12345)) {
			dprintf(2, "group %s: %d, gid %u\n", groups[i].name, r, gid);
			_exit(1);
		}
	}
}

/* In a mount namespace of its own this file lies over /etc/passwd. */
static void look_users_up(const void *file)
{
	MUST(unshare(CLONE_NEWNS) == 0);
	MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount(file, "/etc/passwd", NULL, MS_BIND, NULL) == 0);
	for (size_t i = 0; i < LENGTH(users); i++) {
		uid_t uid = 12345;
		gid_t gid = 12345;
		int r = passwd_user(users[i].name, &uid, &gid);
		if (r != users[i].result || (r == 0 && (uid != users[i].uid || gid != users[i].gid)) ||
			(r < 0 && (uid != 12345 || gid != 12345))) {
			dprintf(2, "user %s: %d, uid %u, gid %u\n", users[i].name, r, uid, gid);
			_exit(1);
		}
	}
}

static const struct {
	const char *text;
	void (*look_up)(const void *file);
} databases[] = {{passwd, look_users_up}, {group, look_groups_up}};

START_TEST(users_by_name)
{
	char file[] = "/tmp/test_process.XXXXXX";

	if (geteuid() != 0) {
		skip("a mount namespace needs root");
		return;
	}
	fd_auto fd = mkstemp(file);
	ck_assert_int_eq(fd_write_all(fd, databases[_i].text, strlen(databases[_i].text)), 0);
	fd = fd_close(fd);
	int status = in_child(databases[_i].look_up, file);
	unlink(file);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static uint64_t slice(void)
{
	char line[128];
	unsigned long long ns = 0;
	FILE *f = fopen("/proc/self/sched", "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "se.slice : %llu", &ns);
	if (f)
		fclose(f);
	return ns;
}

static void ask_for_short_turns(const void *arg)
{
	const int had = getpriority(PRIO_PROCESS, 0), nicer = had < 19 ? had + 1 : had;
	MUST(setpriority(PRIO_PROCESS, 0, nicer) == 0);
	child_process_run_soon();
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0)
		_exit(slice() != 100000);
	int status;
	MUST(waitpid(child, &status, 0) == child && status == 0);
	MUST(slice() == 100000);
	MUST(getpriority(PRIO_PROCESS, 0) == nicer);
}

START_TEST(who_asks_for_short_turns_has_them_and_so_do_its_children)
{
	if (!slice()) {
		skip("this kernel tells no slice");
		return;
	}
	ck_assert_int_eq(in_child(ask_for_short_turns, NULL), 0);
}
END_TEST

/* As the caller may be: each of it would otherwise be ours as well. */
static void reset_all(const void *arg)
{
	const struct rlimit files = {16, 64}, core = {1, 1};
	sigset_t mask;
	cpu_set_t one, cpus;
	struct rlimit l;
	struct sigaction was;
	char text[64];
	int first = sched_getcpu();
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	MUST(sched_setaffinity(0, sizeof(one), &one) == 0);
	MUST(setrlimit(RLIMIT_NOFILE, &files) == 0 && (setrlimit(RLIMIT_CORE, &core) == 0 || errno == EPERM));
	MUST(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}) == 0);
	MUST(setpriority(PRIO_PROCESS, 0, 7) == 0 || errno == EACCES); /* we are nicer than that */
	sigfillset(&mask);
	MUST(sigprocmask(SIG_SETMASK, &mask, NULL) == 0);
	MUST(signal(SIGTERM, SIG_IGN) != SIG_ERR && signal(SIGHUP, SIG_IGN) != SIG_ERR);
	child_process_reset(true);
	MUST(sigprocmask(SIG_SETMASK, NULL, &mask) == 0 && !sigismember(&mask, SIGTERM) &&
		!sigismember(&mask, SIGUSR1));
	MUST(sigaction(SIGTERM, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
	MUST(sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler == SIG_DFL);
	MUST(sched_getscheduler(0) == SCHED_OTHER);
	MUST(sched_getaffinity(0, sizeof(cpus), &cpus) == 0);
	MUST(sysconf(_SC_NPROCESSORS_ONLN) == 1 || CPU_COUNT(&cpus) > 1);
	MUST(geteuid() != 0 || getpriority(PRIO_PROCESS, 0) == 0);
	MUST(getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur == 64);
	MUST(getrlimit(RLIMIT_CORE, &l) == 0 && l.rlim_cur == 0 && l.rlim_max == 0);
	MUST(prctl(PR_GET_DUMPABLE) == 0);
	MUST(getcwd(text, sizeof(text)) && !strcmp(text, "/"));
	MUST(umask(0) == 027);
}

START_TEST(what_was_bent_is_as_at_a_boot)
{
	ck_assert_int_eq(in_child(reset_all, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* By the kernel's call: libc's refuses its own signals. */
struct action {
	void (*handler)(int);
	unsigned long flags, restorer, mask;
};
static void set_handler(int sig, void (*handler)(int))
{
	MUST(syscall(SYS_rt_sigaction, sig, &(struct action){.handler = handler}, NULL, NSIG / 8) == 0);
}

static bool has_handler(int sig, void (*handler)(int))
{
	struct action now = {0};
	MUST(syscall(SYS_rt_sigaction, sig, NULL, &now, NSIG / 8) == 0);
	return now.handler == handler;
}

static void handler_of_libc(int sig)
{
	(void)sig;
}

static void reset_those_of_libc(const void *exec_follows)
{
	set_handler(32, SIG_IGN);
	set_handler(33, handler_of_libc);
	set_handler(34, handler_of_libc);
	child_process_reset(exec_follows != NULL);
	MUST(has_handler(32, SIG_DFL));
	MUST(has_handler(33, exec_follows ? SIG_DFL : handler_of_libc));
	MUST(has_handler(34, SIG_DFL));
}

START_TEST(signals_of_libc_are_ignored_no_more_and_keep_a_handler_that_is_needed)
{
	ck_assert_int_eq(in_child(reset_those_of_libc, NULL), 0);
	ck_assert_int_eq(in_child(reset_those_of_libc, ""), 0);
}
END_TEST

UNIT_SUITE(child_process)
{
	Suite *s = suite_create("child_process");
	TCase *t = tcase_create("child_process");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_test(t, fields_of_status);
	tcase_add_test(t, a_process_that_is_gone);
	tcase_add_test(t, parent_pid_and_namespace);
	tcase_add_test(t, a_name_with_spaces_and_parentheses);
	tcase_add_test(t, two_processes_are_told_apart_by_their_start);
	tcase_add_test(t, the_pid_in_the_innermost_namespace);
	tcase_add_loop_test(t, a_child_is_waited_for_and_reaped, 0, LENGTH(waits));
	tcase_add_test(t, a_child_answers_on_a_pipe);
	tcase_add_test(t, fates_that_are_no_status);
	tcase_add_test(t, why_an_init_cannot_be_looked_at);
	tcase_add_loop_test(t, users_by_name, 0, LENGTH(databases));
	tcase_add_test(t, who_asks_for_short_turns_has_them_and_so_do_its_children);
	tcase_add_test(t, what_was_bent_is_as_at_a_boot);
	tcase_add_test(t, signals_of_libc_are_ignored_no_more_and_keep_a_handler_that_is_needed);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/namespaces.h"

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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

#ifdef __SANITIZE_THREAD__
#define CAN_JOIN_MOUNTS 0 /* setns(2) refuses who has threads, and the sanitizer has one: the other modes test it */
#else
#define CAN_JOIN_MOUNTS 1
#endif

static bool is_root(void)
{
	if (geteuid() == 0)
		return true;
	skip("namespaces need root");
	return false;
}

/* --- a container: an init in mount and pid namespaces of its own, with a tmpfs that only it has */

struct fake {
	pid_t pid; /* as we see it */
	int talk;  /* a byte asks it to fork; it answers with the child's pid as it sees it */
};

static void init_main(int talk)
{
	char c;
	MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount("tmpfs", "/mnt", "tmpfs", 0, NULL) == 0);
	MUST(mkdir("/mnt/below", 0755) == 0 && mount("tmpfs", "/mnt/below", "tmpfs", 0, NULL) == 0);
	fd_auto file = fd_open(AT_FDCWD, "/mnt/below/file", O_CREAT | O_WRONLY, 0755);
	MUST(fd_write_all(file, "inside", 6) == 0);
	MUST(mount("proc", "/proc", "proc", 0, NULL) == 0); /* whose pid_max is this namespace's */
	MUST(write(talk, &(pid_t){getpid()}, sizeof(pid_t)) == sizeof(pid_t));
	while (read(talk, &c, 1) == 1) {
		pid_t child = fork();
		if (child == 0)
			_exit(0);
		MUST(write(talk, &child, sizeof(child)) == sizeof(child));
		MUST(waitpid(child, NULL, 0) == child);
	}
}

/* Of the caller's child, so that pids of the host are what the caller sees; the caller reaps. */
static struct fake begin(void)
{
	int s[2];
	pid_t own = 0;
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s) == 0);
	MUST(unshare(CLONE_NEWPID) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		fd_close(s[0]);
		MUST(unshare(CLONE_NEWNS) == 0);
		init_main(s[1]);
		_exit(0);
	}
	fd_close(s[1]);
	MUST(read(s[0], &own, sizeof(own)) == sizeof(own) && own == 1);
	return (struct fake){pid, s[0]};
}

static void end(struct fake *f)
{
	kill(f->pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0) /* an init is gone only when all in its namespace were reaped */
		;
	f->talk = fd_close(f->talk);
}

static pid_t ask_for_a_child(const struct fake *f)
{
	pid_t pid = -1;
	MUST(write(f->talk, "f", 1) == 1);
	MUST(read(f->talk, &pid, sizeof(pid)) == sizeof(pid));
	return pid;
}

/* --- the tree */

static void read_through(int tree)
{
	char text[16] = "";
	struct statvfs v;
	fd_auto file = fd_open_beneath(tree, "/mnt/below/file", O_RDONLY);
	MUST(file >= 0);
	MUST(fd_read_all(file, text, sizeof(text)) == 6 && !memcmp(text, "inside", 6));
	MUST(fstatvfs(file, &v) == 0);
	MUST((v.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV)) == (ST_RDONLY | ST_NOSUID | ST_NODEV));
	MUST(fd_open_beneath(tree, "/mnt/below/file", O_WRONLY) == -EROFS);
	MUST(fd_open(tree, "mnt/new", O_WRONLY | O_CREAT, 0600) == -EROFS);
	MUST(fd_open_beneath(tree, "/dev/null", O_RDONLY) == -EACCES); /* nodev */
}

static void tree_of_a_dead_container(const void *arg)
{
	struct err e = {0};
	bool same_mnt = true;
	struct fake f = begin();
	int ns = ns_open(f.pid, NS_MNT, &same_mnt, &e);
	MUST(ns >= 0 && !same_mnt && fcntl(ns, F_GETFD) == FD_CLOEXEC);
	MUST(access("/mnt/below/file", F_OK) < 0);
	/* joining is for good: in a process of its own, which passes the tree on */
	int s[2], tree = -1;
	size_t n;
	char c;
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) == 0);
	MUST(unshare(CLONE_FS) == 0 && ns_join(ns, NS_MNT, &e) == 0);
	MUST(access("/mnt/below/file", F_OK) == 0);
	tree = ns_tree("/", &e);
	MUST(tree >= 0 && fcntl(tree, F_GETFD) == FD_CLOEXEC);
	MUST(ns_tree("/no/such", &e) == -ENOENT);
	MUST(!strcmp(e.text, "cannot copy the mount tree at /no/such: No such file or directory"));
	MUST(fd_send(s[0], "x", 1, &tree, 1) == 0);
	tree = fd_close(tree);
	MUST(fd_recv(s[1], &c, 1, &tree, 1, &n) == 1 && n == 1);
	read_through(tree);
	/* the container's own mounts are as writable as before */
	int file = fd_open(AT_FDCWD, "/mnt/below/file", O_WRONLY, 0);
	MUST(file >= 0);
	fd_close(file);
	end(&f);
	MUST(umount2("/mnt/below", 0) == 0 && umount2("/mnt", 0) == 0);
	MUST(access("/mnt/below/file", F_OK) < 0);
	fd_close(ns);
	read_through(tree);
	fd_close(tree);
	fd_close(s[0]);
	fd_close(s[1]);
}

START_TEST(a_tree_outlives_its_container)
{
	if (is_root())
		ck_assert_int_eq(in_child(tree_of_a_dead_container, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- pids */

/* The child of ns_fork_high is our parent's: one that reaps it. */
struct family {
	void (*fn)(void);
	int others; /* the wait status that it has to end with */
};

static void reap_both(const void *arg)
{
	const struct family *family = arg;
	int status, n = 0;
	pid_t own = fork(), pid;
	if (own == 0) {
		family->fn();
		_exit(0);
	}
	while ((pid = waitpid(-1, &status, 0)) > 0) {
		MUST(pid == own ? status == 0 : status == family->others);
		n++;
	}
	MUST(n >= 2);
}

static void forks_high(void)
{
	struct err e = {0};
	bool same_pid = true;
	struct fake f = begin();
	pid_t first = ask_for_a_child(&f), own;
	char text[32];
	MUST(first > 1);
	int ns = ns_open(f.pid, NS_PID, &same_pid, &e);
	int mnt = ns_open(f.pid, NS_MNT, &same_pid, &e);
	MUST(ns >= 0 && mnt >= 0 && !same_pid);
	/* our children go there already, from making the namespace: back to our own, then join as a hook does */
	int home = fd_open(AT_FDCWD, "/proc/self/ns/pid", O_RDONLY, 0);
	MUST(ns_join(home, NS_PID, &e) == 0 && ns_join(ns, NS_PID, &e) == 0);
	MUST(ns_join(mnt, NS_MNT, &e) == 0);
	MUST(fd_read_text(AT_FDCWD, "/proc/sys/kernel/pid_max", text, sizeof(text)) == 0);
	pid_t highest = atoi(text) - 1;
	for (int i = 0; i < 3; i++) {
		pid_t told = 0, high = ns_fork_high(&told);
		if (high == 0) {
			pause();
			_exit(0);
		}
		MUST(high > 0 && told == high);
		MUST(waitpid(high, NULL, WNOHANG) < 0 && errno == ECHILD); /* not ours */
		/* /proc is the container's now; the highest number, then the ones below as they are taken */
		MUST(proc_status_nspid(highest - i, &own) == 0 && own == highest - i);
		MUST(ask_for_a_child(&f) == first + 1 + i); /* as if nobody had been there */
	}
	end(&f);
	fd_close(ns);
	fd_close(mnt);
	fd_close(home);
}

START_TEST(a_process_with_a_high_pid_leaves_the_numbering_alone)
{
	if (is_root())
		ck_assert_int_eq(in_child(reap_both, &(struct family){forks_high, SIGKILL}), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* Where set_tid is refused (a plain user), any pid does. */
static void forks_anyway(void)
{
	if (geteuid() == 0)
		MUST(setresuid(65534, 65534, 65534) == 0);
	pid_t told = 0, pid = ns_fork_high(&told);
	if (pid == 0)
		_exit(7);
	MUST(pid > 0 && told == pid);
}

START_TEST(any_pid_where_it_cannot_be_chosen)
{
	ck_assert_int_eq(in_child(reap_both, &(struct family){forks_anyway, 7 << 8}), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void pids_in(const void *arg)
{
	struct err e = {0};
	bool same;
	pid_t there = -1;
	struct fake f = begin();
	int ns = ns_open(f.pid, NS_PID, &same, &e);
	MUST(ns_pid_in(ns, f.pid, &there) == 0 && there == 1);
	int ours = ns_open(getpid(), NS_PID, &same, &e);
	MUST(same && ns_pid_in(ours, f.pid, &there) == 0 && there == f.pid);
	pid_t init = f.pid;
	end(&f);
	MUST(ns_pid_in(ns, init, &there) == -ESRCH && there == init);
	fd_close(ns);
	fd_close(ours);
}

START_TEST(what_a_process_is_called_there)
{
	if (is_root())
		ck_assert_int_eq(in_child(pids_in, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- what cannot be had */

START_TEST(our_own_namespaces_are_the_same)
{
	struct err e = {0};
	bool same = false;
	int fd = ns_open(getpid(), NS_MNT, &same, &e);
	ck_assert(fd >= 0 && same);
	fd_close(fd);
	same = false;
	fd = ns_open(getppid(), NS_PID, &same, &e);
	ck_assert(fd >= 0 && same);
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* Still a zombie, which has no mount namespace, then reaped. */
START_TEST(a_process_that_is_gone)
{
	struct err e = {0};
	bool same;
	siginfo_t info;
	char sentence[80];
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	if (_i)
		waitpid(pid, NULL, 0);
	for (enum ns_kind kind = NS_MNT; kind <= (_i ? NS_PID : NS_MNT); kind++) {
		ck_assert_int_eq(ns_open(pid, kind, &same, &e), -ESRCH);
		snprintf(sentence, sizeof(sentence), "the container's init (pid %d) is gone already", (int)pid);
		ck_assert_str_eq(e.text, sentence);
	}
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(the_wrong_descriptor)
{
	struct err e = {0};
	bool same;
	int fd = ns_open(getpid(), NS_MNT, &same, &e);
	ck_assert_int_eq(ns_join(fd, NS_PID, &e), -EINVAL);
	ck_assert_str_eq(e.text, "cannot join the container's pid namespace: Invalid argument");
	fd_close(fd);
	ck_assert_int_lt(ns_join(-1, NS_MNT, &e), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(namespaces)
{
	Suite *s = suite_create("namespaces");
	TCase *t = tcase_create("namespaces");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, count_fds, NULL);
	if (CAN_JOIN_MOUNTS) {
		tcase_add_test(t, a_tree_outlives_its_container);
		tcase_add_test(t, a_process_with_a_high_pid_leaves_the_numbering_alone);
	}
	tcase_add_test(t, any_pid_where_it_cannot_be_chosen);
	tcase_add_test(t, what_a_process_is_called_there);
	tcase_add_test(t, our_own_namespaces_are_the_same);
	tcase_add_loop_test(t, a_process_that_is_gone, 0, 2);
	tcase_add_test(t, the_wrong_descriptor);
	suite_add_tcase(s, t);
	return s;
}

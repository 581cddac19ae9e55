/* SPDX-License-Identifier: Apache-2.0 */
/* file_opener: what it opens and for whom, and when it ends. */
#include "shim/attach/file_opener.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "shim/protocol/messages.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define PATIENCE_NS (20 * NSEC_PER_SEC)

static char dir[64];
static int tree = -1, opener = -1, fds_before;

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", dir, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void setup(void)
{
	struct err e = {0};
	fds_before = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_file_opener.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	must("mkdir d tmp && printf '\\177ELF\\n' >d/program && ln -s program d/link && ln -s /etc/passwd d/out && "
	     "mkfifo "
	     "fifo && ln -s /dev/null null && echo secret >d/secret && : >tmp/perf-7.map && ln -s ../d/secret "
	     "tmp/perf-9.map && printf JiTD >d/jit-7.dump");
	must("ln d/secret tmp/perf-10.map && : >tmp/perf-11.map && ln tmp/perf-11.map tmp/other");
	must("{ printf '\\177ELF' && head -c 12 /dev/zero && printf '\\4\\0'; } >d/core");
	must("chmod 600 d/program d/secret d/jit-7.dump d/core tmp/perf-7.map && chmod 700 d"); /* no other user gets at
												   them */
	tree = fd_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0);
	opener = file_opener_start("unit", 1, clock_now() + PATIENCE_NS, &e);
	ck_assert_msg(opener >= 0, "%s", e.text);
	ck_assert_int_eq(file_opener_set_tree(opener, tree), 0);
}

static void teardown(void)
{
	char command[128];
	opener = fd_close(opener);
	tree = fd_close(tree);
	ck_assert_int_eq(fd_count(), fds_before);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static int ask(const char *path, bool no_links)
{
	fd_auto sock = file_opener_connect(opener);
	ck_assert_int_ge(sock, 0);
	return file_opener_ask(sock, path, no_links, clock_now() + PATIENCE_NS);
}

static const struct {
	const char *name, *path;
	bool no_links;
	int result;
} paths[] = {
	{"a program in a directory of mode 0700", "/d/program", false, 0},
	{"through a link", "/d/link", false, 0},
	{"a link is not wanted", "/d/link", true, -ELOOP},
	{"a jitdump", "/d/jit-7.dump", true, 0},
	{"a perf map: it has nothing to be known by", "/tmp/perf-7.map", true, -EACCES},
	{"a link out of the tree stays in it", "/d/out", false, -ENOENT},
	{"dots out of the tree stay in it", "/../../../../etc/passwd", false, -ENOENT},
	{"not there", "/d/none", false, -ENOENT},
	{"a directory", "/d", false, -EINVAL},
	{"a FIFO without a writer", "/fifo", false, -EINVAL},
	{"a device outside", "/null", false, -ENOENT},
	{"a secret", "/d/secret", false, -EINVAL},
	{"a secret by the name of a perf map", "/tmp/perf-10.map", false, -EACCES},
	{"the same by a longer path", "/tmp/../tmp/perf-10.map", false, -EINVAL},
	{"a core dump", "/d/core", false, -EINVAL},
	{"no name", "", false, -ENOENT},
};

START_TEST(what_it_opens)
{
	struct stat st;
	fd_auto fd = ask(paths[_i].path, paths[_i].no_links);
	ck_assert_msg(paths[_i].result ? fd == paths[_i].result : fd >= 0, "%s: %d", paths[_i].name, fd);
	if (fd < 0)
		return;
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert(fstat(fd, &st) == 0 && S_ISREG(st.st_mode));
}
END_TEST

/* By a reader, which has no rights but its own. */
static const struct {
	const char *name, *path;
	int result;
} maps[] = {
	{"a perf map", "/tmp/perf-7.map", 0},
	{"one that is a link to a secret", "/tmp/perf-9.map", -ELOOP},
	{"one that is a secret by another name", "/tmp/perf-10.map", -EINVAL},
	{"one of two names", "/tmp/perf-11.map", -EINVAL},
};

START_TEST(what_a_reader_takes_for_a_perf_map)
{
	fd_auto fd = file_open_for_profiler(tree, maps[_i].path, false);
	ck_assert_msg(maps[_i].result ? fd == maps[_i].result : fd >= 0, "%s: %d", maps[_i].name, fd);
}
END_TEST

/* Whether to open it would be possible, and do something, or fail: the file opener does not try. */
static const struct {
	const char *name;
	mode_t mode;
	unsigned major, minor;
} devices[] = {
	{"one with a driver", S_IFCHR, 1, 5},
	{"one without a driver", S_IFCHR, 511, 4095},
	{"a disk that is not there", S_IFBLK, 511, 4095},
};

START_TEST(a_device_is_not_opened)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/device", dir);
	if (mknod(path, devices[_i].mode | 0666, makedev(devices[_i].major, devices[_i].minor)) < 0) {
		skip("to make a device needs root, and his capability for it");
		return;
	}
	int r = ask("/device", false);
	ck_assert_msg(r == -EINVAL, "%s: %d", devices[_i].name, r);
}
END_TEST

/* Before it is known what is in it. */
static const struct {
	const char *path; /* NULL: a file of our own, to see that it is not the mount */
	int result;
} mounted[] = {
	{NULL, 0},
	{"/proc/version", -EPERM},
	{"/sys/kernel/uevent_seqnum", -EPERM},
};

START_TEST(a_file_of_the_kernels_is_not_opened)
{
	char own[96], over[96];
	struct err e = {0};
	snprintf(own, sizeof(own), "%s/d/own", dir);
	snprintf(over, sizeof(over), "%s/d/program", dir);
	must("cp d/program d/own");
	const char *path = mounted[_i].path ? mounted[_i].path : own;
	if (unshare(CLONE_NEWNS) < 0 || mount("", "/", "", MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount(path, over, "", MS_BIND, NULL) < 0) {
		skip("to mount needs root");
		return;
	}
	fd_auto here = fd_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0);
	fd_auto other = file_opener_start("unit", 2, clock_now() + PATIENCE_NS, &e);
	ck_assert_msg(other >= 0, "%s", e.text);
	ck_assert_int_eq(file_opener_set_tree(other, here), 0);
	fd_auto sock = file_opener_connect(other);
	fd_auto fd = file_opener_ask(sock, "/d/program", true, clock_now() + PATIENCE_NS);
	ck_assert_msg(mounted[_i].result ? fd == mounted[_i].result : fd >= 0, "%s: %d", path, fd);
	umount2(over, MNT_DETACH);
}
END_TEST

/* Of two that change their names all the time, it opens the one that it looked at, and the FIFO has no reader. */
static void exchange(void)
{
	char one[96], two[96];
	snprintf(one, sizeof(one), "%s/d/program", dir);
	snprintf(two, sizeof(two), "%s/fifo", dir);
	for (;;)
		renameat2(AT_FDCWD, one, AT_FDCWD, two, RENAME_EXCHANGE);
}

static void write_to_fifo(int place)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", place);
	_exit(open(path, O_WRONLY) < 0 ? 2 : 1); /* waits until it is opened to read, however shortly */
}

START_TEST(what_it_opens_is_what_it_looked_at)
{
	char path[96];
	int status, opened = 0;
	snprintf(path, sizeof(path), "%s/fifo", dir);
	fd_auto fifo = fd_open(AT_FDCWD, path, O_PATH, 0);
	pid_t changes = fork();
	if (changes == 0)
		exchange();
	pid_t writes = fork();
	if (writes == 0)
		write_to_fifo(fifo);
	const int64_t end = clock_now() + 2 * NSEC_PER_SEC;
	while (clock_now() < end) {
		fd_auto fd = ask("/d/program", false);
		ck_assert_msg(fd >= 0 || fd == -EINVAL, "%d", fd);
		opened += fd >= 0;
	}
	kill(changes, SIGKILL);
	waitpid(changes, NULL, 0);
	ck_assert_int_eq(waitpid(writes, &status, WNOHANG), 0);
	kill(writes, SIGKILL);
	waitpid(writes, NULL, 0);
	ck_assert_int_gt(opened, 0);
}
END_TEST

START_TEST(a_path_that_is_too_long)
{
	static char path[2 * PATH_MAX];
	memset(path, 'x', sizeof(path) - 1);
	ck_assert_int_eq(ask(path, false), -ENAMETOOLONG);
	path[PATH_MAX - 1] = 0;
	ck_assert_int_eq(ask(path, false), -ENAMETOOLONG); /* of one name: the kernel's word */
}
END_TEST

START_TEST(who_does_not_ask_is_not_waited_for)
{
	int socks[FILE_OPENER_CLIENTS_MAX];
	for (size_t i = 0; i < LENGTH(socks); i++)
		ck_assert_int_ge(socks[i] = file_opener_connect(opener), 0);
	fd_auto turned_away = file_opener_connect(opener);
	const int64_t deadline = clock_now() + PATIENCE_NS;
	ck_assert_int_eq(file_opener_ask(turned_away, "/d/program", false, deadline), -EPIPE);
	fd_auto fd = file_opener_ask(socks[5], "/d/program", false, deadline);
	ck_assert_int_ge(fd, 0);
	/* a socket is for one question */
	ck_assert_int_eq(file_opener_ask(socks[5], "/d/program", false, deadline), -EPIPE);
	for (size_t i = 0; i < LENGTH(socks); i++)
		fd_close(socks[i]);
	fd_auto again = ask("/d/program", false);
	ck_assert_int_ge(again, 0);
}
END_TEST

START_TEST(it_ends_with_who_may_ask)
{
	char any;
	fd_auto sock = file_opener_connect(opener);
	opener = fd_close(opener);
	ck_assert_int_eq(fd_wait(sock, POLLIN, clock_now() + PATIENCE_NS), 1);
	ck_assert_int_le(read(sock, &any, 1), 0);
}
END_TEST

START_TEST(it_ends_with_who_says_no_more)
{
	ck_assert_int_eq(shutdown(opener, SHUT_WR), 0);
	ck_assert_int_eq(fd_wait(opener, POLLIN, clock_now() + PATIENCE_NS), 1);
	ck_assert(fd_is_hung_up(opener));
}
END_TEST

/* The other end is not read. The client does not wait beyond its deadline, nor when there is no more room. */
START_TEST(who_asks_is_not_held_up)
{
	int pair[2], r, n = 0;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) /* and it blocks */, 0);
	fd_auto sock = file_opener_connect(pair[0]);
	ck_assert_int_ge(sock, 0);
	const int64_t begin = clock_now();
	ck_assert_int_eq(file_opener_ask(sock, "/d/program", false, begin + 50 * NSEC_PER_MSEC), -ETIMEDOUT);
	ck_assert_int_ge(clock_now() - begin, 50 * NSEC_PER_MSEC);
	while ((r = file_opener_connect(pair[0])) >= 0 && n++ < 100000)
		fd_close(r);
	ck_assert_int_eq(r, -EAGAIN);
	fd_close(pair[0]);
	fd_close(pair[1]);
}
END_TEST

START_TEST(without_a_tree_it_ends_as_well)
{
	struct err e = {0};
	fd_auto other = file_opener_start("unit", 3, clock_now() + PATIENCE_NS, &e);
	ck_assert_int_ge(other, 0);
	ck_assert_int_eq(fd_send(other, "", 1, NULL, 0), 0);
	ck_assert_int_eq(fd_wait(other, POLLIN, clock_now() + PATIENCE_NS), 1);
	ck_assert(fd_is_hung_up(other));
}
END_TEST

/* A process of ours would come back to us as a child, when its parent has ended. */
START_TEST(where_orphans_are_the_programs_there_is_none)
{
	struct target_desc d = {0};
	ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	ck_assert_int_eq(file_opener_for(&d, clock_now() + PATIENCE_NS), -1);
	ck_assert_str_eq(d.notes,
		"files that the profiler may not open have no names: the process that opens them would become the "
		"program's child");
}
END_TEST

START_TEST(a_start_that_takes_too_long)
{
	struct target_desc d = {.id = "unit", .start_time = 4};
	int r = 0;
	for (int tries = 0; r >= 0 && tries < 100; tries++) { /* it may be there before we look for the first time */
		r = file_opener_for(&d, clock_now());
		fd_close(r);
	}
	ck_assert_int_eq(r, -1);
	ck_assert_str_eq(d.notes,
		"files that the profiler may not open have no names: the process that opens them did not begin in "
		"time");
}
END_TEST

START_TEST(a_tree_that_cannot_be_given)
{
	struct target_desc d = {0};
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	fd_close(pair[1]);
	ck_assert_int_eq(file_opener_give_tree(pair[0], tree, &d), -1);
	ck_assert_str_eq(
		d.notes, "files that the profiler may not open have no names: the process that opens them has ended");
	ck_assert_int_eq(file_opener_give_tree(-1, tree, &d), -1); /* file_opener_for has noted why */
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(file_opener_give_tree(pair[0], tree, &d), pair[0]);
	fd_close(pair[0]);
	fd_close(pair[1]);
}
END_TEST

UNIT_SUITE(file_opener)
{
	Suite *s = suite_create("file_opener");
	TCase *t = tcase_create("file_opener");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, what_it_opens, 0, LENGTH(paths));
	tcase_add_loop_test(t, what_a_reader_takes_for_a_perf_map, 0, LENGTH(maps));
	tcase_add_loop_test(t, a_device_is_not_opened, 0, LENGTH(devices));
	tcase_add_loop_test(t, a_file_of_the_kernels_is_not_opened, 0, LENGTH(mounted));
	tcase_add_test(t, what_it_opens_is_what_it_looked_at);
	tcase_add_test(t, a_path_that_is_too_long);
	tcase_add_test(t, who_does_not_ask_is_not_waited_for);
	tcase_add_test(t, it_ends_with_who_may_ask);
	tcase_add_test(t, it_ends_with_who_says_no_more);
	tcase_add_test(t, who_asks_is_not_held_up);
	tcase_add_test(t, without_a_tree_it_ends_as_well);
	tcase_add_test(t, where_orphans_are_the_programs_there_is_none);
	tcase_add_test(t, a_start_that_takes_too_long);
	tcase_add_test(t, a_tree_that_cannot_be_given);
	suite_add_tcase(s, t);
	return s;
}

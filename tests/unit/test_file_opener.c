/* file_opener: what it opens and for whom, and when it ends. */
#include "shim/file_opener.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "shim/protocol.h"
#include "suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
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
	must("{ printf '\\177ELF' && head -c 12 /dev/zero && printf '\\4\\0'; } >d/core");
	must("chmod 600 d/program d/secret d/jit-7.dump d/core tmp/perf-7.map && chmod 700 d"); /* nobody else gets at
												   them */
	tree = fd_open(AT_FDCWD, dir, O_PATH | O_DIRECTORY, 0);
	opener = file_opener_start(clock_now() + PATIENCE_NS, &e);
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
	return file_opener_ask(sock, path, no_links);
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
	{"a perf map", "/tmp/perf-7.map", true, 0},
	{"a link out of the tree stays in it", "/d/out", false, -ENOENT},
	{"dots out of the tree stay in it", "/../../../../etc/passwd", false, -ENOENT},
	{"not there", "/d/none", false, -ENOENT},
	{"a directory", "/d", false, -EINVAL},
	{"a FIFO that nobody writes to", "/fifo", false, -EINVAL},
	{"a device outside", "/null", false, -ENOENT},
	{"a secret", "/d/secret", false, -EINVAL},
	{"a perf map that is a link to a secret", "/tmp/perf-9.map", false, -ELOOP},
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

START_TEST(a_device_is_not_opened)
{
	if (geteuid() != 0)
		return;
	must("mknod zero c 1 5");
	ck_assert_int_eq(ask("/zero", false), -EINVAL);
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
	int socks[8];
	for (size_t i = 0; i < LENGTH(socks); i++)
		ck_assert_int_ge(socks[i] = file_opener_connect(opener), 0);
	fd_auto turned_away = file_opener_connect(opener);
	ck_assert_int_eq(file_opener_ask(turned_away, "/d/program", false), -EPIPE);
	fd_auto fd = file_opener_ask(socks[5], "/d/program", false);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(file_opener_ask(socks[5], "/d/program", false), -EPIPE); /* a socket is for one question */
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

START_TEST(without_a_tree_it_ends_as_well)
{
	struct err e = {0};
	fd_auto other = file_opener_start(clock_now() + PATIENCE_NS, &e);
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
		"files that the profiler may not open have no names: a process of ours would be the program's child");
}
END_TEST

UNIT_SUITE(file_opener)
{
	Suite *s = suite_create("file_opener");
	TCase *t = tcase_create("file_opener");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, what_it_opens, 0, LENGTH(paths));
	tcase_add_test(t, a_device_is_not_opened);
	tcase_add_test(t, a_path_that_is_too_long);
	tcase_add_test(t, who_does_not_ask_is_not_waited_for);
	tcase_add_test(t, it_ends_with_who_may_ask);
	tcase_add_test(t, without_a_tree_it_ends_as_well);
	tcase_add_test(t, where_orphans_are_the_programs_there_is_none);
	suite_add_tcase(s, t);
	return s;
}

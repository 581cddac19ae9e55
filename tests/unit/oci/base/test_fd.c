/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/fd.h"

#include "tests/unit/support/child.h"
#include "tests/unit/support/few_fds.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds, root;
static char dir[64];

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_fd.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	fds = fd_count();
	root = fd_open_dir(AT_FDCWD, dir);
	ck_assert_int_ge(root, 0);
}

static void end(void)
{
	char command[96];
	root = fd_close(root);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void put(const char *name, const void *bytes, size_t size)
{
	fd_auto fd = fd_open(root, name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, bytes, size), 0);
}

static int null_fd(void)
{
	int fd = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* --- opening and closing */

START_TEST(closed_once_and_empty_after)
{
	int fd = null_fd();
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert(fd_is(fd));
	errno = EDOM;
	ck_assert_int_eq(fd_close(fd), -1);
	ck_assert_int_eq(fd_close(fd), -1); /* no longer ours: nothing happens, errno stays */
	ck_assert_int_eq(errno, EDOM);
	ck_assert(!fd_is(fd));
	ck_assert_int_eq(fd_close(-1), -1);
	ck_assert_int_eq(fd_close(-ENOENT), -1);
	fd = null_fd();
	fd_closep(&fd);
	ck_assert_int_eq(fd, -1);
	ck_assert(!fd_is(-1));
	ck_assert_int_eq(fd_open(root, "no", O_RDONLY, 0), -ENOENT);
	put("file", "x", 1);
	ck_assert_int_eq(fd_open_dir(root, "file"), -ENOTDIR);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

/* A tree with a secret outside; `tree` is the root. */
static void plant(void)
{
	put("secret", "out", 3);
	ck_assert_int_eq(mkdirat(root, "tree", 0700), 0);
	ck_assert_int_eq(mkdirat(root, "tree/etc", 0700), 0);
	put("tree/secret", "in", 2);
	put("tree/etc/file", "in", 2);
	ck_assert_int_eq(symlinkat("/secret", root, "tree/absolute"), 0);
	ck_assert_int_eq(symlinkat("../../../../../../../../secret", root, "tree/etc/up"), 0);
	ck_assert_int_eq(symlinkat("/etc", root, "tree/to-etc"), 0);
	ck_assert_int_eq(symlinkat("loop", root, "tree/loop"), 0);
	ck_assert_int_eq(symlinkat("/proc/self/exe", root, "tree/exe"), 0);
	ck_assert_int_eq(symlinkat("/proc/self/cwd/secret", root, "tree/magic"), 0);
}

static const struct {
	const char *scenario, *path;
	int result;
} beneath[] = {
	{"a file", "etc/file", 0},
	{"an absolute path begins at the root", "/etc/file", 0},
	{"up and down inside", "etc/../etc/file", 0},
	{"up from the root stays at the root", "../secret", 0},
	{"up many times", "etc/../../../../secret", 0},
	{"an absolute link", "absolute", 0},
	{"a link that climbs", "etc/up", 0},
	{"a link to a directory, and on", "to-etc/../secret", 0},
	{"only the outside has it", "../../tmp", -ENOENT},
	{"a link to where this program really is", "exe", -ENOENT},
	{"a link through /proc", "magic", -ENOENT},
	{"a link to itself", "loop", -ELOOP},
	{"nothing", "", -ENOENT},
	{"a file as a directory", "secret/x", -ENOTDIR},
};

START_TEST(the_root_is_never_left)
{
	char text[16];

	plant();
	fd_auto tree = fd_open_dir(root, "tree");
	int fd = fd_open_beneath(tree, beneath[_i].path, O_RDONLY);
	ck_assert_msg(beneath[_i].result < 0 ? fd == beneath[_i].result : fd >= 0, "%s: %d", beneath[_i].scenario, fd);
	if (fd >= 0) {
		ck_assert_int_eq(fd_read_all(fd, text, sizeof(text)), 2);
		ck_assert_msg(!memcmp(text, "in", 2), "%s", beneath[_i].scenario);
		ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
		fd_close(fd);
	}
	tree = fd_close(tree);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(magic_links_are_not_followed)
{
	fd_auto proc = fd_open_dir(AT_FDCWD, "/proc");
	ck_assert_int_eq(fd_open_beneath(proc, "self/exe", O_RDONLY), -ELOOP);
	ck_assert_int_eq(fd_open_beneath(proc, "self/cwd/secret", O_RDONLY), -ELOOP);
	proc = fd_close(proc);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

/* openat2(2) says EAGAIN to a path with ".." that it walked while anything was renamed or mounted. */
START_TEST(a_path_with_dots_while_another_process_renames)
{
	put("file", "x", 1);
	put("a", "x", 1);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		for (;;)
			if (renameat(root, "a", root, "b") < 0 || renameat(root, "b", root, "a") < 0)
				_exit(1);
	int wrong = 0;
	for (int i = 0; i < 20000 && !wrong; i++) {
		fd_auto fd = fd_open_beneath(root, "/../../../file", O_RDONLY);
		wrong = fd < 0 ? fd : 0;
	}
	kill(pid, SIGKILL);
	int status = child_process_wait(pid, deadline_in(20 * NSEC_PER_SEC));
	ck_assert_msg(wrong == 0, "%s", strerror(-wrong));
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%#x", status);
}
END_TEST

/* --- reading and writing */

START_TEST(what_comes_in_pieces_is_read_whole)
{
	int p[2];
	char text[16] = "";

	ck_assert_int_eq(pipe2(p, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 6; i++) {
			usleep(2000);
			if (write(p[1], "abcdef" + i, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	fd_close(p[1]);
	ck_assert_int_eq(fd_read_all(p[0], text, 4), 4); /* no more than asked for */
	ck_assert_int_eq(memcmp(text, "abcd", 4), 0);
	ck_assert_int_eq(fd_read_all(p[0], text, sizeof(text)), 2); /* the end */
	ck_assert_int_eq(fd_read_all(p[0], text, sizeof(text)), 0);
	fd_close(p[0]);
	ck_assert_int_eq(child_process_wait(pid, deadline_in(5 * NSEC_PER_SEC)), 0);
	ck_assert_int_eq(fd_read_all(-1, text, 1), -EBADF);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(whole_reads_and_writes_of_a_file)
{
	char text[16] = "";

	put("file", "0123456789", 10);
	fd_auto fd = fd_open(root, "file", O_RDWR, 0);
	ck_assert_int_eq(fd_pread_all(fd, text, 4, 3), 4);
	ck_assert_int_eq(memcmp(text, "3456", 4), 0);
	ck_assert_int_eq(fd_pread_all(fd, text, sizeof(text), 8), 2);
	ck_assert_int_eq(fd_pread_all(fd, text, sizeof(text), 100), 0);
	ck_assert_int_eq(fd_pread_all(-1, text, 1, 0), -EBADF);
	ck_assert_int_eq(fd_write_all(-1, text, 1), -EBADF);
	fd_auto full = fd_open(AT_FDCWD, "/dev/full", O_WRONLY, 0);
	ck_assert_int_eq(fd_write_all(full, text, 1), -ENOSPC);
	fd = fd_close(fd);
	full = fd_close(full);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

static const struct {
	const char *scenario;
	size_t size, cap;
	int result;
} slurps[] = {
	{"empty", 0, 100, 0},
	{"smaller than the cap", 99, 100, 0},
	{"as long as the cap", 100, 100, 0},
	{"one more", 101, 100, -EFBIG},
	{"the first buffer exactly", 16384, 1 << 20, 0},
	{"the first buffer and the cap exactly", 16384, 16384, 0},
	{"the first buffer and one over the cap", 16385, 16384, -EFBIG},
	{"several buffers", 300000, 1 << 20, 0},
	{"several buffers, as long as the cap", 300000, 300000, 0},
	{"several buffers, one over the cap", 300001, 300000, -EFBIG},
	{"nothing allowed, nothing there", 0, 0, 0},
	{"nothing allowed", 1, 0, -EFBIG},
};

START_TEST(a_file_up_to_a_cap)
{
	char *bytes = malloc(slurps[_i].size + 1), *text = NULL;
	size_t len = 0;

	for (size_t i = 0; i < slurps[_i].size; i++)
		bytes[i] = (char)(i * 7);
	put("file", bytes, slurps[_i].size);
	fd_auto fd = fd_open(root, "file", O_RDONLY, 0);
	int r = fd_slurp(fd, slurps[_i].cap, &text, &len);
	ck_assert_msg(r == slurps[_i].result, "%s: %d", slurps[_i].scenario, r);
	if (r == 0) {
		ck_assert_uint_eq(len, slurps[_i].size);
		ck_assert_int_eq(memcmp(text, bytes, len), 0);
		ck_assert_int_eq(text[len], 0);
	}
	ck_assert(r == 0 || !text);
	free(text);
	free(bytes);
	ck_assert_int_eq(fd_slurp(-1, 10, &text, &len), -EBADF);
	fd = fd_close(fd);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

static const struct {
	const char *scenario, *content, *expect;
} texts[] = {
	{"a line", "7\n", "7"},
	{"without an end", "7", "7"},
	{"several newlines", "7\n\n\n", "7"},
	{"newlines only", "\n\n", ""},
	{"empty", "", ""},
	{"two lines", "a\nb\n", "a\nb"},
	{"longer than the buffer", "0123456789", "0123456"},
};

START_TEST(a_small_text)
{
	char text[8] = "#######";

	put("file", texts[_i].content, strlen(texts[_i].content));
	ck_assert_int_eq(fd_read_text(root, "file", text, sizeof(text)), 0);
	ck_assert_msg(!strcmp(text, texts[_i].expect), "%s: \"%s\"", texts[_i].scenario, text);
	ck_assert_int_eq(fd_write_text(root, "file", "new"), 0);
	ck_assert_int_eq(fd_write_text(root, "no", "new"), -ENOENT); /* it makes no files */
	ck_assert_int_eq(fd_read_text(root, "no", text, sizeof(text)), -ENOENT);
	ck_assert_int_eq(fd_read_text(root, ".", text, sizeof(text)), -EISDIR);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

/* --- passing descriptors */

static void pair(int s[2])
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s), 0);
}

static void unpair(int s[2])
{
	fd_close(s[0]);
	fd_close(s[1]);
}

static const size_t numbers[] = {0, 1, 2, 252, FD_PASS_MAX};

START_TEST(descriptors_arrive)
{
	int s[2], out[FD_PASS_MAX], in[FD_PASS_MAX];
	size_t n = numbers[_i], got;
	char text[8];
	struct stat sent, there;

	pair(s);
	for (size_t i = 0; i < n; i++)
		out[i] = null_fd();
	ck_assert_int_eq(fd_send(s[0], "hello", 5, out, n), 0);
	ck_assert_int_eq(fd_recv(s[1], text, sizeof(text), in, FD_PASS_MAX, &got), 5);
	ck_assert_uint_eq(got, n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_eq(fcntl(in[i], F_GETFD), FD_CLOEXEC);
		ck_assert(fstat(out[i], &sent) == 0 && fstat(in[i], &there) == 0);
		ck_assert_uint_eq(sent.st_rdev, there.st_rdev);
		ck_assert_int_ne(in[i], out[i]);
		fd_close(out[i]);
		fd_close(in[i]);
	}
	unpair(s);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(too_many_at_once)
{
	int s[2], out[FD_PASS_MAX + 1] = {0};
	pair(s);
	ck_assert_int_eq(fd_send(s[0], "x", 1, out, FD_PASS_MAX + 1), -E2BIG);
	unpair(s);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(more_than_the_receiver_takes_are_closed)
{
	int s[2], in[2], out[5];
	size_t got;
	char c;

	pair(s);
	for (int i = 0; i < 5; i++)
		out[i] = null_fd();
	ck_assert_int_eq(fd_send(s[0], "x", 1, out, 5), 0);
	for (int i = 0; i < 5; i++)
		fd_close(out[i]);
	ck_assert_int_eq(fd_recv(s[1], &c, 1, in, 2, &got), 1);
	ck_assert_uint_eq(got, 2);
	ck_assert_int_eq(fd_count(), fds + 1 + 2 + 2);
	fd_close(in[0]);
	fd_close(in[1]);
	unpair(s);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(a_datagram_longer_than_the_buffer_is_an_error_and_its_descriptors_are_closed)
{
	int s[2], in[4], out = null_fd();
	size_t got = 99;
	char text[4];

	pair(s);
	ck_assert_int_eq(fd_send(s[0], "hello", 5, &out, 1), 0);
	ck_assert_int_eq(fd_send(s[0], "next", 4, NULL, 0), 0);
	ck_assert_int_eq(fd_recv(s[1], text, sizeof(text), in, 4, &got), -EMSGSIZE);
	ck_assert_uint_eq(got, 0);
	ck_assert_int_eq(fd_recv(s[1], text, sizeof(text), in, 4, &got), 4);
	fd_close(out);
	unpair(s);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

/* As many descriptors as there is room for are made by the kernel, the rest is dropped: none may stay. */
static void receive_without_room(const void *arg)
{
	int s[2], out[8], in[8];
	size_t got = 99;
	char c;

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s) == 0);
	for (int i = 0; i < 8; i++)
		MUST((out[i] = fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0)) >= 0);
	MUST(fd_send(s[0], "x", 1, out, 8) == 0);
	few_fds_begin(3);
	int before = fd_count();
	MUST(fd_recv(s[1], &c, 1, in, 8, &got) == -EMFILE);
	MUST(got == 0);
	MUST(fd_count() == before);
	for (int i = 0; i < 3; i++)
		MUST(fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0) >= 0);
	MUST(fd_open(AT_FDCWD, "/dev/null", O_RDONLY, 0) == -EMFILE);
}

START_TEST(a_receiver_out_of_descriptors)
{
	ck_assert_int_eq(in_child(receive_without_room, NULL), 0);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(a_peer_that_is_full_or_gone)
{
	int s[2];
	char c, big[4096] = "";
	size_t got;

	pair(s);
	ck_assert_int_eq(fcntl(s[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(fd_recv(s[0], &c, 1, NULL, 0, &got), -EAGAIN);
	int r, n = 0;
	while ((r = fd_send(s[0], big, sizeof(big), NULL, 0)) == 0 && n < 10000)
		n++;
	ck_assert_int_eq(r, -EAGAIN);
	unpair(s);

	pair(s);
	s[0] = fd_close(s[0]);
	ck_assert_int_eq(fd_send(s[1], "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
	ck_assert_int_eq(fd_recv(s[1], &c, 1, NULL, 0, &got), 0);
	ck_assert_uint_eq(got, 0);
	unpair(s);
	ck_assert_int_eq(fd_recv(-1, &c, 1, NULL, 0, &got), -EBADF);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(waiting_ends_at_the_deadline)
{
	int s[2];

	pair(s);
	int64_t began = clock_now();
	ck_assert_int_eq(fd_wait(s[0], POLLIN, deadline_in(30 * NSEC_PER_MSEC)), 0);
	ck_assert_int_ge(clock_now() - began, 30 * NSEC_PER_MSEC);
	ck_assert_int_eq(fd_wait(s[0], POLLIN, deadline_in(-1)), 0);
	ck_assert_int_eq(fd_send(s[1], "x", 1, NULL, 0), 0);
	ck_assert_int_eq(fd_wait(s[0], POLLIN, deadline_in(-1)), 1); /* late, but there is something */
	s[1] = fd_close(s[1]);
	ck_assert_int_eq(fd_wait(s[0], POLLIN, deadline_in(NSEC_PER_SEC)), 1);
	unpair(s);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

/* --- all of them */

/* `keep` says which of the descriptors 20..27 stay. */
static const struct {
	const char *scenario;
	int keep[6];
	size_t n;
	unsigned left; /* bit i: 20 + i is open */
} closings[] = {
	{"none", {0}, 0, 0},
	{"the first", {20}, 1, 1},
	{"the last", {27}, 1, 0x80},
	{"in any order", {26, 21, 23}, 3, 0x4a},
	{"neighbours", {22, 23, 24}, 3, 0x1c},
	{"one twice", {22, 22}, 2, 4},
	{"empty ones and one that is not open", {-1, 25, 1000, -ENOENT}, 4, 0x20},
	{"stdio is never touched", {0, 2, 24}, 3, 0x10},
};

static void close_all_but(const void *arg)
{
	const int row = *(const int *)arg;
	int null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	for (int i = 0; i < 8; i++)
		MUST(dup2(null, 20 + i) == 20 + i);
	int *keep = malloc(sizeof(closings[row].keep));
	memcpy(keep, closings[row].keep, sizeof(closings[row].keep));
	MUST(fd_close_all_but(keep, closings[row].n) == 0);
	for (int fd = 3; fd < 200; fd++) {
		bool left = fd >= 20 && fd < 28 && closings[row].left >> (fd - 20) & 1;
		if (fd_is(fd) != left) {
			dprintf(2, "%s: %d\n", closings[row].scenario, fd);
			_exit(1);
		}
	}
	MUST(fd_is(0) && fd_is(1) && fd_is(2));
	free(keep);
}

START_TEST(all_are_closed_but_some)
{
	ck_assert_int_eq(in_child(close_all_but, &_i), 0);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

static bool is_null(int fd)
{
	struct stat st, null;
	return fstat(fd, &st) == 0 && stat("/dev/null", &null) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == null.st_rdev;
}

/* Every combination of closed and chosen ones: bits 0-2 closed, 3-5 chosen. */
static void null_stdio(const void *arg)
{
	unsigned closed = *(const unsigned *)arg & 7, which = *(const unsigned *)arg >> 3;
	int report = fcntl(2, F_DUPFD, 10), file = memfd_create("stdio", 0);
	for (int fd = 0; fd < 3; fd++)
		MUST(dup2(file, fd) == fd);
	fd_close(file);
	int before = fd_count();
	for (int fd = 0; fd < 3; fd++)
		if (closed & 1u << fd)
			fd_close(fd);
	int r = fd_null_stdio(which), after = fd_count();
	for (int fd = 0; fd < 3; fd++) {
		bool want = (closed | which) & 1u << fd;
		if (r != 0 || after != before || is_null(fd) != want || !fd_is(fd) || fcntl(fd, F_GETFD) != 0) {
			dprintf(report, "closed %u, chosen %u: %d is wrong (%d)\n", closed, which, fd, r);
			_exit(1);
		}
	}
	MUST(write(0, "", 0) == 0); /* both ways */
}

START_TEST(stdio_becomes_null_where_chosen_and_where_closed)
{
	ck_assert_int_eq(in_child(null_stdio, &(unsigned){(unsigned)_i}), 0);
	ck_assert_int_eq(fd_count(), fds + 1);
}
END_TEST

START_TEST(counting)
{
	int a = null_fd(), n = fd_count();
	ck_assert_int_eq(n, fds + 2);
	fd_close(a);
	ck_assert_int_eq(fd_count(), n - 1);
}
END_TEST

START_TEST(seals_of_memory_files_alone)
{
	const int both = F_SEAL_SHRINK | F_SEAL_WRITE;
	fd_auto memory = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fd_auto file = fd_open(AT_FDCWD, "/proc/self/exe", O_RDONLY, 0);
	ck_assert(!fd_is_sealed(memory, both));
	ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	ck_assert(fd_is_sealed(memory, F_SEAL_SHRINK) && !fd_is_sealed(memory, both));
	ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), 0);
	ck_assert(fd_is_sealed(memory, both));
	ck_assert(!fd_is_sealed(file, both) && !fd_is_sealed(-1, both));
}
END_TEST

START_TEST(sealed_bytes_stay)
{
	char got[8];
	fd_auto fd = fd_make_sealed("sealed", "bytes", 5);
	ck_assert_int_ge(fd, 0);
	ck_assert(fd_is_sealed(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL));
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fd_pread_all(fd, got, sizeof(got), 0), 5);
	ck_assert_mem_eq(got, "bytes", 5);
	ck_assert_int_eq(fd_write_all(fd, "more", 4), -EPERM);
}
END_TEST

UNIT_SUITE(fd)
{
	Suite *s = suite_create("fd");
	TCase *t = tcase_create("fd");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, closed_once_and_empty_after);
	tcase_add_loop_test(t, the_root_is_never_left, 0, LENGTH(beneath));
	tcase_add_test(t, magic_links_are_not_followed);
	tcase_add_test(t, a_path_with_dots_while_another_process_renames);
	tcase_add_test(t, what_comes_in_pieces_is_read_whole);
	tcase_add_test(t, whole_reads_and_writes_of_a_file);
	tcase_add_loop_test(t, a_file_up_to_a_cap, 0, LENGTH(slurps));
	tcase_add_loop_test(t, a_small_text, 0, LENGTH(texts));
	tcase_add_loop_test(t, descriptors_arrive, 0, LENGTH(numbers));
	tcase_add_test(t, too_many_at_once);
	tcase_add_test(t, more_than_the_receiver_takes_are_closed);
	tcase_add_test(t, a_datagram_longer_than_the_buffer_is_an_error_and_its_descriptors_are_closed);
	tcase_add_test(t, a_receiver_out_of_descriptors);
	tcase_add_test(t, a_peer_that_is_full_or_gone);
	tcase_add_test(t, waiting_ends_at_the_deadline);
	tcase_add_loop_test(t, all_are_closed_but_some, 0, LENGTH(closings));
	tcase_add_loop_test(t, stdio_becomes_null_where_chosen_and_where_closed, 0, 64);
	tcase_add_test(t, seals_of_memory_files_alone);
	tcase_add_test(t, sealed_bytes_stay);
	tcase_add_test(t, counting);
	suite_add_tcase(s, t);
	return s;
}

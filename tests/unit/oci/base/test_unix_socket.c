/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/unix_socket.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NO_GID ((gid_t)-1)

static char dir[64], path[UNIX_SOCKET_PATH_MAX];
static int fds;

static void setup(void)
{
	fds = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_unix_socket.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
}

static void teardown(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
	ck_assert_int_eq(fd_count(), fds);
}

static int listen_with(int type, mode_t mode, int backlog)
{
	return unix_socket_listen(unix_socket_new(type), path, mode, NO_GID, backlog);
}

static const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};

START_TEST(a_listener_is_reached)
{
	const int type = types[_i];
	ck_assert(!unix_socket_has_listener(path, type));
	fd_auto listener = listen_with(type, 0600, 4);
	ck_assert_int_ge(listener, 0);
	ck_assert(unix_socket_has_listener(path, type));
	fd_auto sock = unix_socket_connect(unix_socket_new(type), path);
	ck_assert_int_ge(sock, 0);
	ck_assert(fcntl(sock, F_GETFD) & FD_CLOEXEC && fcntl(sock, F_GETFL) & O_NONBLOCK);
	listener = fd_close(listener);
	ck_assert(!unix_socket_has_listener(path, type)); /* its file is still there */
	ck_assert_int_eq(unix_socket_connect(unix_socket_new(type), path), -ECONNREFUSED);
	ck_assert_int_eq(listen_with(type, 0600, 4), -EADDRINUSE);
}
END_TEST

START_TEST(a_full_listener_listens)
{
	fd_auto listener = listen_with(SOCK_SEQPACKET, 0600, 0);
	fd_auto first = unix_socket_connect(unix_socket_new(SOCK_SEQPACKET), path);
	ck_assert(listener >= 0 && first >= 0);
	ck_assert_int_eq(unix_socket_connect(unix_socket_new(SOCK_SEQPACKET), path), -EAGAIN);
	ck_assert(unix_socket_has_listener(path, SOCK_SEQPACKET));
}
END_TEST

static const mode_t modes[] = {0600, 0660, 0666};

START_TEST(the_file_has_its_mode)
{
	struct stat st;
	const mode_t before = umask(027);
	fd_auto listener = listen_with(SOCK_STREAM, modes[_i], 4);
	ck_assert_int_eq(umask(before), 027);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, modes[_i]);
	ck_assert_uint_eq(st.st_gid, getegid());
	ck_assert(listener >= 0 && S_ISSOCK(st.st_mode));
}
END_TEST

START_TEST(the_file_has_its_group)
{
	struct stat st;
	const gid_t gid = geteuid() == 0 ? 12345 : getegid(); /* root alone gives it */
	fd_auto listener = unix_socket_listen(unix_socket_new(SOCK_STREAM), path, 0660, 12345, 4);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert(listener >= 0 && st.st_gid == gid);
}
END_TEST

START_TEST(a_path_that_is_too_long)
{
	char name[UNIX_SOCKET_PATH_MAX + 1];
	memset(name, 'x', sizeof(name));
	name[UNIX_SOCKET_PATH_MAX] = 0;
	ck_assert_int_eq(unix_socket_connect(unix_socket_new(SOCK_STREAM), name), -ENAMETOOLONG);
	ck_assert_int_eq(unix_socket_listen(unix_socket_new(SOCK_STREAM), name, 0600, NO_GID, 4), -ENAMETOOLONG);
	name[UNIX_SOCKET_PATH_MAX - 1] = 0;
	ck_assert_int_eq(unix_socket_connect(unix_socket_new(SOCK_STREAM), name), -ENOENT);
}
END_TEST

START_TEST(an_error_is_handed_on)
{
	ck_assert_int_eq(unix_socket_new(-1), -EINVAL);
	ck_assert_int_eq(unix_socket_connect(-EMFILE, path), -EMFILE);
	ck_assert_int_eq(unix_socket_listen(-EMFILE, path, 0600, NO_GID, 4), -EMFILE);
}
END_TEST

UNIT_SUITE(unix_socket)
{
	Suite *s = suite_create("unix_socket");
	TCase *t = tcase_create("unix_socket");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_listener_is_reached, 0, sizeof(types) / sizeof(types[0]));
	tcase_add_test(t, a_full_listener_listens);
	tcase_add_loop_test(t, the_file_has_its_mode, 0, sizeof(modes) / sizeof(modes[0]));
	tcase_add_test(t, the_file_has_its_group);
	tcase_add_test(t, a_path_that_is_too_long);
	tcase_add_test(t, an_error_is_handed_on);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/service_client.h"

#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;
static char dir[64], control[96], memory[96];

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_service.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(control, sizeof(control), "%s/control.sock", dir);
	snprintf(memory, sizeof(memory), "%s/hook.state", dir);
	fds = fd_count();
}

static void end(void)
{
	unlink(control);
	unlink(memory);
	rmdir(dir);
}

static int serve(int type, int backlog)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	memcpy(un.sun_path, control, strlen(control) + 1);
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	if (backlog >= 0)
		ck_assert_int_eq(listen(fd, backlog), 0);
	return fd;
}

static void nobody(void) {}

static void one_that_ended(void)
{
	fd_close(serve(SOCK_SEQPACKET, 5));
}

static void one_that_does_not_listen_yet(void)
{
	serve(SOCK_SEQPACKET, -1); /* the test's process ends soon */
}

static void something_else(void)
{
	serve(SOCK_STREAM, 5);
}

static void a_file(void)
{
	fd_close(fd_open(AT_FDCWD, control, O_CREAT | O_WRONLY, 0600));
}

static const struct {
	const char *scenario;
	void (*prepare)(void);
	int result;
} absent[] = {
	{"nobody", nobody, -ENOENT},
	{"one that ended", one_that_ended, -ECONNREFUSED},
	{"one that does not listen yet", one_that_does_not_listen_yet, -ECONNREFUSED},
	{"something else", something_else, -EPROTOTYPE},
	{"a file", a_file, -ECONNREFUSED},
};

START_TEST(where_no_service_is)
{
	char sentence[128];
	struct err e = {0};

	absent[_i].prepare();
	int before = fd_count(), r = service_client_connect(control, &e);
	ck_assert_msg(r == absent[_i].result, "%s: %d", absent[_i].scenario, r);
	snprintf(sentence, sizeof(sentence), "cannot connect to %s: %s", control, strerror(-r));
	ck_assert_str_eq(e.text, sentence);
	service_client_failed(control); /* there is no memory: none is made */
	ck_assert_int_lt(access(memory, F_OK), 0);
	ck_assert_int_eq(fd_count(), before);
}
END_TEST

START_TEST(a_service)
{
	struct err e = {0};
	char text[8];
	size_t n;

	int listening = serve(SOCK_SEQPACKET, 5), fd = service_client_connect(control, &e);
	ck_assert_msg(fd >= 0, "%s", e.text);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	int peer = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_eq(fd_send(fd, "hello", 5, NULL, 0), 0);
	ck_assert_int_eq(fd_recv(peer, text, sizeof(text), NULL, 0, &n), 5);
	fd_close(peer);
	fd_close(fd);
	fd_close(listening);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static struct clock_driven leaping = {.leaps = true};

START_TEST(a_full_backlog_is_no_reason_to_wait)
{
	struct err e = {0};
	int waiting[16], n = 0, r;

	int listening = serve(SOCK_SEQPACKET, 1);
	clock_drive(&leaping);
	int64_t began = clock_now();
	while ((r = service_client_connect(control, &e)) >= 0 && n < (int)LENGTH(waiting))
		waiting[n++] = r;
	ck_assert_int_eq(r, -EAGAIN);
	ck_assert_int_ge(n, 1);
	ck_assert_int_eq(clock_now(), began);
	clock_drive(NULL);
	while (n)
		fd_close(waiting[--n]);
	fd_close(listening);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static bool is_skipped(void)
{
	struct err e = {0};
	char sentence[256];
	int fd = service_client_connect(control, &e);
	if (fd >= 0) {
		fd_close(fd);
		return false;
	}
	snprintf(sentence, sizeof(sentence), "pilliond at %s did not answer ", control);
	ck_assert_int_eq(fd, -EBUSY);
	ck_assert_ptr_eq(strstr(e.text, sentence), e.text);
	return true;
}

START_TEST(after_two_failures_it_is_skipped_until_it_is_back)
{
	struct stat st;

	int listening = serve(SOCK_SEQPACKET, 100), fd = service_client_memory_open(control);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert(stat(memory, &st) == 0 && (st.st_mode & 07777) == 0600);
	for (int round = 0; round < 3; round++) {
		ck_assert(!is_skipped());
		service_client_failed(control);
		ck_assert(!is_skipped());
		service_client_failed(control);
		ck_assert(is_skipped());
		service_client_failed(control);
		ck_assert(is_skipped());
		service_client_memory_reset(fd); /* it reads a greeting */
	}
	ck_assert(!is_skipped());
	service_client_failed(control);
	service_client_memory_reset(fd); /* one failure is forgotten as well */
	service_client_failed(control);
	ck_assert(!is_skipped());
	/* a service that starts again keeps what it finds, until it reads a greeting */
	service_client_failed(control);
	int again = service_client_memory_open(control);
	ck_assert(is_skipped());
	service_client_memory_reset(again);
	ck_assert(!is_skipped());
	service_client_memory_reset(-1);
	fd_close(again);
	fd_close(fd);
	fd_close(listening);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(skipped_before_it_is_looked_for)
{
	int fd = service_client_memory_open(control);
	service_client_failed(control);
	service_client_failed(control);
	ck_assert(is_skipped()); /* although nobody is there at all */
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario, *bytes;
	size_t size;
	bool skipped;
} memories[] = {
	{"empty", "", 0, false},
	{"cut", "\xff\xff\xff", 3, false},
	{"zero", "\0\0\0\0", 4, false},
	{"one", "\1\0\0\0", 4, false},
	{"two", "\2\0\0\0", 4, true},
	{"many", "\xff\xff\xff\xff", 4, true},
	{"more than it should hold", "\0\0\0\0\xff\xff", 6, false},
};

START_TEST(whatever_is_remembered)
{
	int listening = serve(SOCK_SEQPACKET, 5), fd = fd_open(AT_FDCWD, memory, O_CREAT | O_WRONLY, 0600);
	ck_assert_int_eq(fd_write_all(fd, memories[_i].bytes, memories[_i].size), 0);
	ck_assert_msg(is_skipped() == memories[_i].skipped, "%s", memories[_i].scenario);
	fd_close(fd);
	fd_close(listening);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_memory_that_is_a_link_is_none)
{
	int listening = serve(SOCK_SEQPACKET, 5);
	char text[8], other[96];
	snprintf(other, sizeof(other), "%s/other", dir);
	fd_close(fd_open(AT_FDCWD, other, O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(symlink(other, memory), 0);
	ck_assert_int_eq(service_client_memory_open(control), -ELOOP);
	service_client_failed(control);
	service_client_failed(control);
	ck_assert(!is_skipped());
	ck_assert_int_eq(fd_read_text(AT_FDCWD, other, text, sizeof(text)), 0);
	ck_assert_str_eq(text, "");
	unlink(other);
	fd_close(listening);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(paths_that_cannot_be)
{
	struct err e = {0};
	char path[256];

	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	ck_assert_int_eq(service_client_connect(path, &e), -ENAMETOOLONG);
	ck_assert_ptr_eq(strstr(e.text, "control socket /aaa"), e.text);
	path[200] = '/';
	ck_assert_int_eq(service_client_memory_open(path), -ENAMETOOLONG);
	ck_assert_int_eq(service_client_memory_open("control.sock"), -EINVAL); /* beside what? */
	ck_assert_int_eq(service_client_connect("no-such-socket", &e), -ENOENT);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(service_client)
{
	Suite *s = suite_create("service_client");
	TCase *t = tcase_create("service_client");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, where_no_service_is, 0, LENGTH(absent));
	tcase_add_test(t, a_service);
	tcase_add_test(t, a_full_backlog_is_no_reason_to_wait);
	tcase_add_test(t, after_two_failures_it_is_skipped_until_it_is_back);
	tcase_add_test(t, skipped_before_it_is_looked_for);
	tcase_add_loop_test(t, whatever_is_remembered, 0, LENGTH(memories));
	tcase_add_test(t, a_memory_that_is_a_link_is_none);
	tcase_add_test(t, paths_that_cannot_be);
	suite_add_tcase(s, t);
	return s;
}

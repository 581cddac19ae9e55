/* SPDX-License-Identifier: Apache-2.0 */
/* serving: where metrics are served, what lies there already, and whom a token is for. */
#include "profiler/web/http_listen.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[64];
static int fds;
static struct options options;
static struct http_listener serving;
static struct err e;

static void setup(void)
{
	fds = fd_count();
	snprintf(dir, sizeof(dir), "/tmp/test_serving.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	options_default(&options);
	snprintf(options.settings.paths.control, sizeof(options.settings.paths.control), "%s/control.sock", dir);
	e = (struct err){0};
}

static void teardown(void)
{
	char command[96];
	serving.fd = fd_close(serving.fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
	ck_assert_int_eq(fd_count(), fds);
}

static const char *at(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static int open_it(const char *metrics)
{
	if (metrics)
		ck_assert_int_eq(options_set(&options, OPTION_FLAG, "metrics", metrics, &e), 0);
	return http_listen(&options.settings, getegid(), false, &serving, &e);
}

static mode_t mode_of(const char *path)
{
	struct stat st;
	ck_assert_int_eq(lstat(path, &st), 0);
	return st.st_mode;
}

START_TEST(beside_the_control_socket_by_default)
{
	ck_assert_msg(open_it(NULL) == 0, "%s", e.text);
	ck_assert_int_ge(serving.fd, 0);
	ck_assert(mode_of(at("http.sock")) == (S_IFSOCK | 0660) && !serving.port && !serving.token[0]);
}
END_TEST

START_TEST(off)
{
	ck_assert_int_eq(open_it("off"), 0);
	ck_assert_int_eq(serving.fd, -1);
	ck_assert_int_lt(access(at("http.sock"), F_OK), 0);
}
END_TEST

START_TEST(elsewhere)
{
	ck_assert_int_eq(open_it(at("other")), 0);
	ck_assert(S_ISSOCK(mode_of(at("other"))));
}
END_TEST

/* A killed predecessor's file goes, a living one's stays; what is no socket is nobody's business of ours. */
START_TEST(what_lies_there)
{
	ck_assert_int_eq(open_it(NULL), 0);
	int first = serving.fd;
	ck_assert_int_eq(open_it(NULL), -EADDRINUSE);
	ck_assert_int_eq(serving.fd, -1);
	ck_assert_msg(strstr(e.text, "somebody listens at"), "%s", e.text);
	fd_close(first);
	ck_assert_int_eq(open_it(NULL), 0);
	serving.fd = fd_close(serving.fd);
	unlink(at("http.sock"));
	fd_close(fd_open(AT_FDCWD, at("http.sock"), O_WRONLY | O_CREAT, 0600));
	ck_assert_int_eq(open_it(NULL), -EEXIST);
	ck_assert(S_ISREG(mode_of(at("http.sock"))));
}
END_TEST

START_TEST(a_place_that_is_not_there)
{
	ck_assert_int_eq(open_it("/no/such/place"), -ENOENT);
	ck_assert_str_eq(e.text, "metrics: cannot listen at /no/such/place: No such file or directory");
	ck_assert_int_eq(serving.fd, -1);
}
END_TEST

/* A port that is free, as likely as not. */
static const char *some_port(void)
{
	static char text[32];
	snprintf(text, sizeof(text), "127.0.0.1:%d", 20000 + getpid() % 20000);
	return text;
}

START_TEST(a_port_has_a_token)
{
	char text[64];
	ck_assert_msg(open_it(some_port()) == 0, "%s", e.text);
	ck_assert_uint_eq(serving.port, 20000 + getpid() % 20000);
	ck_assert_uint_eq(strlen(serving.token), 32);
	ck_assert_uint_eq(strspn(serving.token, "0123456789abcdef"), 32);
	ck_assert_int_eq(mode_of(at("http.token")), S_IFREG | 0640);
	ck_assert_int_eq(fd_read_text(AT_FDCWD, at("http.token"), text, sizeof(text)), 0);
	ck_assert_str_eq(text, serving.token);
	int first = serving.fd;
	ck_assert_int_eq(open_it(NULL), -EADDRINUSE);
	fd_close(first);
}
END_TEST

static const struct {
	const char *there;
	bool kept;
} tokens[] = {
	{"0123456789abcdef0123456789abcdef", true},
	{"0123456789abcdef0123456789abcdef\n", true},
	{"", false},
	{"0123456789abcdef0123456789abcde", false},
	{"0123456789abcdef0123456789abcdef0", false},
	{"0123456789abcdef0123456789abcdeg", false},
	{"0123456789abcdef0123456789abcdef\nmore and more and more", false},
};

START_TEST(a_token_that_is_there)
{
	int fd = fd_open(AT_FDCWD, at("http.token"), O_WRONLY | O_CREAT, 0640);
	ck_assert_int_eq(fd_write_all(fd, tokens[_i].there, strlen(tokens[_i].there)), 0);
	fd_close(fd);
	ck_assert_int_eq(open_it(some_port()), 0);
	ck_assert_msg(!strncmp(serving.token, tokens[_i].there, 32) == tokens[_i].kept, "\"%s\" after \"%s\"",
		serving.token, tokens[_i].there);
	ck_assert_uint_eq(strlen(serving.token), 32);
}
END_TEST

UNIT_SUITE(http_listen)
{
	Suite *s = suite_create("http_listen");
	TCase *t = tcase_create("http_listen");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, beside_the_control_socket_by_default);
	tcase_add_test(t, off);
	tcase_add_test(t, elsewhere);
	tcase_add_test(t, what_lies_there);
	tcase_add_test(t, a_place_that_is_not_there);
	tcase_add_test(t, a_port_has_a_token);
	tcase_add_loop_test(t, a_token_that_is_there, 0, sizeof(tokens) / sizeof(tokens[0]));
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/log.h"

#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;
static char dir[64], path[80], text[8192];

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/test_log.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/log", dir);
	fds = fd_count();
}

static void end(void)
{
	unlink(path);
	rmdir(dir);
}

static const char *written(void)
{
	if (fd_read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		text[0] = 0;
	return text;
}

static const struct {
	const char *text;
	int level;
} levels[] = {
	{"error", LOG_ERR},
	{"warn", LOG_WARNING},
	{"info", LOG_INFO},
	{"debug", LOG_DEBUG},
	{"", -EINVAL},
	{"WARN", -EINVAL},
	{"warning", -EINVAL},
	{"7", -EINVAL},
};

START_TEST(names_of_levels)
{
	ck_assert_msg(log_parse_level(levels[_i].text) == levels[_i].level, "\"%s\"", levels[_i].text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(one_line_with_time_level_program_and_pid)
{
	char expect[64];
	int year, ms, used = 0;

	log_open("pillion-test", path);
	ck_assert_int_ge(log_fd(), 0);
	ck_assert_int_eq(fcntl(log_fd(), F_GETFD), FD_CLOEXEC);
	log_line(LOG_WARNING, "container=%s n=%d", "c1", 7);
	log_close();
	ck_assert_int_eq(log_fd(), -1);
	ck_assert_int_eq(sscanf(written(), "time=%d-%*2d-%*2dT%*2d:%*2d:%*2d.%3dZ %n", &year, &ms, &used), 2);
	ck_assert_int_ge(year, 2024);
	snprintf(expect, sizeof(expect), "level=warn prog=pillion-test pid=%d container=c1 n=7", (int)getpid());
	ck_assert_str_eq(text + used, expect);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *scenario;
	int at, line;
	bool seen;
} filters[] = {
	{"a warning at the default", LOG_WARNING, LOG_WARNING, true},
	{"an error at the default", LOG_WARNING, LOG_ERR, true},
	{"information at the default", LOG_WARNING, LOG_INFO, false},
	{"debugging when asked for", LOG_DEBUG, LOG_DEBUG, true},
	{"a warning when only errors count", LOG_ERR, LOG_WARNING, false},
};

START_TEST(the_level_filters)
{
	log_open("pillion-test", path);
	log_level(filters[_i].at);
	log_line(filters[_i].line, "here");
	log_close();
	ck_assert_msg((strstr(written(), "here") != NULL) == filters[_i].seen, "%s", filters[_i].scenario);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(no_text_makes_a_line_of_its_own)
{
	log_open("pillion-test", path);
	log_line(LOG_ERR, "id=%s", "a\nlevel=error b\033[2J\r\t\x7f.");
	log_close();
	written();
	ck_assert_ptr_null(strchr(text, '\n'));
	ck_assert_ptr_nonnull(strstr(text, "id=a?level=error b?[2J???."));
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_long_line_is_cut_and_still_ends)
{
	char big[4096];
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	log_open("pillion-test", path);
	log_line(LOG_ERR, "%s", big);
	log_line(LOG_ERR, "second");
	log_close();
	char *second = strchr(written(), '\n');
	ck_assert_ptr_nonnull(second);
	ck_assert_int_lt(second - text, 1200);
	ck_assert_int_eq(strncmp(second + 1, "time=", 5), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(lines_are_added_and_the_file_is_private)
{
	struct stat st;
	umask(0);
	for (int i = 0; i < 2; i++) {
		log_open("pillion-test", path);
		log_line(LOG_ERR, "line %d", i);
	}
	log_close();
	written();
	ck_assert_ptr_nonnull(strstr(text, "line 0"));
	ck_assert_ptr_nonnull(strstr(text, "line 1"));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0640);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void write_to_stderr(const void *arg)
{
	int fd = fd_open(AT_FDCWD, path, O_CREAT | O_WRONLY, 0600);
	MUST(fd >= 0 && dup2(fd, 2) == 2);
	log_open("pillion-test", "stderr");
	MUST(log_fd() > 2);
	log_line(LOG_ERR, "on stderr");
	log_close();
	MUST(fd_is(2));
}

START_TEST(standard_error_is_copied_not_taken)
{
	ck_assert_int_eq(in_child(write_to_stderr, NULL), 0);
	ck_assert_ptr_nonnull(strstr(written(), "on stderr"));
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void make_link(void)
{
	ck_assert_int_eq(symlink("/dev/null", path), 0);
}

static void make_fifo(void)
{
	ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void make_dir_missing(void)
{
	snprintf(path, sizeof(path), "%s/no/log", dir);
}

static const struct {
	const char *scenario;
	void (*prepare)(void);
} refused[] = {{"a link", make_link}, {"a FIFO that nobody reads", make_fifo},
	{"a directory that is not there", make_dir_missing}};

START_TEST(a_place_that_cannot_be_a_log_is_dropped)
{
	refused[_i].prepare();
	log_open("pillion-test", path);
	ck_assert_msg(log_fd() < 0, "%s", refused[_i].scenario);
	log_line(LOG_ERR, "nobody sees this"); /* and nobody waits or dies */
	log_close();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(log)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("log");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, names_of_levels, 0, LENGTH(levels));
	tcase_add_test(t, one_line_with_time_level_program_and_pid);
	tcase_add_loop_test(t, the_level_filters, 0, LENGTH(filters));
	tcase_add_test(t, no_text_makes_a_line_of_its_own);
	tcase_add_test(t, a_long_line_is_cut_and_still_ends);
	tcase_add_test(t, lines_are_added_and_the_file_is_private);
	tcase_add_test(t, standard_error_is_copied_not_taken);
	tcase_add_loop_test(t, a_place_that_cannot_be_a_log_is_dropped, 0, LENGTH(refused));
	suite_add_tcase(s, t);
	return s;
}

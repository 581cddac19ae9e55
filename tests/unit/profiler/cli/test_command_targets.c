/* SPDX-License-Identifier: Apache-2.0 */
/* command_targets: the name of a target in place of a path; what several have is listed. */
#include "oci/base/fd.h"
#include "profiler/cli/command.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static char top[] = "/tmp/pillion-named.XXXXXX";
static int fds, was;

static void must(const char *command)
{
	char line[1024];
	snprintf(line, sizeof(line), "cd %s && { %s; }", top, command);
	ck_assert_msg(system(line) == 0, "%s", command);
}

static void setup(void)
{
	char spool[64];
	fds = fd_count();
	was = fd_open_dir(AT_FDCWD, ".");
	strcpy(top, "/tmp/pillion-named.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(spool, sizeof(spool), "%s/spool", top);
	setenv("PILLION_SPOOL", spool, 1);
	must("for d in web prod/shop-0/main prod/shop-1/main prod/shop-1/db test/shop-0/db mixed prod/shop-0/mixed; do "
	     "mkdir -p spool/$d && echo x >spool/$d/20260101T000000Z-000000-cpu.pb.gz; done; mkdir -p here/file.d "
	     "spool/empty; "
	     "for i in $(seq -w 12); do mkdir -p spool/many/p-$i/many && echo x >spool/many/p-$i/many/"
	     "20260101T000000Z-000000-cpu.pb.gz; done; echo x >here/web.pb.gz");
	snprintf(spool, sizeof(spool), "%s/here", top);
	ck_assert_int_eq(chdir(spool), 0);
	command_keep_saying(true);
}

static void teardown(void)
{
	char line[64];
	command_keep_saying(false);
	unsetenv("PILLION_SPOOL");
	ck_assert_int_eq(fchdir(was), 0);
	fd_close(was);
	snprintf(line, sizeof(line), "rm -r %s", top);
	ck_assert_int_eq(system(line), 0);
	ck_assert_int_eq(fd_count(), fds);
}

static const struct {
	const char *name, *found; /* below the spool; NULL: it stays as it is */
	int code;
	const char *said;
} named[] = {
	{"web", "web/.", EXIT_DONE, ""},
	{"prod/shop-0/main", "prod/shop-0/main", EXIT_DONE, ""},
	{"shop-0/main", "prod/shop-0/main", EXIT_DONE, ""},
	{"main", NULL, EXIT_USAGE, "2 targets are called 'main': give one of prod/shop-0/main, prod/shop-1/main"},
	{"db", NULL, EXIT_USAGE, "2 targets are called 'db': give one of prod/shop-1/db, test/shop-0/db"},
	{"shop-1/db", "prod/shop-1/db", EXIT_DONE, ""},
	{"mixed", NULL, EXIT_USAGE, "2 targets are called 'mixed': give one of TOP/spool/mixed/., prod/shop-0/mixed"},
	{"many", NULL, EXIT_USAGE,
		"12 targets are called 'many': give one of many/p-01/many, many/p-02/many, many/p-03/many, "
		"many/p-04/many, many/p-05/many, many/p-06/many, many/p-07/many, many/p-08/many and 4 more"},
	{"ain", NULL, EXIT_DONE, ""},
	{"-0/main", NULL, EXIT_DONE, ""},
	{"nobody", NULL, EXIT_DONE, ""},
	{"empty", NULL, EXIT_DONE, ""},
	{"", NULL, EXIT_DONE, ""},
	{"./web", NULL, EXIT_DONE, ""},
	{"../web", NULL, EXIT_DONE, ""},
	{"/web", NULL, EXIT_DONE, ""},
	{"web.pb.gz", NULL, EXIT_DONE, ""}, /* what is there */
	{"file.d", NULL, EXIT_DONE, ""},
};

START_TEST(a_name_becomes_its_directory)
{
	char expect[256], *paths[] = {(char *)(uintptr_t)named[_i].name, NULL};
	ck_assert_int_eq(command_find_targets("top", 1, paths), named[_i].code);
	const char *said = command_said(), *at = strstr(named[_i].said, "TOP");
	if (at)
		snprintf(expect, sizeof(expect), "%.*s%s%s", (int)(at - named[_i].said), named[_i].said, top, at + 3);
	else
		snprintf(expect, sizeof(expect), "%s", named[_i].said);
	ck_assert_str_eq(said, expect);
	if (!named[_i].found) {
		ck_assert_ptr_eq(paths[0], named[_i].name);
		return;
	}
	snprintf(expect, sizeof(expect), "%s/spool/%s", top, named[_i].found);
	ck_assert_str_eq(paths[0], expect);
	free(paths[0]);
}
END_TEST

START_TEST(a_path_comes_before_a_name)
{
	char *paths[] = {(char *)(uintptr_t) "web", (char *)(uintptr_t) "web.pb.gz", (char *)(uintptr_t) "shop-1/db"};
	must("mkdir here/web");
	ck_assert_int_eq(command_find_targets("top", 3, paths), EXIT_DONE);
	ck_assert_str_eq(paths[0], "web");
	ck_assert_str_eq(paths[1], "web.pb.gz");
	ck_assert_ptr_nonnull(strstr(paths[2], "/spool/prod/shop-1/db"));
	free(paths[2]);
}
END_TEST

START_TEST(without_a_spool_it_is_a_path)
{
	char *paths[] = {(char *)(uintptr_t) "web"};
	setenv("PILLION_SPOOL", "/nonexistent/spool", 1);
	ck_assert_int_eq(command_find_targets("top", 1, paths), EXIT_DONE);
	ck_assert_str_eq(paths[0], "web");
	ck_assert_str_eq(command_said(), "");
}
END_TEST

UNIT_SUITE(command_targets)
{
	Suite *s = suite_create("command_targets");
	TCase *t = tcase_create("all");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, a_name_becomes_its_directory, 0, N(named));
	tcase_add_test(t, a_path_comes_before_a_name);
	tcase_add_test(t, without_a_spool_it_is_a_path);
	suite_add_tcase(s, t);
	return s;
}

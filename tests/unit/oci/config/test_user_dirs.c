/* SPDX-License-Identifier: Apache-2.0 */
/* A user's places: from the environment, in words that may be anything, and never somebody else's file of options. */
#include "oci/config/user_dirs.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[PATH_MAX];
static struct options o;

static void begin(void)
{
	snprintf(dir, sizeof(dir), "/tmp/places.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	unsetenv("XDG_RUNTIME_DIR");
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("HOME");
	options_default(&o);
}

static void end(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void make_file(const char *name, mode_t mode)
{
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (char *at = strchr(path + strlen(dir) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0755);
		*at = '/';
	}
	int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

START_TEST(from_the_environment)
{
	setenv("XDG_RUNTIME_DIR", "/run/me", 1);
	setenv("HOME", "/home/me", 1);
	user_dirs_use(&o);
	ck_assert_str_eq(o.settings.paths.control, "/run/me/pillion/control.sock");
	ck_assert_str_eq(o.settings.paths.spool, "/home/me/.local/state/pillion");
	setenv("XDG_STATE_HOME", "/state", 1);
	user_dirs_use(&o);
	ck_assert_str_eq(o.settings.paths.spool, "/state/pillion");
}
END_TEST

START_TEST(no_absolute_path_is_none)
{
	struct options before = o;
	setenv("XDG_STATE_HOME", "state", 1);
	setenv("HOME", "", 1);
	user_dirs_use(&o);
	ck_assert_str_eq(o.settings.paths.spool, before.settings.paths.spool);
}
END_TEST

START_TEST(too_long_is_none)
{
	char longer[4000];
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = 0;
	struct options before = o;
	setenv("XDG_RUNTIME_DIR", longer, 1);
	setenv("XDG_STATE_HOME", longer, 1);
	user_dirs_use(&o);
	ck_assert_str_eq(o.settings.paths.control, before.settings.paths.control);
	ck_assert_str_eq(o.settings.paths.spool, before.settings.paths.spool);
}
END_TEST

/* How the file is, and whether it counts. */
static const struct {
	const char *home, *name;
	mode_t mode, dir_mode;
	bool counts;
} files[] = {
	{"HOME", ".config/pillion/pillion.conf", 0600, 0755, true},
	{"XDG_CONFIG_HOME", "pillion/pillion.conf", 0644, 0755, true},
	{"HOME", ".config/pillion/pillion.conf", 0666, 0755, false},
	{"HOME", ".config/pillion/pillion.conf", 0600, 0777, false},
	{"HOME", ".config/pillion/other.conf", 0600, 0755, false},
};

START_TEST(users_file)
{
	make_file(files[_i].name, files[_i].mode);
	ck_assert_int_eq(chmod(dir, files[_i].dir_mode), 0);
	setenv(files[_i].home, dir, 1);
	int fd = user_dirs_user_file(path, sizeof(path));
	ck_assert_msg((fd >= 0) == files[_i].counts, "%d: %d", _i, fd);
	fd_close(fd);
}
END_TEST

START_TEST(no_link)
{
	char to[PATH_MAX];
	make_file("elsewhere", 0600);
	make_file(".config/pillion/x", 0600);
	snprintf(to, sizeof(to), "%s/.config/pillion/pillion.conf", dir);
	snprintf(path, sizeof(path), "%s/elsewhere", dir);
	ck_assert_int_eq(symlink(path, to), 0);
	setenv("HOME", dir, 1);
	ck_assert_int_lt(user_dirs_user_file(path, sizeof(path)), 0);
}
END_TEST

UNIT_SUITE(user_dirs)
{
	Suite *s = suite_create("user_dirs");
	TCase *t = tcase_create("user_dirs");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, from_the_environment);
	tcase_add_test(t, no_absolute_path_is_none);
	tcase_add_test(t, too_long_is_none);
	tcase_add_loop_test(t, users_file, 0, sizeof(files) / sizeof(files[0]));
	tcase_add_test(t, no_link);
	suite_add_tcase(s, t);
	return s;
}

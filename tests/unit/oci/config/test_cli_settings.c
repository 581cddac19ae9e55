/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of a command: which of the system's file, the user's file, the environment and the flags holds. */
#include "oci/config/cli_settings.h"

#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define SYSTEM "/etc/pillion"
#define HOME SYSTEM "/home" /* anywhere on the file system that is mounted there */

static struct options o;
static struct err mistake;

static const struct {
	const char *name, *system, *user, *environment, *flag;
	bool is_root;
	const char *spool, *control;
	uint32_t window_s;
} rows[] = {
	{"root, nothing", NULL, NULL, NULL, NULL, true, "/var/lib/pillion/profiles", "/run/pillion/control.sock", 60},
	{"root has the system's file", "spool = /data\nwindow = 20s\n", NULL, NULL, NULL, true, "/data",
		"/run/pillion/control.sock", 20},
	{"a user, nothing", NULL, NULL, NULL, NULL, false, HOME "/.local/state/pillion",
		SYSTEM "/run/pillion/control.sock", 60},
	{"a user's directories are not the system's", "spool = /data\ncontrol = /x.sock\nwindow = 20s\n", NULL, NULL,
		NULL, false, HOME "/.local/state/pillion", SYSTEM "/run/pillion/control.sock", 20},
	{"a user's file is behind both", "spool = /data\nwindow = 20s\n", "spool = /mine\nwindow = 30s\n", NULL, NULL,
		false, "/mine", SYSTEM "/run/pillion/control.sock", 30},
	{"the environment is behind the user's file", NULL, "spool = /mine\n", "/env", NULL, false, "/env",
		SYSTEM "/run/pillion/control.sock", 60},
	{"a flag is behind all", "spool = /data\n", "spool = /mine\n", "/env", "/flag", false, "/flag",
		SYSTEM "/run/pillion/control.sock", 60},
};

static void put_file(const char *path, const char *text)
{
	FILE *f = text ? fopen(path, "we") : NULL;
	ck_assert(!text || (f && fputs(text, f) >= 0 && fclose(f) == 0));
}

/* Nothing of this host's: an /etc/pillion of our own, in a mount namespace. */
static bool mount_system_directory(void)
{
	if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		(mkdir(SYSTEM, 0755) == 0 || errno == EEXIST) && mount("none", SYSTEM, "tmpfs", 0, "mode=0755") == 0)
		return true;
	skip("a mount namespace needs root");
	return false;
}

START_TEST(the_last_one_that_says_it_holds)
{
	char *argv[] = {"pillion", rows[_i].flag ? "--spool" : "rest", (char *)rows[_i].flag, NULL};
	if (!mount_system_directory())
		return;
	put_file(SYSTEM "/pillion.conf", rows[_i].system);
	ck_assert(mkdir(HOME, 0755) == 0 && mkdir(HOME "/.config", 0755) == 0 &&
		  mkdir(HOME "/.config/pillion", 0755) == 0);
	put_file(HOME "/.config/pillion/pillion.conf", rows[_i].user);
	if (!rows[_i].is_root)
		ck_assert_int_eq(system("chown -R 65534 " HOME), 0);
	setenv("HOME", HOME, 1);
	setenv("XDG_RUNTIME_DIR", SYSTEM "/run", 1);
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	if (rows[_i].environment)
		setenv("PILLION_SPOOL", rows[_i].environment, 1);
	if (!rows[_i].is_root)
		ck_assert_int_eq(seteuid(65534), 0);
	const int rest = cli_settings_read(&o, rows[_i].flag ? 3 : 2, argv, &mistake);
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_msg(!mistake.code, "%s: %s", rows[_i].name, mistake.text);
	ck_assert_int_eq(rest, rows[_i].flag ? 3 : 1);
	ck_assert_msg(!strcmp(o.settings.paths.spool, rows[_i].spool), "%s: %s", rows[_i].name, o.settings.paths.spool);
	ck_assert_msg(
		!strcmp(o.settings.paths.control, rows[_i].control), "%s: %s", rows[_i].name, o.settings.paths.control);
	ck_assert_uint_eq(o.request.window_s, rows[_i].window_s);
}
END_TEST

UNIT_SUITE(cli_settings)
{
	Suite *s = suite_create("cli_settings");
	TCase *t = tcase_create("cli_settings");
	tcase_add_loop_test(t, the_last_one_that_says_it_holds, 0, LENGTH(rows));
	suite_add_tcase(s, t);
	return s;
}

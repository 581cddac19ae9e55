/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/cli_settings.h"

#include "oci/base/fd.h"
#include "oci/config/user_dirs.h"

#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SYSTEM_FILE "/etc/pillion/pillion.conf"

static void keep_first(struct err *first, const struct err *e, int r)
{
	if (r < 0 && !first->code)
		*first = *e;
}

/* In a build tree the daemon lies beside this program; an installed program has no daemon beside it. */
static void use_daemon_beside(struct options *o)
{
	char path[PATH_MAX];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("pilliond"));
	if (n <= 0)
		return;
	path[n] = 0;
	char *base = strrchr(path, '/');
	if (!base)
		return;
	snprintf(base + 1, sizeof("pilliond"), "pilliond");
	if (access(path, X_OK) == 0)
		options_set(o, OPTION_FILE, "daemon", path, NULL);
}

/*
 * Sets the defaults that differ from a service's: a user other than root has directories of their own, PID 1 a short
 * window, a build tree its own daemon.
 */
static void set_defaults(struct options *o, bool starts_daemon)
{
	options_default(o);
	if (starts_daemon)
		use_daemon_beside(o);
	if (getpid() == 1)
		options_set(o, OPTION_FILE, "window", "10s", NULL);
}

static int read_user_file(struct options *o, const struct options *named, struct err *e)
{
	return named->settings.paths.config[0] ? options_read_file(o, OPTION_FILE, named->settings.paths.config, e)
					       : user_dirs_read_user(o, e);
}

static int read_settings(struct options *o, int argc, char **argv, bool starts_daemon, struct err *first)
{
	static struct options named; /* the user's file is named by flag or environment */
	struct err e = {0};
	int next;
	options_default(&named);
	options_read_env(&named, NULL);
	options_read_flags(&named, argc, argv, &next, NULL);
	set_defaults(o, starts_daemon);
	keep_first(first, &e, options_read_file(o, OPTION_FILE, SYSTEM_FILE, &e));
	if (geteuid() != 0)
		user_dirs_use(o); /* the directories in the system's file are root's */
	keep_first(first, &e, read_user_file(o, &named, &e));
	keep_first(first, &e, options_read_env(o, &e));
	keep_first(first, &e, options_read_flags(o, argc, argv, &next, &e));
	return next;
}

int cli_settings_read(struct options *o, int argc, char **argv, struct err *first)
{
	return read_settings(o, argc, argv, false, first);
}

int cli_settings_read_session(struct options *o, int argc, char **argv, struct err *first)
{
	return read_settings(o, argc, argv, true, first);
}

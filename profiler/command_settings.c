#include "profiler/command.h"

#include "oci/base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_FILE "/etc/pillion/pillion.conf"

static void keep_first(struct err *first, const struct err *e, int r)
{
	if (r < 0 && !first->code)
		*first = *e;
}

static const char *environment(const char *name)
{
	const char *value = getauxval(AT_SECURE) ? NULL : getenv(name);
	return value && value[0] == '/' ? value : NULL;
}

/* What differs from the defaults of a service: another user has another runtime directory, PID 1 a short window. */
static void set_defaults(struct options *o)
{
	char path[PATH_MAX];
	const char *dir = environment("XDG_RUNTIME_DIR");
	options_default(o);
	if (dir && geteuid() != 0) {
		snprintf(path, sizeof(path), "%.4000s/pillion/control.sock", dir);
		options_set(o, OPTION_FILE, "control", path, NULL);
	}
	if (getpid() == 1)
		options_set(o, OPTION_FILE, "window", "10s", NULL);
}

static bool is_own(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & 022);
}

/*
 * The user's file in its usual place, or -1. HOME is often that of who we were before; under sudo it may be that of who
 * asked, who must not choose what root runs: neither by a file there nor by a link to one that happens to be root's.
 */
static int open_user_file(char *path, size_t size)
{
	const char *config = environment("XDG_CONFIG_HOME"), *home = config ? config : environment("HOME");
	struct stat st;
	if (!home || stat(home, &st) < 0 || !is_own(&st))
		return -1;
	snprintf(path, size, "%.4000s%s/pillion/pillion.conf", home, config ? "" : "/.config");
	int fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_own(&st))
		return fd;
	return fd_close(fd);
}

static int read_user_file(struct options *o, const struct options *named, struct err *e)
{
	char path[PATH_MAX];
	if (named->settings.config[0])
		return options_read_file(o, OPTION_FILE, named->settings.config, e);
	fd_auto fd = open_user_file(path, sizeof(path));
	return fd < 0 ? 0 : options_read_fd(o, OPTION_FILE, fd, path, e);
}

int command_settings(struct options *o, int argc, char **argv, struct err *first)
{
	static struct options named; /* the user's file is named by flag or environment */
	struct err e = {0};
	int next;
	options_default(&named);
	options_read_env(&named, NULL);
	options_read_flags(&named, argc, argv, &next, NULL);
	set_defaults(o);
	keep_first(first, &e, options_read_file(o, OPTION_FILE, SYSTEM_FILE, &e));
	keep_first(first, &e, read_user_file(o, &named, &e));
	keep_first(first, &e, options_read_env(o, &e));
	keep_first(first, &e, options_read_flags(o, argc, argv, &next, &e));
	return next;
}

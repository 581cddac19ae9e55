/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/user_dirs.h"

#include "oci/base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

const char *user_dirs_environment(const char *name)
{
	const char *value = getauxval(AT_SECURE) ? NULL : getenv(name);
	return value && value[0] == '/' ? value : NULL;
}

static bool is_own(const struct stat *st)
{
	return st->st_uid == geteuid() && !(st->st_mode & 022);
}

int user_dirs_user_file(char *path, size_t size)
{
	const char *config = user_dirs_environment("XDG_CONFIG_HOME");
	const char *home = config ? config : user_dirs_environment("HOME");
	struct stat st;
	if (!home || stat(home, &st) < 0 || !is_own(&st))
		return -1;
	snprintf(path, size, "%.4000s%s/pillion/pillion.conf", home, config ? "" : "/.config");
	int fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && is_own(&st))
		return fd;
	return fd_close(fd);
}

int user_dirs_read_user(struct options *o, struct err *e)
{
	char path[PATH_MAX];
	fd_auto fd = user_dirs_user_file(path, sizeof(path));
	return fd < 0 ? 0 : options_read_fd(o, OPTION_FILE, fd, path, e);
}

/* Returns the uid of our root outside (user_namespaces(7)); 0 if we are not in a user namespace. */
static unsigned read_outer_uid(void)
{
	char text[4096];
	unsigned inside, uid;
	if (fd_read_text(AT_FDCWD, "/proc/self/uid_map", text, sizeof(text)) < 0 ||
		sscanf(text, "%u %u", &inside, &uid) != 2 || inside != 0)
		return 0;
	return uid;
}

bool user_dirs_in_userns(void)
{
	return geteuid() == 0 && read_outer_uid() != 0;
}

bool user_dirs_rootless(void)
{
	return user_dirs_in_userns() && access("/run", W_OK) < 0;
}

/* Makes the directories of a future file. */
static void make_parents(const char *file)
{
	char part[PATH_MAX];
	for (const char *at = strchr(file + 1, '/'); at; at = strchr(at + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(at - file), file);
		mkdir(part, 0755);
	}
}

static void set_path_option(struct options *o, const char *name, const char *path)
{
	struct err e;
	options_set(o, OPTION_FILE, name, path, &e); /* too long: the system's path stays */
}

static bool use_spool(struct options *o)
{
	const char *state = user_dirs_environment("XDG_STATE_HOME"),
		   *home = state ? state : user_dirs_environment("HOME");
	char path[PATH_MAX];
	if (!home)
		return false;
	snprintf(path, sizeof(path), "%.3000s%s/pillion", home, state ? "" : "/.local/state");
	set_path_option(o, "spool", path);
	return true;
}

static void use_control(struct options *o)
{
	const char *run = user_dirs_environment("XDG_RUNTIME_DIR");
	char path[PATH_MAX], own[48];
	snprintf(own, sizeof(own), "/run/user/%u", geteuid() == 0 ? read_outer_uid() : geteuid());
	if (!run && access(own, X_OK) < 0)
		return;
	snprintf(path, sizeof(path), "%.3000s/pillion/control.sock", run ? run : own);
	set_path_option(o, "control", path);
}

void user_dirs_use(struct options *o)
{
	char path[PATH_MAX];
	use_control(o);
	if (!use_spool(o) || !user_dirs_rootless() || access("/dev/log", W_OK) == 0)
		return;
	snprintf(path, sizeof(path), "%.1000s/pillion.log", o->settings.paths.spool);
	make_parents(path);
	set_path_option(o, "log", path);
}

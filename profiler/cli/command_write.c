/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* like: gives its owner and mode to the file; NULL: those of a new file. */
static int write_new(int dir, const char *file, const void *data, size_t len, const struct stat *like)
{
	fd_auto fd = fd_open(dir, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, like ? 0600 : 0666);
	if (fd < 0)
		return fd;
	int r = fd_write_all(fd, data, len);
	if (r == 0 && like && (fchown(fd, like->st_uid, like->st_gid) < 0 || fchmod(fd, like->st_mode & 07777) < 0))
		r = -errno;
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* By a temporary file beside it, with a name that a spool tidies up; only SIGKILL can leave it there. */
static int replace_file(int dir, const char *file, const void *data, size_t len, const struct stat *like)
{
	char temporary[PATH_MAX];
	sigset_t all, before;
	const char *slash = strrchr(file, '/');
	int n = slash ? (int)(slash - file) + 1 : 0;
	if (snprintf(temporary, sizeof(temporary), "%.*s.writing.%d", n, file, (int)getpid()) >= (int)sizeof(temporary))
		return -ENAMETOOLONG;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	unlinkat(dir, temporary, 0);
	int r = write_new(dir, temporary, data, len, like);
	if (r == 0 && renameat(dir, temporary, dir, file) < 0)
		r = -errno;
	if (r < 0)
		unlinkat(dir, temporary, 0);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return r;
}

/* The user may name a link: it stays one. */
int command_replace(int dir, const char *file, const char *path, const void *data, size_t len, struct err *e)
{
	struct stat st;
	bool there = fstatat(dir, file, &st, 0) == 0;
	char *real = there && dir == AT_FDCWD ? realpath(file, NULL) : NULL;
	int r = there && !S_ISREG(st.st_mode) ? -EINVAL
					      : replace_file(dir, real ? real : file, data, len, there ? &st : NULL);
	free(real);
	if (r == -EINVAL)
		return err_say(e, r, "cannot write %s: it is no regular file", path);
	return r < 0 ? err_set(e, r, "cannot write %s", path) : 0;
}

int command_write(const char *name, const char *output, const void *data, size_t len)
{
	struct err e = {0};
	if (!strcmp(output, "-")) {
		fwrite(data, 1, len, stdout); /* main reports a failure */
		return EXIT_DONE;
	}
	return command_replace(AT_FDCWD, output, output, data, len, &e) < 0
		       ? command_fail(name, EXIT_FAILED, "%s", e.text)
		       : EXIT_DONE;
}

int command_may_write(const char *name, const char *output)
{
	if (strcmp(output, "-") != 0 || !isatty(STDOUT_FILENO))
		return EXIT_DONE;
	return command_fail(
		name, EXIT_USAGE, "a profile is no text for a terminal: give a file, or send it through a pipe");
}

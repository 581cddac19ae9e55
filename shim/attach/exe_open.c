/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/exe_open.h"

#include "oci/base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool is_program(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_mode & 0111);
}

/* An executable that others may not read. A program is taken to be no secret. */
static bool is_unreadable_program(const struct stat *st)
{
	return is_program(st) && !(st->st_mode & S_IROTH);
}

int exe_self_fds(void)
{
	int fd = fd_open(AT_FDCWD, "/proc/self/fd", O_PATH | O_DIRECTORY, 0);
	return fd < 0 ? -1 : fd;
}

static int open_program(int tree, int self_fds, const char *path, bool (*fits)(const struct stat *st))
{
	struct stat st;
	char magic[4], name[16];
	fd_auto place = fd_open_on_root(tree, path, O_PATH);
	if (place < 0 || self_fds < 0 || fstat(place, &st) < 0 || !fits(&st))
		return -1;
	snprintf(name, sizeof(name), "%d", place);
	int fd = fd_open(self_fds, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd >= 0 && fd_pread_all(fd, magic, 4, 0) == 4 && !memcmp(magic, "\177ELF", 4))
		return fd;
	return fd_close(fd);
}

int exe_open_unreadable(int tree, int self_fds, const char *path)
{
	return open_program(tree, self_fds, path, is_unreadable_program);
}

int exe_open(int tree, int self_fds, const char *path)
{
	return open_program(tree, self_fds, path, is_program);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/install/atomic_file.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NEW ".pillion-new."

/* --- paths beneath the root --------------------------------------------------------------------------------- */

int atomic_file_parent(int root, const char *path, const char **ret_name)
{
	char dir[PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash || snprintf(dir, sizeof(dir), "%.*s/", (int)(slash - path), path) >= (int)sizeof(dir))
		return -ENAMETOOLONG;
	*ret_name = slash + 1;
	return fd_open_beneath(root, dir, O_RDONLY | O_DIRECTORY);
}

static int read_at(int dir, const char *name, char **ret, size_t *ret_len, struct stat *ret_st)
{
	fd_auto fd = fd_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, ret_st) < 0)
		return -errno;
	return S_ISREG(ret_st->st_mode) ? fd_slurp(fd, ATOMIC_FILE_FILE_MAX, ret, ret_len) : -ENOTTY;
}

static int set_file_error(int r, const char *path, struct err *e)
{
	if (r == -ELOOP)
		return err_say(e, r, "%s is a symbolic link, and pillion writes through none: put a file there", path);
	if (r == -ENOTTY)
		return err_say(e, r, "%s is no regular file", path);
	if (r == -ENOSPC || r == -EDQUOT)
		return err_say(e, r, "cannot write %s: no space or no inodes are left there; it is as it was", path);
	if (r == -EROFS)
		return err_say(e, r, "cannot write %s: its file system is read-only", path);
	return r == -ENOENT ? r : err_set(e, r, "cannot access %s", path);
}

int atomic_file_read(int root, const char *path, char **ret, size_t *ret_len, struct stat *ret_st, struct err *e)
{
	const char *name;
	fd_auto dir = atomic_file_parent(root, path, &name);
	int r = dir < 0 ? dir : read_at(dir, name, ret, ret_len, ret_st);
	return r < 0 ? set_file_error(r, path, e) : 0;
}

/* --- writing one file --------------------------------------------------------------------------------------- */

static int write_new(int dir, const char *name, const void *data, size_t len, const struct file_attributes *like)
{
	fd_auto fd = fd_open(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	int r = fd_write_all(fd, data, len);
	if (r == 0 && like->st && fchown(fd, like->st->st_uid, like->st->st_gid) < 0)
		r = -errno;
	if (r == 0 && fchmod(fd, like->st ? like->st->st_mode & 07777 : like->mode) < 0)
		r = -errno;
	if (r == 0 && like->st) {
		const struct timespec times[] = {like->st->st_atim, like->st->st_mtim};
		futimens(fd, times);
	}
	return r == 0 && fsync(fd) < 0 ? -errno : r;
}

/* Opens the directory of the temporary file: that of the file, or the parent of a directory that is read whole. */
static int open_nursery(int dir, const char *path, bool beside)
{
	const char *slash = strrchr(path, '/');
	const bool drop_ins = slash - path > 2 && slash[-1] == 'd' && slash[-2] == '.';
	return fd_open(dir, drop_ins && !beside ? ".." : ".", O_RDONLY | O_DIRECTORY, 0);
}

static const char *make_temp_name(const char *name, char buf[NAME_MAX + 1])
{
	snprintf(buf, NAME_MAX + 1, NEW "%.200s", name);
	return buf;
}

/* The path of the temporary file beneath the root, for other programs. */
static void candidate_of(const char *path, bool beside, char buf[PATH_MAX])
{
	char name[NAME_MAX + 1];
	const char *slash = strrchr(path, '/');
	const bool drop_ins = slash - path > 2 && slash[-1] == 'd' && slash[-2] == '.';
	snprintf(buf, PATH_MAX, "%.*s%s/%s", (int)(slash - path), path, drop_ins && !beside ? "/.." : "",
		make_temp_name(slash + 1, name));
}

static int replace_from(int nursery, int dir, const char *path, bool beside, const void *data, size_t len,
	const struct file_attributes *like, const struct file_validator *c, struct err *e)
{
	char new[NAME_MAX + 1], candidate[PATH_MAX];
	const char *name = strrchr(path, '/') + 1;
	make_temp_name(name, new);
	unlinkat(nursery, new, 0);
	int r = write_new(nursery, new, data, len, like);
	if (r < 0)
		set_file_error(r, path, e);
	if (r == 0 && c && c->fn) {
		candidate_of(path, beside, candidate);
		r = c->fn(c->arg, candidate, e);
	}
	if (r == 0 && renameat(nursery, new, dir, name) < 0) {
		r = -errno;
		set_file_error(r, path, e);
	}
	if (r < 0)
		unlinkat(nursery, new, 0);
	return r == 0 && fsync(dir) < 0 ? err_set(e, -errno, "cannot write %s", path) : r;
}

int atomic_file_replace(int root, const char *path, const void *data, size_t len, const struct file_attributes *like,
	const struct file_validator *c, struct err *e)
{
	const char *name;
	int r = -EXDEV;
	fd_auto dir = atomic_file_parent(root, path, &name);
	if (dir < 0)
		return err_set(e, dir, "cannot open the directory of %s", path);
	for (int beside = 0; r == -EXDEV && beside < 2; beside++) { /* X.d may be a mount of its own */
		fd_auto nursery = open_nursery(dir, path, beside);
		r = nursery < 0 ? err_set(e, nursery, "cannot open the directory of %s", path)
				: replace_from(nursery, dir, path, beside, data, len, like, c, e);
	}
	return r;
}

int atomic_file_remove(int root, const char *path, struct err *e)
{
	const char *name;
	fd_auto dir = atomic_file_parent(root, path, &name);
	if (dir == -ENOENT)
		return 0;
	int r = dir < 0 ? dir : unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	if (r == 0 && fsync(dir) < 0)
		r = -errno;
	return r < 0 ? err_set(e, r, "cannot remove %s", path) : 0;
}

void atomic_file_clean_up(int root, const char *path)
{
	char new[NAME_MAX + 1];
	const char *name;
	fd_auto dir = atomic_file_parent(root, path, &name);
	for (int beside = 0; dir >= 0 && beside < 2; beside++) {
		fd_auto nursery = open_nursery(dir, path, beside);
		if (nursery >= 0)
			unlinkat(nursery, make_temp_name(name, new), 0);
	}
}

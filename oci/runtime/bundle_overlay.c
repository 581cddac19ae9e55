/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/bundle_overlay.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG "config.json"
#define STATE ".container" /* a link to the container's state directory */
#define YOUNG_S 60	   /* a younger overlay is kept: its runtime may not have begun */
#define SWEPT 64	   /* at most so many are removed at a time, */
#define SEEN 4096	   /* of so many that are looked at */

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

static int make_place(const char *place)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s", place) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static void remove_all(const char *path)
{
	fd_auto dir = fd_open_dir(AT_FDCWD, path);
	DIR *list = dir < 0 ? NULL : fdopendir(dup(dir));
	for (struct dirent *de; list && (de = readdir(list));)
		if (!is_dots(de->d_name))
			unlinkat(dir, de->d_name, 0); /* links and one file: never the links' targets */
	if (list)
		closedir(list);
	rmdir(path);
}

static int link_all(int to, const char *bundle)
{
	char target[PATH_MAX];
	int r = 0;
	fd_auto dir = fd_open_dir(AT_FDCWD, bundle);
	DIR *list = dir < 0 ? NULL : fdopendir(dup(dir));
	if (!list)
		return dir < 0 ? dir : -errno;
	for (struct dirent *de; r == 0 && (de = readdir(list));) {
		if (is_dots(de->d_name) || !strcmp(de->d_name, CONFIG) || !strcmp(de->d_name, STATE))
			continue;
		if (snprintf(target, sizeof(target), "%s/%s", bundle, de->d_name) >= (int)sizeof(target))
			r = -ENAMETOOLONG;
		else if (symlinkat(target, to, de->d_name) < 0)
			r = -errno;
	}
	closedir(list);
	return r;
}

static int fill_overlay(int to, const char *bundle, const char *state, const char *config, size_t len)
{
	fd_auto file = fd_open(to, CONFIG, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int r = file < 0 ? file : fd_write_all(file, config, len);
	if (r == 0 && symlinkat(state, to, STATE) < 0)
		r = -errno;
	return r == 0 ? link_all(to, bundle) : r;
}

int bundle_overlay_make(const char *place, const char *bundle, const char *state, const char *config, size_t len,
	char ret[PATH_MAX], struct err *e)
{
	int r = make_place(place);
	if (r < 0)
		return err_set(e, r, "cannot make %s", place);
	if (snprintf(ret, PATH_MAX, "%s/XXXXXX", place) >= PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "cannot make a bundle in %s", place);
	if (!mkdtemp(ret))
		return err_set(e, -errno, "cannot make a bundle in %s", place);
	fd_auto dir = fd_open_dir(AT_FDCWD, ret);
	r = dir < 0 ? dir : fill_overlay(dir, bundle, state, config, len);
	if (r < 0)
		remove_all(ret);
	return r < 0 ? err_set(e, r, "cannot make a bundle in %s", place) : 0;
}

static bool is_over(int place, const char *name)
{
	char link[300], state[PATH_MAX];
	struct stat st;
	snprintf(link, sizeof(link), "%s/" STATE, name);
	if (fstatat(place, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode) ||
		clock_real() / NSEC_PER_SEC - st.st_mtime < YOUNG_S)
		return false;
	const ssize_t n = readlinkat(place, link, state, sizeof(state) - 1);
	if (n < 0)
		return true; /* half made */
	state[n] = 0;
	return lstat(state, &st) < 0 && errno == ENOENT;
}

void bundle_overlay_sweep(const char *place)
{
	char path[PATH_MAX];
	fd_auto dir = fd_open_dir(AT_FDCWD, place);
	DIR *list = dir < 0 ? NULL : fdopendir(dup(dir));
	unsigned seen = 0, swept = 0;
	for (struct dirent *de; list && swept < SWEPT && seen < SEEN && (de = readdir(list)); seen++) {
		if (is_dots(de->d_name) || !is_over(dir, de->d_name) ||
			snprintf(path, sizeof(path), "%s/%s", place, de->d_name) >= (int)sizeof(path))
			continue;
		remove_all(path);
		swept++;
	}
	if (list)
		closedir(list);
}

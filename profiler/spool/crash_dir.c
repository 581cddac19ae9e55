/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/crash_dir.h"

#include "oci/base/array.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/spool/spool.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TARGET_MAX 128
#define NAME_MAX_ 224
#define SUFFIX ".json"
#define STAMP "%Y%m%dT%H%M%S"
#define STAMP_LEN 25 /* 20261125T133510.123456789Z without its end */

/* --- names ------------------------------------------------------------------------------------------------ */

static void safe_name(const char *text, char *buf, size_t size)
{
	size_t n = 0;
	for (; text[n] && n + 1 < size; n++)
		buf[n] = isalnum((unsigned char)text[n]) || strchr("_.-", text[n]) ? text[n] : '_';
	buf[n] = 0;
}

static void file_name(const char *target, int64_t start_ns, uint32_t pid, char buf[NAME_MAX_])
{
	char stamp[32] = "19700101T000000", safe[TARGET_MAX];
	const time_t start = (time_t)(start_ns / NSEC_PER_SEC);
	struct tm tm;
	if (start >= 0 && start < 253402300800 && gmtime_r(&start, &tm)) /* four digits of year */
		strftime(stamp, sizeof(stamp), STAMP, &tm);
	safe_name(target, safe, sizeof(safe));
	snprintf(buf, NAME_MAX_, "%s.%09uZ-%s-%" PRIu32 SUFFIX, stamp, (unsigned)(start_ns % NSEC_PER_SEC), safe, pid);
}

/* Finds the target in a name, between the time and the pid. False: it is no report. */
static bool parse_name(const char *name, const char **ret_target, size_t *ret_len)
{
	const size_t len = strlen(name);
	if (len <= STAMP_LEN + 2 + strlen(SUFFIX) || strcmp(name + len - strlen(SUFFIX), SUFFIX) ||
		strspn(name, "0123456789T.") != STAMP_LEN || name[STAMP_LEN] != 'Z' || name[STAMP_LEN + 1] != '-')
		return false;
	const char *from = name + STAMP_LEN + 2, *to = name + len - strlen(SUFFIX);
	while (to > from && isdigit((unsigned char)to[-1]))
		to--;
	if (to == from || to[-1] != '-')
		return false;
	*ret_target = from;
	*ret_len = (size_t)(to - 1 - from);
	return true;
}

/* --- listing ----------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int append_name(char ***names, size_t *n, size_t *room, const char *name)
{
	if (array_reserve(names, room, *n + 2, sizeof(**names), 0) < 0)
		return -ENOMEM;
	(*names)[*n] = strdup(name);
	if (!(*names)[*n])
		return -ENOMEM;
	(*names)[++*n] = NULL;
	return 0;
}

void crash_dir_list_done(char **names)
{
	for (char **at = names; at && *at; at++)
		free(*at);
	free(names);
}

int crash_dir_list(int dir, char ***ret, size_t *ret_n)
{
	char **names = calloc(1, sizeof(*names));
	size_t n = 0, room = 1, len;
	const char *target;
	const int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	int r = copy < 0 ? copy : d && names ? 0 : -ENOMEM;
	if (copy >= 0 && !d)
		fd_close(copy);
	for (const struct dirent *de; r == 0 && (de = readdir(d));)
		if (parse_name(de->d_name, &target, &len))
			r = append_name(&names, &n, &room, de->d_name);
	if (d)
		closedir(d);
	if (r < 0) {
		crash_dir_list_done(names);
		return r;
	}
	qsort(names, n, sizeof(*names), by_name);
	*ret = names;
	*ret_n = n;
	return 0;
}

/* Makes room for one more of that target. */
static void make_room(int dir, const char *coming)
{
	char **names;
	const char *target, *other;
	size_t n, len, other_len, of_target = 0, gone = 0;
	if (!parse_name(coming, &target, &len) || crash_dir_list(dir, &names, &n) < 0)
		return;
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < n; i++) {
			const bool same = parse_name(names[i], &other, &other_len) && other_len == len &&
					  !memcmp(other, target, len);
			if (!pass)
				of_target += same;
			else if ((same && of_target >= CRASH_DIR_TARGET_MAX) || n - gone >= CRASH_DIR_MAX) {
				unlinkat(dir, names[i], 0);
				of_target -= same;
				gone++;
			}
		}
	crash_dir_list_done(names);
}

/* --- writing ------------------------------------------------------------------------------------------------ */

/* Removes unfinished files of processes that were killed. */
static void remove_leftovers(int dir)
{
	const int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (copy >= 0 && !d)
		fd_close(copy);
	for (const struct dirent *de; d && (de = readdir(d));)
		if (spool_left_over(de->d_name))
			unlinkat(dir, de->d_name, 0);
	if (d)
		closedir(d);
}

static int write_file(int dir, const char *name, const void *data, size_t len)
{
	char temporary[32];
	spool_temporary(temporary);
	unlinkat(dir, temporary, 0);
	fd_auto fd = fd_open(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
	int r = fd < 0 ? fd : fd_write_all(fd, data, len);
	if (r == 0 && (fchmod(fd, 0640) < 0 || fsync(fd) < 0 || renameat(dir, temporary, dir, name) < 0))
		r = -errno;
	if (r < 0)
		unlinkat(dir, temporary, 0);
	return r;
}

int crash_dir_write(int spool, const char *target, int64_t start_ns, uint32_t pid, const void *data, size_t len,
	char *ret_path, size_t size, struct err *e)
{
	char name[NAME_MAX_];
	file_name(target, start_ns, pid, name);
	if (mkdirat(spool, CRASH_DIR, 0750) < 0 && errno != EEXIST)
		return err_set(e, -errno, "cannot make " CRASH_DIR);
	fd_auto dir = fd_open(spool, CRASH_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir < 0)
		return err_set(e, dir, "cannot open " CRASH_DIR);
	remove_leftovers(dir);
	make_room(dir, name);
	const int r = write_file(dir, name, data, len);
	if (r < 0)
		return err_set(e, r, "cannot write " CRASH_DIR "/%s", name);
	snprintf(ret_path, size, CRASH_DIR "/%s", name);
	return 0;
}

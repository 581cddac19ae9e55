/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool.h"

#include "oci/base/array.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KIND_MAX 64
#define FILE_MAX 128
#define SUFFIX ".pb.gz"
#define TEMPORARY ".writing" /* the one unfinished file of a process in a target's directory: .writing.PID */
#define STAMP "%Y%m%dT%H%M%SZ"
#define STAMP_LEN 16
#define SEQ_TRIES 1000
#define MAKE_TRIES 1000 /* each may fail: other writers remove empty directories */
#define BLOCK 4096u	/* unit of file systems: a file has as many as it needs, a directory at least one */

struct entry {
	char *path; /* "<target>/<file>" */
	uint64_t bytes;
	int64_t start_s;
};

/* A file to write. */
struct file_of {
	int64_t start_ns;
	unsigned seq;
	const char *kind;
	const void *data;
	size_t len;
};

struct spool {
	int dir;
	uint64_t cap_bytes, removed;
	uint64_t blocks; /* of the files, and one of each directory made or found with files */
	size_t directories;
	uint32_t cap_age_s;
	struct entry *entries; /* oldest first, from `first` on */
	size_t first, count, room;
	bool tidied; /* something was removed from the directory under way */
};

/* --- names */

static void file_name(int64_t start_ns, unsigned seq, const char *kind, char *buf, size_t size)
{
	char stamp[32] = "19700101T000000Z", safe[KIND_MAX];
	time_t start = (time_t)(start_ns / NSEC_PER_SEC);
	struct tm tm;
	if (start >= 0 && start < 253402300800 && gmtime_r(&start, &tm)) /* four digits of year */
		strftime(stamp, sizeof(stamp), STAMP, &tm);
	spool_safe_name(kind, safe, sizeof(safe));
	snprintf(buf, size, "%s-%06u-%s" SUFFIX, stamp, seq, safe);
}

bool spool_parse_name(const char *name, int64_t *ret_start_s)
{
	struct tm tm = {0};
	size_t len = strlen(name);
	if (len <= STAMP_LEN + strlen(SUFFIX) || strcmp(name + len - strlen(SUFFIX), SUFFIX))
		return false;
	const char *end = strptime(name, STAMP, &tm);
	if (end != name + STAMP_LEN || *end != '-')
		return false;
	*ret_start_s = timegm(&tm);
	return true;
}

const char *spool_event(const char *name, size_t *ret_len)
{
	const char *dash = strchr(name, '-');
	dash = dash ? strchr(dash + 1, '-') : NULL;
	const size_t len = dash ? strcspn(dash + 1, ".") : 0;
	if (ret_len)
		*ret_len = len;
	return len ? dash + 1 : NULL;
}

/* --- counting */

static uint64_t blocks_of(uint64_t bytes)
{
	return (bytes + BLOCK - 1) / BLOCK;
}

static void count_directory(struct spool *s)
{
	s->directories++;
	s->blocks++;
}

/*
 * Removes the target's directory and those above it, from the bottom up; a directory that is not empty stays, and so do
 * those above it. A writer that is making one of them makes it once more (begin). Returns how many.
 */
static size_t remove_directories(int spool, const char *target)
{
	char path[SPOOL_TARGET_MAX + 1], *end = path;
	size_t n = 0;
	snprintf(path, sizeof(path), "%s", target);
	while (end) {
		if (unlinkat(spool, path, AT_REMOVEDIR) == 0)
			n++;
		else if (errno != ENOENT) /* else another writer was faster */
			break;
		end = strrchr(path, '/');
		if (end)
			*end = 0;
	}
	return n;
}

static void uncount_directories(struct spool *s, size_t n)
{
	n = n < s->directories ? n : s->directories; /* there were others, without a file that is counted */
	s->directories -= n;
	s->blocks -= n;
}

static int add_entry(struct spool *s, const char *target, const char *file, uint64_t bytes, int64_t start_s)
{
	struct entry e = {.bytes = bytes, .start_s = start_s};
	if (s->first + s->count == s->room && s->first > s->count) {
		memmove(s->entries, s->entries + s->first, s->count * sizeof(e));
		s->first = 0;
	}
	if (array_reserve(&s->entries, &s->room, s->first + s->count + 1, sizeof(e), 64) < 0 ||
		asprintf(&e.path, "%s/%s", target, file) < 0)
		return -ENOMEM;
	s->entries[s->first + s->count++] = e;
	s->blocks += blocks_of(bytes);
	return 0;
}

/* Moves the newest entry to its place: windows come nearly in order, so that is near. */
static void settle_last(struct spool *s)
{
	size_t at = s->first + s->count - 1;
	struct entry e = s->entries[at];
	for (; at > s->first && s->entries[at - 1].start_s > e.start_s; at--)
		s->entries[at] = s->entries[at - 1];
	s->entries[at] = e;
}

static int by_start(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->start_s != y->start_s)
		return x->start_s < y->start_s ? -1 : 1;
	return strcmp(x->path, y->path);
}

static void remove_oldest(struct spool *s)
{
	struct entry *e = &s->entries[s->first++];
	s->count--;
	s->blocks -= blocks_of(e->bytes);
	s->removed++;
	unlinkat(s->dir, e->path, 0); /* another process may have removed it already */
	*strrchr(e->path, '/') = 0;
	uncount_directories(s, remove_directories(s->dir, e->path));
	free(e->path);
}

/* coming: blocks. */
static void apply_retention(struct spool *s, uint64_t coming)
{
	int64_t now_s = clock_real() / NSEC_PER_SEC;
	while (s->count && s->cap_age_s && s->entries[s->first].start_s < now_s - s->cap_age_s)
		remove_oldest(s);
	while (s->count && s->cap_bytes && (s->blocks + coming) * BLOCK > s->cap_bytes)
		remove_oldest(s);
}

/* --- opening: files of earlier processes */

void spool_temporary(char ret[static 32])
{
	snprintf(ret, 32, TEMPORARY ".%d", (int)getpid());
}

bool spool_left_over(const char *file)
{
	if (strncmp(file, TEMPORARY, strlen(TEMPORARY)) != 0)
		return false;
	const char *dot = file + strlen(TEMPORARY);
	pid_t pid = *dot == '.' ? (pid_t)strtol(dot + 1, NULL, 10) : 0;
	return pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH);
}

static int scan_file(struct spool *s, int dir, const char *target, const char *file)
{
	struct stat st;
	int64_t start_s;
	if (spool_left_over(file)) {
		s->tidied |= unlinkat(dir, file, 0) == 0;
		return 0;
	}
	if (!spool_parse_name(file, &start_s) || fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		!S_ISREG(st.st_mode))
		return 0;
	return add_entry(s, target, file, (uint64_t)st.st_size, start_s);
}

/* Removes unfinished files of an index. */
static int remove_left_over(int dir)
{
	int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		fd_close(copy);
		return copy < 0 ? copy : -ENOMEM;
	}
	for (struct dirent *de; (de = readdir(d));)
		if (spool_left_over(de->d_name))
			unlinkat(dir, de->d_name, 0);
	closedir(d);
	return 0;
}

struct scan {
	struct spool *spool;
	char counted[SPOOL_TARGET_MAX + 1]; /* the last directory that is: those above it are, too */
};

/* Directories come with all that is below them, one after the other: so the last one tells which are counted. */
static void count_directories(struct scan *scan, const char *target)
{
	const char *last = scan->counted, *at = target;
	bool same = true;
	for (size_t len; *at; at += len + (at[len] == '/')) {
		len = strcspn(at, "/");
		same = same && strcspn(last, "/") == len && !memcmp(last, at, len);
		if (!same)
			count_directory(scan->spool);
		else
			last += len + (last[len] == '/');
	}
	snprintf(scan->counted, sizeof(scan->counted), "%s", target);
}

static int scan_target(void *arg, int dir, const char *target)
{
	struct scan *scan = arg;
	struct spool *s = scan->spool;
	const size_t before = s->count;
	int copy = dir < 0 ? dir : fd_open_dir(dir, "."), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	bool directories = false;
	if (!d) {
		fd_close(copy);
		/* retention was faster; or it is nothing of ours: lost+found, where the spool is a file system of its
		 * own */
		return copy == -ENOENT || copy == -EACCES ? 0 : copy < 0 ? copy : -ENOMEM;
	}
	s->tidied = false;
	for (struct dirent *de; !r && (de = readdir(d));)
		if (strcmp(de->d_name, ".") && strcmp(de->d_name, "..")) {
			directories |= de->d_type == DT_DIR || de->d_type == DT_UNKNOWN;
			r = scan_file(s, dir, target, de->d_name);
		}
	closedir(d);
	if (s->count > before)
		count_directories(scan, target);
	else if (!r && s->tidied) /* else it is not ours to remove */
		remove_directories(s->dir, target);
	return r < 0 ? r : directories ? 0 : SPOOL_NO_DIRECTORIES;
}

int spool_open_take(int dir, uint64_t cap_bytes, uint32_t cap_age_s, struct spool **ret, struct err *e)
{
	struct spool *s = calloc(1, sizeof(*s));
	if (!s) {
		fd_close(dir);
		return err_set(e, -ENOMEM, "cannot open the spool");
	}
	*s = (struct spool){.dir = dir, .cap_bytes = cap_bytes, .cap_age_s = cap_age_s};
	struct scan scan = {.spool = s};
	int r = remove_left_over(dir);
	if (r == 0)
		r = spool_each_target(dir, scan_target, &scan);
	if (r < 0) {
		spool_close(s);
		return err_set(e, r, "cannot list the spool");
	}
	if (s->count)
		qsort(s->entries, s->count, sizeof(*s->entries), by_start);
	*ret = s;
	return 0;
}

/* --- writing */

/* Opens the target's directory, and makes it and those above it if need be: fd or -errno. */
static int open_target(struct spool *s, const char *target)
{
	size_t made;
	int dir = spool_target_make(s->dir, target, &made);
	while (made--)
		count_directory(s);
	return dir;
}

static int write_temporary(int dir, const char *temporary, const void *data, size_t len)
{
	unlinkat(dir, temporary, 0);
	fd_auto fd = fd_open(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
	if (fd < 0)
		return fd;
	int r = fd_write_all(fd, data, len);
	if (!r && (fchmod(fd, 0640) < 0 /* whatever the umask */ || fsync(fd) < 0))
		r = -errno;
	return r;
}

/* rename(2) that replaces nothing. */
static int rename_free(int dir, const char *from, const char *to)
{
	struct stat st;
	if (renameat2(dir, from, dir, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL) /* a file system that cannot: look first */
		return -errno;
	if (fstatat(dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(dir, from, dir, to) < 0 ? -errno : 0;
}

/* Returns whether it is there already, byte for byte. */
static bool is_the_same(int dir, const char *name, const uint8_t *data, size_t len)
{
	uint8_t there[16384];
	struct stat st;
	size_t at = 0;
	fd_auto fd = fd_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (size_t)st.st_size != len)
		return false;
	while (at < len) {
		size_t want = len - at < sizeof(there) ? len - at : sizeof(there);
		if (fd_read_all(fd, there, want) != (ssize_t)want || memcmp(there, data + at, want) != 0)
			return false;
		at += want;
	}
	return true;
}

/*
 * Gives the file its final name, in `name`; 1: it was there. Sessions share a spool: a name is free only if the kernel
 * says so.
 */
static int rename_temporary(int dir, const char *temporary, const struct file_of *f, char *name, size_t size)
{
	int r = -EEXIST;
	for (unsigned i = 0; i < SEQ_TRIES && r == -EEXIST; i++) {
		file_name(f->start_ns, f->seq + i, f->kind, name, size);
		r = rename_free(dir, temporary, name);
		if (r == -EEXIST && is_the_same(dir, name, f->data, f->len)) {
			unlinkat(dir, temporary, 0);
			r = 1;
		}
	}
	return r;
}

/* Makes directory and unfinished file. Another session removes empty directories, of any level: then it tries again. */
static int create_temporary(
	struct spool *s, const char *target, const char *temporary, const void *data, size_t len, int *ret_dir)
{
	int r = -ENOENT;
	for (unsigned i = 0; i < MAKE_TRIES && r == -ENOENT; i++) {
		fd_close(*ret_dir);
		*ret_dir = open_target(s, target);
		r = *ret_dir < 0 ? *ret_dir : write_temporary(*ret_dir, temporary, data, len);
	}
	return r;
}

int spool_write(struct spool *s, const char *target, int64_t start_ns, unsigned seq, const char *kind, const void *data,
	size_t len, char *ret_path, size_t size, struct err *e)
{
	char safe[SPOOL_TARGET_MAX + 1], name[FILE_MAX], temporary[32];
	/* directories may have to be made */
	const uint64_t blocks = blocks_of(len) + (spool_target_is_nested(target) ? SPOOL_LEVELS : 1);

	spool_temporary(temporary);
	spool_target_safe_path(target, safe);
	if (s->cap_bytes && blocks * BLOCK > s->cap_bytes)
		return err_say(e, -EFBIG, "a profile of %.128s with %zu bytes is lost: the spool may hold %" PRIu64,
			safe, len, s->cap_bytes);
	apply_retention(s, blocks);
	fd_auto dir = -1;
	const struct file_of f = {start_ns, seq, kind, data, len};
	int r = create_temporary(s, safe, temporary, data, len, &dir);
	if (!r)
		r = rename_temporary(dir, temporary, &f, name, sizeof(name));
	if (r < 0) {
		if (dir >= 0)
			unlinkat(dir, temporary, 0);
		uncount_directories(s, remove_directories(s->dir, safe));
		return err_set(
			e, r, "a profile of %.128s with %zu bytes is lost: cannot write to the spool", safe, len);
	}
	if (ret_path)
		snprintf(ret_path, size, "%s/%s", safe, name);
	/* out of memory: the file is there, only not counted until the next start */
	if (r == 0 && add_entry(s, safe, name, len, start_ns / NSEC_PER_SEC) == 0)
		settle_last(s);
	return r;
}

void spool_limit(struct spool *s, uint64_t cap_bytes, uint32_t cap_age_s)
{
	s->cap_bytes = cap_bytes;
	s->cap_age_s = cap_age_s;
}

uint64_t spool_bytes(const struct spool *s)
{
	return s->blocks * BLOCK;
}

size_t spool_files(const struct spool *s)
{
	return s->count;
}

uint64_t spool_removed(const struct spool *s)
{
	return s->removed;
}

void spool_tidy(struct spool *s)
{
	apply_retention(s, 0);
}

const char *spool_file(const struct spool *s, size_t i, uint64_t *ret_bytes)
{
	const struct entry *e = &s->entries[s->first + i];
	*ret_bytes = e->bytes;
	return e->path;
}

int spool_dir(const struct spool *s)
{
	return s->dir;
}

struct spool *spool_close(struct spool *s)
{
	if (!s)
		return NULL;
	for (size_t i = 0; i < s->count; i++)
		free(s->entries[s->first + i].path);
	free(s->entries);
	fd_close(s->dir);
	free(s);
	return NULL;
}

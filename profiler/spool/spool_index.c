/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool_index.h"

#include "oci/base/array.h"
#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"
#include "oci/base/json/json_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NS (100 * NSEC_PER_MSEC) /* a writer may be stopped while it holds the lock */
#define LOCK_STEP_NS (2 * NSEC_PER_MSEC)
#define FRONT "{\"file\":\""
#define PATH_ROOM 400

struct line {
	const char *text; /* from FRONT to the newline, included */
	size_t len, path;
};

struct index_lines {
	char *text;
	struct line *at;
	size_t n, room;
	bool broken; /* something was no line */
};

struct file_entry {
	const char *path;
	uint64_t bytes;
	const struct line *line; /* the last one of it, or NULL */
};

/* --- a line --------------------------------------------------------------------------------------------- */

static int add_text(struct jsonout *o, const char *key, const char *text)
{
	return json_write_add(o, key, json_write_text(text));
}

static int add_number(struct jsonout *o, const char *key, uint64_t n)
{
	return json_write_add(o, key, json_write_number(n > INT64_MAX ? INT64_MAX : (int64_t)n));
}

static struct jsonout *known_line(const struct export_profile *p, const char *file, uint64_t bytes)
{
	struct jsonout *o = json_write_object();
	if (!o || add_text(o, "file", file) < 0 || add_text(o, "id", p->id) < 0 || add_text(o, "name", p->name) < 0 ||
		add_text(o, "pod", p->pod) < 0 || add_text(o, "namespace", p->pod_namespace) < 0 ||
		add_text(o, "event", p->event) < 0 || add_number(o, "seq", p->seq) < 0 ||
		add_number(o, "start_ns", (uint64_t)p->start_ns) < 0 ||
		add_number(o, "duration_ns", (uint64_t)p->duration_ns) < 0 ||
		add_number(o, "samples", p->samples) < 0 || add_number(o, "bytes", bytes) < 0)
		return json_write_free(o);
	return o;
}

/* "<target>/20260101T000000Z-000012-cpu.pb.gz", as spool.c makes them */
static struct jsonout *line_of_name(const char *path, uint64_t bytes)
{
	char event[64] = "";
	unsigned seq = 0;
	struct tm tm = {0};
	const char *name = strrchr(path, '/');
	const char *behind = name ? strptime(name + 1, "%Y%m%dT%H%M%SZ-", &tm) : NULL;
	if (behind && sscanf(behind, "%u-%63[^.]", &seq, event) < 1)
		behind = NULL;
	struct jsonout *o = json_write_object();
	if (!o || add_text(o, "file", path) < 0 || json_write_add_null(o, "id") < 0 ||
		json_write_add_null(o, "name") < 0 || json_write_add_null(o, "pod") < 0 ||
		json_write_add_null(o, "namespace") < 0 || add_text(o, "event", event) < 0 ||
		add_number(o, "seq", seq) < 0 ||
		add_number(o, "start_ns", behind ? (uint64_t)timegm(&tm) * NSEC_PER_SEC : 0) < 0 ||
		json_write_add_null(o, "duration_ns") < 0 || json_write_add_null(o, "samples") < 0 ||
		add_number(o, "bytes", bytes) < 0)
		return json_write_free(o);
	return o;
}

/* Takes the object. */
static int print_line(struct jsonout *o, FILE *out)
{
	int r = o ? json_write_out_line(o, out) : -ENOMEM;
	json_write_free(o);
	return r;
}

/* --- writing, one at a time ----------------------------------------------------------------------------- */

/* Best effort: without it a line may be lost at a moment when another process rewrites the index. */
static void lock_index(int fd)
{
	int64_t deadline = deadline_in(LOCK_NS);
	const struct timespec step = {.tv_nsec = LOCK_STEP_NS};
	while (flock(fd, LOCK_EX | LOCK_NB) < 0 && clock_now() < deadline) {
		nanosleep(&step, NULL);
		clock_blocked(LOCK_STEP_NS / NSEC_PER_MSEC);
	}
}

/* Opens and locks the index, and checks that it is still the index. */
static int open_locked(int dir)
{
	struct stat ours, there;
	for (int i = 0; i < 8; i++) {
		int fd = fd_open(dir, SPOOL_INDEX_FILE, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0640);
		if (fd < 0)
			return fd;
		lock_index(fd);
		if (fstat(fd, &ours) == 0 && S_ISREG(ours.st_mode) &&
			fstatat(dir, SPOOL_INDEX_FILE, &there, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == there.st_ino)
			return fd;
		fd_close(fd);
	}
	return -ESTALE;
}

static int append_text(int dir, const char *text, size_t len)
{
	struct stat st;
	fd_auto fd = open_locked(dir);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0 || fchmod(fd, 0640) < 0)
		return -errno;
	ssize_t n = write(fd, text, len);
	if (n == (ssize_t)len)
		return 0;
	int r = n < 0 ? -errno : -ENOSPC;
	if (n > 0 && ftruncate(fd, st.st_size) < 0)
		return -errno;
	return r;
}

int spool_index_append(int dir, const struct export_profile *p, const char *file, uint64_t bytes)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return -ENOMEM;
	int r = print_line(known_line(p, file, bytes), out);
	if (fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0)
		r = append_text(dir, text, len);
	free(text);
	return r;
}

/* --- reading it again ----------------------------------------------------------------------------------- */

/* Returns the bytes of the path behind FRONT; paths that spool.c makes have no escapes and do not lead out. */
static size_t path_of(const char *text, size_t len)
{
	size_t front = strlen(FRONT), n = 0;
	if (len <= front || memcmp(text, FRONT, front) != 0)
		return 0;
	for (text += front, len -= front; n < len && text[n] != '"'; n++)
		if (text[n] == '\\' || (unsigned char)text[n] < 0x20)
			return 0;
	bool whole = n < len && n < PATH_ROOM && n > 0 && text[0] != '/' && !memmem(text, n, "..", 2);
	return whole ? n : 0;
}

static int keep_line(struct index_lines *l, const char *text, size_t len)
{
	size_t path = path_of(text, len);
	/* one that was cut short, and the next one behind it: quotes in texts are escaped */
	bool two = path && memmem(text + 1, len - 1, FRONT, strlen(FRONT));
	if (!path || two || text[len - 2] != '}') {
		l->broken = true;
		return 0;
	}
	if (array_reserve(&l->at, &l->room, l->n + 1, sizeof(*l->at), 256) < 0)
		return -ENOMEM;
	l->at[l->n++] = (struct line){text, len, path};
	return 0;
}

static int read_lines(int fd, struct index_lines *l)
{
	size_t len = 0;
	int r = fd_slurp(fd, SPOOL_INDEX_MAX, &l->text, &len);
	if (r == -EFBIG)
		l->broken = true;
	if (r < 0)
		return r == -EFBIG ? 0 : r;
	for (const char *at = l->text, *end = l->text + len; r == 0 && at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		if (!newline) {
			l->broken = true;
			break;
		}
		r = keep_line(l, at, (size_t)(newline + 1 - at));
		at = newline + 1;
	}
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct file_entry *)a)->path, ((const struct file_entry *)b)->path);
}

static struct file_entry *find_file_entry(struct file_entry *files, size_t n, const char *path)
{
	struct file_entry key = {.path = path};
	return n ? bsearch(&key, files, n, sizeof(key), by_path) : NULL;
}

static void path_text(const struct line *l, char buf[static PATH_ROOM])
{
	memcpy(buf, l->text + strlen(FRONT), l->path);
	buf[l->path] = 0;
}

static struct file_entry *files_of(const struct spool *s)
{
	size_t n = spool_files(s);
	struct file_entry *files = calloc(n + 1, sizeof(*files));
	for (size_t i = 0; files && i < n; i++)
		files[i].path = spool_file(s, i, &files[i].bytes);
	if (files)
		qsort(files, n, sizeof(*files), by_path);
	return files;
}

static void note_last(const struct index_lines *l, struct file_entry *files, size_t n)
{
	char path[PATH_ROOM];
	for (size_t i = 0; i < l->n; i++) {
		path_text(&l->at[i], path);
		struct file_entry *f = find_file_entry(files, n, path);
		if (f)
			f->line = &l->at[i];
	}
}

/* Files of other writers are not in our list, but in the directory. */
static bool is_wanted(const struct spool *s, const struct line *l, struct file_entry *files, size_t n)
{
	char path[PATH_ROOM];
	struct stat st;
	path_text(l, path);
	const struct file_entry *f = find_file_entry(files, n, path);
	if (f && f->line != l)
		return false;
	return fstatat(spool_dir(s), path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Writes the lines that are kept, then lines for files without one. *ret_changed: the index was different. */
static int print_index(const struct spool *s, const struct index_lines *l, struct file_entry *files, FILE *out,
	size_t *ret_lines, bool *ret_changed)
{
	size_t n = spool_files(s), kept = 0;
	int r = 0;
	*ret_changed = l->broken;
	for (size_t i = 0; i < l->n; i++) {
		if (!is_wanted(s, &l->at[i], files, n)) {
			*ret_changed = true;
			continue;
		}
		kept++;
		if (fwrite(l->at[i].text, 1, l->at[i].len, out) != l->at[i].len)
			return -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct stat st;
		if (files[i].line || fstatat(spool_dir(s), files[i].path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		kept++;
		*ret_changed = true;
		r = print_line(line_of_name(files[i].path, files[i].bytes), out);
	}
	*ret_lines = kept;
	return r;
}

/* The name is one that spool_open_take removes when its process is gone. */
static int replace_index(int dir, const char *text, size_t len)
{
	char temporary[32];
	snprintf(temporary, sizeof(temporary), ".writing.%d", (int)getpid());
	unlinkat(dir, temporary, 0);
	fd_auto fd = fd_open(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
	int r = fd < 0 ? fd : fd_write_all(fd, text, len);
	if (r == 0 && (fchmod(fd, 0640) < 0 || fsync(fd) < 0 || renameat(dir, temporary, dir, SPOOL_INDEX_FILE) < 0))
		r = -errno;
	if (r < 0 && fd >= 0)
		unlinkat(dir, temporary, 0);
	return r;
}

static int update_index(
	const struct spool *s, int fd, struct index_lines *l, struct file_entry *files, size_t *ret_lines)
{
	char *text = NULL;
	size_t len = 0;
	bool changed = false;
	int r = read_lines(fd, l);
	FILE *out = r < 0 ? NULL : open_memstream(&text, &len);
	if (!out)
		return r < 0 ? r : -ENOMEM;
	note_last(l, files, spool_files(s));
	r = print_index(s, l, files, out, ret_lines, &changed);
	if (fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0 && changed)
		r = replace_index(spool_dir(s), text, len);
	free(text);
	return r;
}

int spool_index_match(const struct spool *s, size_t *ret_lines)
{
	struct stat st;
	struct index_lines l = {0};
	size_t lines = 0;
	if (!spool_files(s) && fstatat(spool_dir(s), SPOOL_INDEX_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (ret_lines)
			*ret_lines = 0;
		return 0; /* an empty spool stays empty */
	}
	fd_auto fd = open_locked(spool_dir(s));
	if (fd < 0)
		return fd;
	struct file_entry *files = files_of(s);
	int r = files ? update_index(s, fd, &l, files, &lines) : -ENOMEM;
	free(files);
	free(l.text);
	free(l.at);
	if (r == 0 && ret_lines)
		*ret_lines = lines;
	return r;
}

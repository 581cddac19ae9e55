/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_queue.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"
#include "profiler/spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ROOM_FIRST 16
#define SENT_MAX (256u << 20) /* lines of a million files are half of it */
#define STALE_LINES(n) (256 + 2 * (n))
/* A directory may change again in the same tick of its clock, without another mtime. */
#define FRESH_S 1

enum state { WAITING, UNDERWAY, SENT };

struct push_file {
	struct target *target;
	char *name;
	int64_t start_s;
	struct push_progress sent;
	enum state state;
	bool seen; /* in this scan */
};

struct target {
	char *name;
	struct timespec changed; /* mtime of its directory at the last listing */
	bool settled, seen, busy, told;
	bool directories;	  /* it has subdirectories */
	struct push_file **files; /* by name, which is by time */
	size_t n, room;
	size_t first; /* none before it waits */
};

struct push_queue {
	int spool, dir, lock, sent;
	char name[64], file[96];
	bool torn; /* lines of the file are missing, or half written */
	bool told; /* reported that the file cannot be written */
	bool (*wants)(const void *arg, const char *event);
	const void *arg;
	struct target **targets; /* by name */
	size_t n, room;
	size_t waiting, files, lines;
	uint64_t lost;
	/* during the first scan: paths that were sent before */
	char **before;
	size_t n_before;
	char *before_text;
	bool all_sent; /* all files of the first scan count as sent */
};

static const char *file_name(const void *of, size_t i)
{
	return ((const struct target *)of)->files[i]->name;
}

static const char *target_name(const void *of, size_t i)
{
	return ((const struct push_queue *)of)->targets[i]->name;
}

/* Returns the index of a name among `n` in order, or the index for inserting it. */
static size_t place_of(
	const void *of, size_t n, const char *(*name_of)(const void *of, size_t i), const char *name, bool *ret_there)
{
	size_t low = 0, high = n;
	while (low < high) {
		const size_t middle = (low + high) / 2;
		const int c = strcmp(name_of(of, middle), name);
		if (c == 0) {
			*ret_there = true;
			return middle;
		}
		if (c < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_there = false;
	return low;
}

static void free_file(struct push_file *f)
{
	free(f->name);
	free(f);
}

static void free_target(struct target *t)
{
	for (size_t i = 0; i < t->n; i++)
		free_file(t->files[i]);
	free(t->files);
	free(t->name);
	free(t);
}

static int find_target(struct push_queue *q, const char *name, struct target **ret)
{
	bool there;
	const size_t at = place_of(q, q->n, target_name, name, &there);
	int r = there ? 0 : array_reserve(&q->targets, &q->room, q->n + 1, sizeof(*q->targets), ROOM_FIRST);
	if (there || r < 0) {
		*ret = there ? q->targets[at] : NULL;
		return r;
	}
	struct target *t = calloc(1, sizeof(*t));
	if (!t || !(t->name = strdup(name))) {
		free(t);
		return -ENOMEM;
	}
	memmove(&q->targets[at + 1], &q->targets[at], (q->n++ - at) * sizeof(*q->targets));
	q->targets[at] = t;
	*ret = t;
	return 0;
}

/* --- sent files ------------------------------------------------------------------------------------------- */

static int text_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool was_sent(const struct push_queue *q, const struct target *t, const char *name)
{
	char path[SPOOL_TARGET_MAX + 256], *at = path;
	if (q->all_sent)
		return true;
	if (!q->n_before)
		return false;
	snprintf(path, sizeof(path), "%s/%s", t->name, name);
	return bsearch(&at, q->before, q->n_before, sizeof(*q->before), text_order);
}

/* Splits `text` in place into lines in order, which point into it; a last one without newline is none. */
static int split_lines(char *text, char ***ret, size_t *ret_n)
{
	char **lines = NULL;
	size_t n = 0, room = 0;
	for (char *end; (end = strchr(text, '\n')); text = end + 1) {
		*end = 0;
		if (array_reserve(&lines, &room, n + 1, sizeof(*lines), ROOM_FIRST) < 0) {
			free(lines);
			return -ENOMEM;
		}
		lines[n++] = text;
	}
	if (n)
		qsort(lines, n, sizeof(*lines), text_order);
	*ret = lines;
	*ret_n = n;
	return 0;
}

static int read_sent(struct push_queue *q)
{
	size_t len;
	int r = fd_slurp(q->sent, SENT_MAX, &q->before_text, &len);
	q->torn = r == 0 && len && q->before_text[len - 1] != '\n';
	if (r == 0)
		r = split_lines(q->before_text, &q->before, &q->n_before);
	q->lines = q->n_before;
	return r;
}

static void forget_before(struct push_queue *q)
{
	free(q->before);
	free(q->before_text);
	q->before = NULL;
	q->before_text = NULL;
	q->n_before = 0;
	q->all_sent = false;
}

static int write_lines(struct push_queue *q, int fd)
{
	size_t len;
	char *text = NULL;
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return -ENOMEM;
	q->lines = 0;
	for (size_t i = 0; i < q->n; i++)
		for (size_t k = 0; k < q->targets[i]->n; k++)
			if (q->targets[i]->files[k]->state == SENT) {
				fprintf(out, "%s/%s\n", q->targets[i]->name, q->targets[i]->files[k]->name);
				q->lines++;
			}
	int r = fclose(out) ? -ENOMEM : fd_write_all(fd, text, len);
	free(text);
	return r < 0 ? r : fsync(fd) < 0 ? -errno : 0;
}

static int rewrite_sent_lines(struct push_queue *q)
{
	char fresh[sizeof(q->file) + 4];
	snprintf(fresh, sizeof(fresh), "%s.new", q->file);
	unlinkat(q->dir, fresh, 0);
	int fd = fd_open(q->dir, fresh, O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW, 0640);
	int r = fd < 0 ? fd : write_lines(q, fd);
	if (r == 0 && renameat(q->dir, fresh, q->dir, q->file) < 0)
		r = -errno;
	if (r < 0) {
		fd_close(fd);
		unlinkat(q->dir, fresh, 0);
		return r;
	}
	fd_close(q->sent);
	q->sent = fd;
	q->torn = false;
	return 0;
}

/* A partial line would be the beginning of the next one: then all lines are written anew. */
static int append_sent_line(struct push_queue *q, const struct push_file *f)
{
	char line[SPOOL_TARGET_MAX + 258];
	int n = snprintf(line, sizeof(line), "%s/%s\n", f->target->name, f->name);
	if (q->torn)
		return rewrite_sent_lines(q);
	int r = fd_write_all(q->sent, line, (size_t)n);
	if (r == 0 && fdatasync(q->sent) < 0)
		r = -errno;
	q->torn = r < 0;
	q->lines += r == 0;
	return r;
}

/* --- files of the spool ----------------------------------------------------------------------------------- */

static bool event_of(const char *name, char *buf, size_t size)
{
	size_t len;
	const char *event = spool_event(name, &len);
	if (!event || len >= size)
		return false;
	snprintf(buf, size, "%.*s", (int)len, event);
	return true;
}

static int add_file(struct push_queue *q, struct target *t, const char *name, int64_t start_s, bool sent)
{
	bool there;
	const size_t at = place_of(t, t->n, file_name, name, &there);
	if (there) {
		t->files[at]->seen = true;
		return 0;
	}
	struct push_file *f = calloc(1, sizeof(*f));
	int r = f && (f->name = strdup(name))
			? array_reserve(&t->files, &t->room, t->n + 1, sizeof(*t->files), ROOM_FIRST)
			: -ENOMEM;
	if (r < 0) {
		free(f ? f->name : NULL);
		free(f);
		return r;
	}
	memmove(&t->files[at + 1], &t->files[at], (t->n++ - at) * sizeof(*t->files));
	t->files[at] = f;
	f->target = t;
	f->start_s = start_s;
	f->seen = true;
	f->state = sent || was_sent(q, t, name) ? SENT : WAITING;
	q->waiting += f->state == WAITING;
	q->files++;
	if (f->state == WAITING && at < t->first)
		t->first = at;
	return 0;
}

static void drop_gone(struct push_queue *q, struct target *t)
{
	size_t n = 0;
	for (size_t i = 0; i < t->n; i++) {
		struct push_file *f = t->files[i];
		if (f->seen || f->state == UNDERWAY) { /* its sender will find out */
			t->files[n++] = f;
			continue;
		}
		if (f->state == WAITING) {
			q->waiting--;
			q->lost++;
		}
		q->files--;
		free_file(f);
	}
	t->n = n;
	t->first = 0;
}

/* *ret NULL: the end of the directory. Errors are returned: files that were not listed would be taken for gone. */
static int next_entry(DIR *d, struct dirent **ret)
{
	errno = 0;
	*ret = readdir(d);
	return *ret ? 0 : -errno;
}

static int list_target_files(struct push_queue *q, struct target *t, int dir)
{
	struct dirent *de;
	int64_t start_s;
	char event[64];
	int r = 0;
	int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		fd_close(copy);
		return copy < 0 ? copy : -errno;
	}
	for (size_t i = 0; i < t->n; i++)
		t->files[i]->seen = false;
	t->directories = false;
	while (r == 0 && (r = next_entry(d, &de)) == 0 && de) {
		t->directories |= (de->d_type == DT_DIR || de->d_type == DT_UNKNOWN) && de->d_name[0] != '.';
		if (spool_parse_name(de->d_name, &start_s) && event_of(de->d_name, event, sizeof(event)) &&
			!strchr(de->d_name, '\n'))
			r = add_file(q, t, de->d_name, start_s, !q->wants(q->arg, event));
	}
	closedir(d);
	if (r == 0)
		drop_gone(q, t);
	return r;
}

static int look_into(struct push_queue *q, struct target *t, int dir)
{
	struct stat st;
	t->seen = true;
	if (dir < 0 || fstat(dir, &st) < 0)
		return dir < 0 ? dir : -errno;
	if (t->settled && st.st_mtim.tv_sec == t->changed.tv_sec && st.st_mtim.tv_nsec == t->changed.tv_nsec)
		return 0;
	int r = list_target_files(q, t, dir);
	if (r == -ENOENT) { /* it has gone since it was opened */
		t->seen = false;
		return 0;
	}
	t->changed = st.st_mtim;
	t->settled = r == 0 && time(NULL) - st.st_mtim.tv_sec > FRESH_S;
	return r;
}

/* Drops directories that are gone, with their files. */
static void drop_targets(struct push_queue *q)
{
	size_t n = 0;
	for (size_t i = 0; i < q->n; i++) {
		struct target *t = q->targets[i];
		if (!t->seen) {
			for (size_t k = 0; k < t->n; k++)
				t->files[k]->seen = false;
			drop_gone(q, t);
		}
		if (t->seen || t->n)
			q->targets[n++] = t;
		else
			free_target(t);
	}
	q->n = n;
}

/* Keeps targets below a directory that cannot be listed now: they are not gone. */
static void keep_below(struct push_queue *q, const char *name)
{
	const size_t len = strlen(name);
	for (size_t i = 0; i < q->n; i++)
		if (!strncmp(q->targets[i]->name, name, len) && q->targets[i]->name[len] == '/')
			q->targets[i]->seen = true;
}

struct scan {
	struct push_queue *queue;
	struct err *e;
};

static int scan_one(void *arg, int dir, const char *name)
{
	struct scan *scan = arg;
	struct push_queue *q = scan->queue;
	struct target *t;
	if (strchr(name, '\n'))
		return SPOOL_NO_DIRECTORIES;
	int r = find_target(q, name, &t);
	if (r < 0)
		return r;
	r = look_into(q, t, dir);
	if (r < 0)
		keep_below(q, name);
	if (r < 0 && r != -ENOMEM && !t->told)
		err_set(scan->e, r, "what is in %s is not sent: cannot list it", name);
	t->told = r < 0;
	return r == -ENOMEM ? r : r < 0 || !t->directories ? SPOOL_NO_DIRECTORIES : 0;
}

int queue_scan(struct push_queue *q, struct err *e)
{
	struct scan all = {.queue = q, .e = e};
	for (size_t i = 0; i < q->n; i++)
		q->targets[i]->seen = false;
	int r = spool_each_target(q->spool, scan_one, &all);
	if (r < 0)
		return err_set(e, r, "cannot list the spool");
	drop_targets(q);
	if (q->torn || q->lines > STALE_LINES(q->files))
		r = rewrite_sent_lines(q);
	if (r < 0 && !q->told)
		err_set(e, r, "what was sent cannot be noted in " PUSH_DIR "/%s", q->file);
	q->told = r < 0;
	return 0;
}

/* --- life ------------------------------------------------------------------------------------------------- */

static int open_dir(int spool)
{
	int fd = fd_open(spool, PUSH_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd != -ENOENT)
		return fd;
	if (mkdirat(spool, PUSH_DIR, 0750) < 0 && errno != EEXIST)
		return -errno;
	return fd_open(spool, PUSH_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int lock_queue(struct push_queue *q)
{
	char file[sizeof(q->name) + 8];
	snprintf(file, sizeof(file), "%s.lock", q->name);
	q->lock = fd_open(q->dir, file, O_RDWR | O_CREAT | O_NOFOLLOW, 0640);
	if (q->lock < 0)
		return q->lock;
	return flock(q->lock, LOCK_EX | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? -EBUSY : -errno;
}

static int open_sent(struct push_queue *q, bool backlog)
{
	q->dir = open_dir(q->spool);
	int r = q->dir < 0 ? q->dir : lock_queue(q);
	if (r < 0)
		return r;
	q->sent = fd_open(q->dir, q->file, O_RDWR | O_APPEND | O_NOFOLLOW, 0);
	q->all_sent = q->sent == -ENOENT && !backlog;
	return q->sent >= 0 ? read_sent(q) : q->sent == -ENOENT ? 0 : q->sent;
}

int queue_open(int spool, const char *name, bool (*wants)(const void *arg, const char *event), const void *arg,
	bool backlog, struct push_queue **ret, struct err *e)
{
	struct push_queue *q = calloc(1, sizeof(*q));
	if (!q)
		return err_set(e, -ENOMEM, "cannot push");
	*q = (struct push_queue){.spool = spool, .dir = -1, .lock = -1, .sent = -1, .wants = wants, .arg = arg};
	snprintf(q->name, sizeof(q->name), "%s", name);
	snprintf(q->file, sizeof(q->file), "%s.sent", name);
	int r = open_sent(q, backlog);
	if (r == -EBUSY)
		r = err_say(e, r, "another process pushes to %s already", name);
	else if (r < 0)
		r = err_set(e, r, "cannot open " PUSH_DIR "/%s in the spool", q->file);
	if (r == 0)
		r = queue_scan(q, e);
	forget_before(q);
	if (r == 0 && q->sent < 0) { /* it must hold the files that are there now */
		r = rewrite_sent_lines(q);
		if (r < 0)
			err_set(e, r, "cannot write " PUSH_DIR "/%s in the spool", q->file);
	}
	if (r < 0)
		queue_close(q);
	else
		*ret = q;
	return r;
}

struct push_queue *queue_close(struct push_queue *q)
{
	if (!q)
		return NULL;
	forget_before(q);
	for (size_t i = 0; i < q->n; i++)
		free_target(q->targets[i]);
	free(q->targets);
	fd_close(q->sent);
	fd_close(q->lock);
	fd_close(q->dir);
	free(q);
	return NULL;
}

/* --- the next ones ---------------------------------------------------------------------------------------- */

static struct push_file *first_of(struct target *t)
{
	while (t->first < t->n && t->files[t->first]->state != WAITING)
		t->first++;
	return t->first < t->n ? t->files[t->first] : NULL;
}

struct push_file *queue_next(struct push_queue *q)
{
	struct push_file *best = NULL;
	for (size_t i = 0; i < q->n; i++) {
		struct push_file *f = q->targets[i]->busy ? NULL : first_of(q->targets[i]);
		if (f && (!best || f->start_s < best->start_s))
			best = f;
	}
	if (best) {
		best->state = UNDERWAY;
		best->target->busy = true;
	}
	return best;
}

const char *queue_target(const struct push_file *f)
{
	return f->target->name;
}

const char *queue_name(const struct push_file *f)
{
	return f->name;
}

struct push_progress queue_progress(const struct push_file *f)
{
	return f->sent;
}

int queue_done(struct push_queue *q, struct push_file *f)
{
	f->state = SENT;
	f->target->busy = false;
	q->waiting--;
	return append_sent_line(q, f);
}

void queue_back(struct push_queue *q, struct push_file *f, struct push_progress sent)
{
	bool there;
	const size_t at = place_of(f->target, f->target->n, file_name, f->name, &there);
	f->state = WAITING;
	f->sent = sent;
	f->target->busy = false;
	if (at < f->target->first)
		f->target->first = at;
}

void queue_gone(struct push_queue *q, struct push_file *f)
{
	f->state = SENT; /* until its directory is listed */
	f->target->busy = false;
	f->target->settled = false;
	q->waiting--;
	q->lost++;
}

size_t queue_waiting(const struct push_queue *q)
{
	return q->waiting;
}

int64_t queue_oldest(const struct push_queue *q)
{
	int64_t oldest = 0;
	for (size_t i = 0; i < q->n; i++)
		for (size_t k = q->targets[i]->first; k < q->targets[i]->n; k++) {
			const struct push_file *f = q->targets[i]->files[k];
			if (f->state == SENT)
				continue;
			if (!oldest || f->start_s < oldest)
				oldest = f->start_s;
			break;
		}
	return oldest;
}

uint64_t queue_lost(const struct push_queue *q)
{
	return q->lost;
}

int queue_dir(const struct push_queue *q)
{
	return q->dir;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool_query.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"
#include "profiler/pprof/pprof.h"
#include "profiler/pprof/profile_merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX (64u << 20)
#define TOO_MUCH                                                                                                       \
	"this needs more memory than a page may take: choose a shorter range, or download windows and give them to "   \
	"'pillion flame'"

static int is_window(const struct dirent *de)
{
	int64_t start_s;
	return spool_parse_name(de->d_name, &start_s);
}

/* --- targets -------------------------------------------------------------------------------------------- */

static int open_target(int spool, const char *target)
{
	int r = spool_target_open(spool, target);
	return r == -EACCES || r == -ENAMETOOLONG ? -ENOENT : r;
}

/* Returns 1 or 0; -errno: unknown. */
static int has_windows(int target)
{
	int copy = target < 0 ? target : fd_open_dir(target, "."), has = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		fd_close(copy);
		return copy < 0 ? copy : -ENOMEM;
	}
	for (struct dirent *de; !has && (de = readdir(d));)
		has = is_window(de);
	closedir(d);
	return has;
}

/* Of us, and not of the directory: a list without it would look whole. */
static bool is_shortage(int error)
{
	return error == -ENOMEM || error == -EMFILE || error == -ENFILE;
}

struct name_cache {
	char **at;
	size_t n, room; /* NULL behind the last: one more than n */
};

/* Skips directories that cannot be read. */
static int take_name(void *arg, int dir, const char *path)
{
	struct name_cache *names = arg;
	const int has = has_windows(dir);
	if (has <= 0)
		return is_shortage(has) ? has : 0;
	if (array_reserve(&names->at, &names->room, names->n + 2, sizeof(*names->at), 0) < 0)
		return -ENOMEM;
	names->at[names->n] = strdup(path);
	if (!names->at[names->n])
		return -ENOMEM;
	names->at[++names->n] = NULL;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int spool_query_targets(int spool, char ***ret, size_t *ret_n)
{
	struct name_cache names = {.room = 16};
	names.at = calloc(names.room, sizeof(*names.at));
	int r = names.at ? spool_each_target(spool, take_name, &names) : -ENOMEM;
	if (r < 0) {
		spool_query_targets_done(names.at);
		return r;
	}
	qsort(names.at, names.n, sizeof(*names.at), by_name);
	*ret = names.at;
	*ret_n = names.n;
	return 0;
}

void spool_query_targets_done(char **names)
{
	for (char **name = names; name && *name; name++)
		free(*name);
	free(names);
}

/* --- windows of one ------------------------------------------------------------------------------------- */

/* "20260101T000000Z-000012-cpu.pb.gz" */
static void event_of(const char *name, char *buf, size_t size)
{
	size_t len;
	const char *event = spool_event(name, &len);
	snprintf(buf, size, "%.*s", (int)len, event ? event : "");
}

static int fill_file_list(struct spool_listing *w, struct dirent **list, int n)
{
	w->files = calloc((size_t)n + 1, sizeof(*w->files));
	for (int i = 0; w->files && i < n; i++) {
		struct spool_file *f = &w->files[w->n];
		f->name = strdup(list[i]->d_name);
		if (!f->name)
			return -ENOMEM;
		w->n++;
		spool_parse_name(f->name, &f->start_s);
		event_of(f->name, f->event, sizeof(f->event));
	}
	return w->files ? 0 : -ENOMEM;
}

int spool_query_list(int spool, const char *target, struct spool_listing *ret)
{
	struct dirent **list;
	struct spool_listing w = {.dir = open_target(spool, target)};
	int n = w.dir < 0 ? w.dir : scandirat(w.dir, ".", &list, is_window, alphasort);
	if (n < 0) {
		int r = w.dir < 0 ? w.dir : -errno;
		fd_close(w.dir);
		return r;
	}
	int r = fill_file_list(&w, list, n);
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
	if (r < 0)
		spool_query_done(&w);
	else
		*ret = w;
	return r;
}

void spool_query_done(struct spool_listing *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->files[i].name);
	free(w->files);
	fd_close(w->dir);
	*w = (struct spool_listing){.dir = -1};
}

static int open_regular(int dir, const char *name)
{
	struct stat st;
	int fd = fd_open(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		fd_close(fd);
		return -ENOENT;
	}
	return fd == -ELOOP ? -ENOENT : fd;
}

int spool_query_open(const struct spool_listing *w, const char *name)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->files[i].name, name))
			return open_regular(w->dir, w->files[i].name);
	return -ENOENT;
}

const struct spool_file *spool_query_last(const struct spool_listing *w, const char *event)
{
	for (size_t i = w->n; i > 0; i--)
		if (!event[0] || !strcmp(w->files[i - 1].event, event))
			return &w->files[i - 1];
	return NULL;
}

/* --- reading -------------------------------------------------------------------------------------------- */

int spool_query_read(const struct spool_listing *w, const char *name, struct profile **ret, struct err *e)
{
	char *data;
	size_t len;
	fd_auto fd = spool_query_open(w, name);
	int r = fd < 0 ? fd : fd_slurp(fd, FILE_BYTES_MAX, &data, &len);
	if (r < 0)
		return err_set(e, r, "cannot read %s", name);
	r = pprof_read(data, len, ret, e);
	free(data);
	if (r == -ENOMEM)
		return err_say(e, r, TOO_MUCH);
	return r < 0 ? err_wrap(e, r, "%s", name) : 0;
}

static bool is_in(const struct spool_file *f, const struct spool_query_range *range)
{
	return f->start_s >= range->from_s && f->start_s <= range->to_s && !strcmp(f->event, range->event);
}

static int check_size(const struct spool_listing *w, const struct spool_query_range *range, struct err *e)
{
	uint64_t bytes = 0;
	size_t n = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct stat st;
		if (!is_in(&w->files[i], range) || fstatat(w->dir, w->files[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		bytes += (uint64_t)st.st_size;
		n++;
	}
	if (!n)
		return err_say(e, -ENOENT, "there is no window of %s in this range", range->event);
	return bytes <= SPOOL_QUERY_BYTES_MAX
		       ? 0
		       : err_say(e, -EFBIG, "%zu windows with %llu MiB are too much for a page: choose a shorter range",
				 n, (unsigned long long)bytes >> 20);
}

static int add_profile(struct profile **sum, struct profile *p, struct err *e)
{
	if (!*sum) {
		*sum = p;
		return 0;
	}
	int r = profile_merge_add(*sum, p, e);
	profile_free(p);
	return r;
}

/* A window that is damaged, or of other types, is left out and named; -ENOMEM ends the loading. */
static int load_all(const struct spool_listing *w, const struct spool_query_range *range, struct profile **sum,
	size_t *ret_n, struct err *e)
{
	struct err why = {0}, first = {0};
	size_t out = 0;
	*ret_n = 0;
	for (size_t i = 0; i < w->n; i++) {
		struct profile *p = NULL;
		if (!is_in(&w->files[i], range))
			continue;
		int r = spool_query_read(w, w->files[i].name, &p, &why);
		r = r == 0 ? add_profile(sum, p, &why) : r;
		if (r == -ENOMEM)
			return err_say(e, r, TOO_MUCH);
		if (r == 0)
			(*ret_n)++;
		else if (r != -ENOENT && !out++)
			first = why;
	}
	if (!*sum)
		return out ? err_say(e, -EBADMSG, "%s", first.text)
			   : err_say(e, -ENOENT, "the windows of this range have gone");
	char text[400];
	snprintf(text, sizeof(text), "left out: %zu windows (%s)", out, first.text);
	return out && profile_comment(*sum, text) < 0 ? err_set(e, -ENOMEM, "the range") : 0;
}

int spool_query_load(const struct spool_listing *w, const struct spool_query_range *range, struct profile **ret,
	size_t *ret_n, struct err *e)
{
	struct profile *sum = NULL;
	int r = check_size(w, range, e);
	if (r == 0)
		r = load_all(w, range, &sum, ret_n, e);
	if (r < 0)
		profile_free(sum);
	else
		*ret = sum;
	return r;
}

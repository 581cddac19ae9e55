/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool_target.h"

#include "oci/base/fd.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LABEL_MAX 63	  /* of a namespace's and a container's name (RFC 1123, Kubernetes' "Object Names and IDs") */
#define SUBDOMAIN_MAX 253 /* of a Pod's */

/* --- names -------------------------------------------------------------------------------------------------- */

void spool_safe_name(const char *text, char *buf, size_t size)
{
	size_t n = 0;
	for (; text[n] && n + 1 < size; n++)
		buf[n] = isalnum((unsigned char)text[n]) || strchr("_.-", text[n]) ? text[n] : '_';
	buf[n] = 0;
	if (!n || buf[0] == '.') /* never hidden, never "..": */
		buf[0] = '_';
	buf[n ? n : 1] = 0;
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Labels with `dots` between them: of a DNS label there are none. */
static bool is_dns_name(const char *text, size_t len, bool dots, size_t max)
{
	if (!len || len > max)
		return false;
	for (size_t i = 0; i < len; i++) {
		const bool edge = i == 0 || i + 1 == len || text[i - 1] == '.' || text[i + 1] == '.';
		const bool inner = text[i] == '-' || (dots && text[i] == '.');
		if (!is_letter(text[i]) && (edge || !inner))
			return false;
	}
	return true;
}

static bool is_name_of_level(unsigned level, const char *text, size_t len)
{
	return level == 1 ? is_dns_name(text, len, true, SUBDOMAIN_MAX) : is_dns_name(text, len, false, LABEL_MAX);
}

bool spool_target_is_nested(const char *path)
{
	unsigned level = 0;
	if (strlen(path) > SPOOL_TARGET_MAX)
		return false;
	for (;; level++) {
		const size_t len = strcspn(path, "/");
		if (level == SPOOL_LEVELS || !is_name_of_level(level, path, len))
			return false;
		if (!path[len])
			break;
		path += len + 1;
	}
	return level + 1 == SPOOL_LEVELS;
}

/* True: one level, neither hidden nor leading out. */
static bool is_one_name(const char *path)
{
	return path[0] && path[0] != '.' && !strchr(path, '/');
}

void spool_target_path(const char *id, const char *name, const char *pod, const char *pod_namespace,
	char ret[static SPOOL_TARGET_MAX + 1])
{
	const int n = snprintf(ret, SPOOL_TARGET_MAX + 1, "%s/%s/%s", pod_namespace, pod, name);
	if (n > SPOOL_TARGET_MAX || !spool_target_is_nested(ret))
		spool_safe_name(name[0] ? name : id, ret, SPOOL_NAME_MAX + 1);
}

void spool_target_safe_path(const char *text, char ret[static SPOOL_TARGET_MAX + 1])
{
	if (spool_target_is_nested(text))
		snprintf(ret, SPOOL_TARGET_MAX + 1, "%s", text);
	else
		spool_safe_name(text, ret, SPOOL_NAME_MAX + 1);
}

/* --- directories -------------------------------------------------------------------------------------------- */

static int open_directory(int parent, const char *name)
{
	const int r = fd_open(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	return r == -ENOTDIR || r == -ELOOP ? -ENOENT : r;
}

static int make_directory(int parent, const char *name, size_t *made)
{
	if (mkdirat(parent, name, 0750) == 0)
		(*made)++;
	else if (errno != EEXIST)
		return -errno;
	return fd_open(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* made: missing levels are made, and counted there; NULL: they are not made. */
static int open_levels(int spool, const char *path, size_t *made)
{
	char levels[SPOOL_TARGET_MAX + 1], *rest = levels, *level;
	int dir = spool;
	snprintf(levels, sizeof(levels), "%s", path);
	while (dir >= 0 && (level = strsep(&rest, "/"))) {
		const int above = dir;
		dir = made ? make_directory(above, level, made) : open_directory(above, level);
		if (above != spool)
			fd_close(above);
	}
	return dir;
}

int spool_target_open(int spool, const char *path)
{
	if (is_one_name(path))
		return open_directory(spool, path);
	return spool_target_is_nested(path) ? open_levels(spool, path, NULL) : -ENOENT;
}

int spool_target_make(int spool, const char *path, size_t *ret_made)
{
	*ret_made = 0;
	return open_levels(spool, path, ret_made);
}

/* --- all of them -------------------------------------------------------------------------------------------- */

struct walk {
	spool_target_fn *fn;
	void *arg;
	char path[SPOOL_TARGET_MAX + 1]; /* of the directory that is listed, "" for the spool */
};

static bool is_wanted(unsigned level, const char *path, const struct dirent *de)
{
	if (de->d_type != DT_DIR && de->d_type != DT_UNKNOWN)
		return false;
	if (level == 0)
		return is_one_name(de->d_name) && strlen(de->d_name) <= SPOOL_TARGET_MAX;
	return is_name_of_level(level, de->d_name, strlen(de->d_name)) &&
	       strlen(path) + 1 + strlen(de->d_name) <= SPOOL_TARGET_MAX;
}

static int list_level(struct walk *w, int dir, unsigned level);

static int visit_directory(struct walk *w, int parent, const char *name, unsigned level)
{
	const size_t above = strlen(w->path);
	fd_auto dir = open_directory(parent, name);
	int r = 0;
	if (dir == -ENOENT)
		return 0;
	snprintf(w->path + above, sizeof(w->path) - above, "%s%s", above ? "/" : "", name);
	if (dir < 0 || level != 1) /* a Pod's directory is above targets, and none */
		r = w->fn(w->arg, dir, w->path);
	if (dir >= 0 && r == 0 && level + 1 < SPOOL_LEVELS && is_name_of_level(level, name, strlen(name)))
		r = list_level(w, dir, level + 1);
	w->path[above] = 0;
	return r < 0 ? r : 0;
}

static int say_unlisted(struct walk *w, unsigned level, int code)
{
	return level ? w->fn(w->arg, code, w->path) : code;
}

static int list_level(struct walk *w, int dir, unsigned level)
{
	int copy = fd_open_dir(dir, "."), r = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d) {
		fd_close(copy);
		return copy == -ENOENT ? 0 : say_unlisted(w, level, copy < 0 ? copy : -ENOMEM); /* it has gone */
	}
	while (r == 0) {
		errno = 0;
		const struct dirent *de = readdir(d);
		if (!de && errno)
			r = say_unlisted(w, level, -errno);
		if (!de)
			break;
		if (is_wanted(level, w->path, de))
			r = visit_directory(w, dir, de->d_name, level);
	}
	closedir(d);
	return r < 0 ? r : 0;
}

int spool_each_target(int spool, spool_target_fn *fn, void *arg)
{
	struct walk w = {.fn = fn, .arg = arg};
	return list_level(&w, spool, 0);
}

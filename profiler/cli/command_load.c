/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/cli/progress.h"
#include "profiler/pprof/pprof.h"
#include "profiler/pprof/profile_merge.h"
#include "profiler/spool/spool_lock.h"
#include "profiler/spool/spool_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX (2 + SPOOL_LEVELS) /* a state directory, its spool, the levels of a target */
#define SUFFIX ".pb.gz"

struct walk {
	const char *name; /* of the command */
	command_file_fn *fn;
	void *arg;
	size_t files;
};

struct loading {
	const char *name; /* of the command */
	const char *type;
	struct profile *sum;
	size_t skipped;
	char skipped_path[256], skipped_types[256]; /* of the first */
};

/* --- files and directories ----------------------------------------------------------------------------- */

static int not_hidden(const struct dirent *de)
{
	return de->d_name[0] != '.';
}

static bool ends_with_slash(const char *path)
{
	return path[0] && path[strlen(path) - 1] == '/';
}

static bool is_alone(const char *path)
{
	const size_t len = strlen(path), end = strlen(COMMAND_ALONE);
	return len > end && !strcmp(path + len - end, COMMAND_ALONE);
}

static int visit_path(struct walk *w, int dir, const char *file, const char *path, unsigned depth);

static int visit_dir(struct walk *w, int parent, const char *file, const char *path, unsigned depth)
{
	struct dirent **list;
	fd_auto dir = fd_open_dir(parent, file);
	if (dir < 0)
		return command_fail(w->name, dir, "cannot open %s: %s", path, strerror(-dir));
	int n = scandirat(dir, ".", &list, not_hidden, alphasort), r = 0;
	if (n < 0)
		return command_fail(w->name, -errno, "cannot list %s: %s", path, strerror(errno));
	const bool alone = is_alone(path);
	const int len = (int)strlen(path) - (alone ? (int)strlen(COMMAND_ALONE) : ends_with_slash(path));
	for (int i = 0; i < n; i++) {
		char *below = NULL;
		if (!r && asprintf(&below, "%.*s/%s", len, path, list[i]->d_name) < 0)
			r = -ENOMEM;
		if (!r)
			r = visit_path(w, dir, list[i]->d_name, below, alone ? DEPTH_MAX : depth + 1);
		free(below);
		free(list[i]);
	}
	free(list);
	return r;
}

/* depth 0: named by the user, so it must be a profile or a directory. */
static int visit_path(struct walk *w, int dir, const char *file, const char *path, unsigned depth)
{
	struct stat st;
	size_t len = strlen(file);
	if (fstatat(dir, file, &st, depth ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return errno == ENOENT && depth
			       ? 0 /* retention was faster */
			       : command_fail(w->name, -errno, "cannot open %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		return depth < DEPTH_MAX ? visit_dir(w, dir, file, path, depth) : 0;
	if (depth && (!S_ISREG(st.st_mode) || len < strlen(SUFFIX) || strcmp(file + len - strlen(SUFFIX), SUFFIX)))
		return 0;
	command_progress(w->name, ++w->files, path);
	return w->fn(w->arg, dir, file, path);
}

/* --- waiting for a last window -------------------------------------------------------------------------- */

#define LOOK_NS (5 * NSEC_PER_MSEC)
#define SAY_NS (300 * NSEC_PER_MSEC)

void command_await(const char *name, const char *path)
{
	fd_auto dir = fd_open_dir(AT_FDCWD, path);
	const int64_t began = clock_now();
	bool said = !isatty(STDERR_FILENO);
	while (dir >= 0 && spool_lock_pending(dir, clock_now() - began)) {
		if (!said && clock_now() - began > SAY_NS) {
			said = true;
			fprintf(stderr, "pillion %s: waiting for the last window of the session that writes to %s\n",
				name, path);
		}
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
	}
}

int command_files(const char *name, int n, char **paths, command_file_fn *fn, void *arg, size_t *ret_files)
{
	struct walk w = {.name = name, .fn = fn, .arg = arg};
	int r = 0;
	if (n < 1)
		return command_fail(
			name, EXIT_USAGE, "which profile? Give files or a directory; see 'pillion help %s'", name);
	for (int i = 0; !r && i < n; i++) {
		command_await(name, paths[i]);
		r = visit_path(&w, AT_FDCWD, paths[i], paths[i], 0);
	}
	progress_end();
	if (r)
		return EXIT_FAILED;
	if (!w.files)
		return command_fail(name, EXIT_NOTHING, "there is no profile (*" SUFFIX ") in %s", paths[0]);
	*ret_files = w.files;
	return EXIT_DONE;
}

/* --- reading and merging ------------------------------------------------------------------------------- */

static int read_profile(int dir, const char *file, struct profile **ret, struct err *e)
{
	char *data;
	size_t len;
	struct stat st;
	fd_auto fd = fd_open(dir, file, O_RDONLY, 0);
	if (fd < 0)
		return err_set(e, fd, "cannot open it");
	/* a large regular file is not read just to find that out */
	const bool large = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > PPROF_READ_MAX;
	int r = large ? -EFBIG : fd_slurp(fd, PPROF_READ_MAX, &data, &len);
	if (r == -EFBIG)
		return err_say(e, r, "it is larger than %u MiB, the most that is read: is it a profile?",
			PPROF_READ_MAX >> 20);
	if (r < 0)
		return err_set(e, r, "cannot read it");
	r = pprof_read(data, len, ret, e);
	free(data);
	return r;
}

int command_read(const char *name, int dir, const char *file, const char *path, struct profile **ret)
{
	struct err e = {0};
	const char *suffix = strrchr(file, '.');
	int r = read_profile(dir, file, ret, &e);
	if (r == -EBADMSG && suffix && !strcmp(suffix, ".json"))
		return command_fail(name, r,
			"%s is no profile; if it is a crash, see it with 'pillion report --text %s'", path, path);
	return r < 0 ? command_fail(name, r, "%s: %s", path, e.text) : 0;
}

/* An empty profile is no profile of another kind: profile_merge_add decides by the types alone. */
/* "samples, cpu" */
static void list_types(const struct profile *p, char *buf, size_t size)
{
	const struct profile_info *info = profile_info(p);
	size_t at = 0;
	for (unsigned i = 0; i < info->n_types && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "", info->types[i].type);
}

static int load_file(void *arg, int dir, const char *file, const char *path)
{
	struct loading *l = arg;
	struct err e = {0};
	struct profile *p = NULL;
	int r = command_read(l->name, dir, file, path, &p);
	if (r < 0)
		return r;
	bool other = l->type && profile_type_find(p, l->type) < 0;
	if (!other && !l->sum) {
		l->sum = p;
		return 0;
	}
	r = other ? -EINVAL : profile_match_types(l->sum, p);
	if (r == -ENOMEM)
		err_set(&e, r, "cannot merge");
	if (r == 0)
		r = profile_merge_add(l->sum, p, &e);
	if (r == -EINVAL && !l->skipped++) {
		snprintf(l->skipped_path, sizeof(l->skipped_path), "%s", path);
		list_types(p, l->skipped_types, sizeof(l->skipped_types));
	}
	profile_free(p);
	return r < 0 && r != -EINVAL ? command_fail(l->name, r, "%s: %s", path, e.text) : 0;
}

static int finish_load(struct loading *l, size_t files, unsigned *ret_type)
{
	if (!l->sum)
		return command_fail(l->name, EXIT_NOTHING, "none of %zu profiles has the sample type '%s': %s has %s",
			files, l->type, l->skipped_path, l->skipped_types);
	if (l->skipped)
		command_fail(l->name, 0,
			"left out %zu of %zu profiles, of other sample types (as %s); "
			"choose with --type",
			l->skipped, files, l->skipped_path);
	*ret_type = l->type ? (unsigned)profile_type_find(l->sum, l->type) : profile_default_type(l->sum);
	return EXIT_DONE;
}

int command_load(const char *name, int n, char **paths, const char *type, struct profile **ret, unsigned *ret_type)
{
	struct loading l = {.name = name, .type = type};
	size_t files;
	int code = command_find_targets(name, n, paths);
	if (code == EXIT_DONE)
		code = command_files(name, n, paths, load_file, &l, &files);
	if (code == EXIT_DONE)
		code = finish_load(&l, files, ret_type);
	if (code == EXIT_DONE)
		*ret = l.sum;
	else
		profile_free(l.sum);
	return code;
}

int command_filter(const char *name, const struct profile_filter *f, struct profile **p)
{
	struct err e = {0};
	struct profile *some;
	if (!f->n)
		return EXIT_DONE;
	if (!profile_filter_count(*p, f))
		return command_fail(name, EXIT_NOTHING,
			"no sample of %zu has %s'%s': give KEY=TEXT of a label, or a part of a function's name",
			profile_samples(*p), f->n > 1 ? "all that is asked for, the last of it " : "",
			f->terms[f->n - 1]);
	if (profile_filter_apply(*p, f, &some, &e) < 0)
		return command_fail(name, EXIT_FAILED, "%s", e.text);
	profile_free(*p);
	*p = some;
	return EXIT_DONE;
}

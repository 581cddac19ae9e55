#include "profiler/latest.h"

#include "profiler/spool.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".pb.gz"
#define DEPTH_MAX 2
#define PATHS_MAX 10000

/* "<start>-<seq>-KIND.pb.gz" -> "KIND.pb.gz"; NULL: it is no window. */
static const char *kind_of(const char *name)
{
	const size_t len = strlen(name);
	if (len < strlen(SUFFIX) || strcmp(name + len - strlen(SUFFIX), SUFFIX) || name[0] == '.')
		return NULL;
	const char *event = spool_event(name, NULL);
	return event ? event : name;
}

static int take(struct latest *l, char *path)
{
	char **paths = l->n < PATHS_MAX ? reallocarray(l->paths, l->n + 1, sizeof(*paths)) : NULL;
	if (!paths) {
		free(path);
		return -ENOMEM;
	}
	l->paths = paths;
	l->paths[l->n++] = path;
	return 0;
}

static int add_name(struct latest *l, const char *dir, const char *name)
{
	char *path;
	return asprintf(&path, "%s/%s", dir, name) < 0 ? -ENOMEM : take(l, path);
}

/* Is there a later one of its kind in the sorted list? */
static bool is_last(struct dirent **list, int n, int i)
{
	const char *kind = kind_of(list[i]->d_name);
	for (int k = i + 1; k < n; k++) {
		const char *other = kind_of(list[k]->d_name);
		if (other && !strcmp(other, kind))
			return false;
	}
	return true;
}

static int add_dir(struct latest *l, const char *dir, unsigned depth);

static int add_entry(struct latest *l, const char *dir, const char *name, unsigned depth)
{
	struct stat st;
	char *path;
	if (name[0] == '.' || depth >= DEPTH_MAX)
		return 0;
	if (asprintf(&path, "%s/%s", dir, name) < 0)
		return -ENOMEM;
	int r = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) ? add_dir(l, path, depth + 1) : 0;
	free(path);
	return r == -ENOENT ? 0 : r; /* retention was faster */
}

static int add_dir(struct latest *l, const char *dir, unsigned depth)
{
	struct dirent **list;
	const int n = scandir(dir, &list, NULL, alphasort);
	int r = n < 0 ? -errno : 0;
	for (int i = n - 1; i >= 0 && r == 0; i--)
		if (!kind_of(list[i]->d_name))
			r = add_entry(l, dir, list[i]->d_name, depth);
		else if (is_last(list, n, i))
			r = add_name(l, dir, list[i]->d_name);
	for (int i = 0; i < n; i++)
		free(list[i]);
	if (n >= 0)
		free(list);
	return r;
}

int latest_add(struct latest *l, const char *dir)
{
	return add_dir(l, dir, 0);
}

void latest_done(struct latest *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->paths[i]);
	free(l->paths);
	*l = (struct latest){0};
}

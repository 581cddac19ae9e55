/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/spool/spool_latest.h"

#include "profiler/spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUFFIX ".pb.gz"
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

static int is_window(const struct dirent *de)
{
	return (de->d_type == DT_REG || de->d_type == DT_UNKNOWN) && kind_of(de->d_name);
}

static int append_path(struct spool_latest *l, char *path)
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

static int add_name(struct spool_latest *l, const char *dir, const char *name)
{
	char *path;
	return asprintf(&path, "%s/%s", dir, name) < 0 ? -ENOMEM : append_path(l, path);
}

/* Returns whether there is no later one of its kind in the sorted list. */
static bool is_last(struct dirent **list, int n, int i)
{
	for (int k = i + 1; k < n; k++)
		if (!strcmp(kind_of(list[k]->d_name), kind_of(list[i]->d_name)))
			return false;
	return true;
}

int spool_latest_add(struct spool_latest *l, const char *dir)
{
	struct dirent **list;
	const int n = scandir(dir, &list, is_window, alphasort);
	int r = n < 0 ? -errno : 0;
	for (int i = n - 1; i >= 0 && r == 0; i--)
		if (is_last(list, n, i))
			r = add_name(l, dir, list[i]->d_name);
	for (int i = 0; i < n; i++)
		free(list[i]);
	if (n >= 0)
		free(list);
	return r;
}

void spool_latest_done(struct spool_latest *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->paths[i]);
	free(l->paths);
	*l = (struct spool_latest){0};
}

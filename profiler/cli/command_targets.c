/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "oci/config/cli_settings.h"
#include "profiler/spool/spool_query.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHOWN_MAX 8 /* of the targets with one name */

struct targets {
	char spool[1024];
	char **names; /* in order; NULL: not looked at yet */
	size_t n;
};

/* If the spool cannot be listed, there are no targets: the name is then reported as a path that does not exist. */
static int list_targets(struct targets *t, const char *command)
{
	static struct options o;
	char *none[] = {(char *)command, NULL};
	struct err e = {0};
	if (t->names)
		return 0;
	cli_settings_read(&o, 1, none, &e);
	snprintf(t->spool, sizeof(t->spool), "%s", o.settings.paths.spool);
	fd_auto spool = e.code ? -EINVAL : fd_open_dir(AT_FDCWD, t->spool);
	return spool < 0 ? spool : spool_query_targets(spool, &t->names, &t->n);
}

/* True: `name` is the target's name, or its end behind a '/'. */
static bool is_named(const char *target, const char *name)
{
	const size_t len = strlen(target), end = strlen(name);
	return len >= end && !strcmp(target + len - end, name) && (len == end || target[len - end - 1] == '/');
}

/*
 * A target of one level is named by its directory: its name is the end of others', and may be a namespace of theirs, so
 * that they lie below it (command_load.c).
 */
static void print_name(const struct targets *t, const char *target, bool first, FILE *out)
{
	const bool nested = strchr(target, '/');
	fprintf(out, "%s%s%s%s%s", first ? "" : ", ", nested ? "" : t->spool, nested ? "" : "/", target,
		nested ? "" : COMMAND_ALONE);
}

static int say_several(const char *command, const struct targets *t, const char *name, size_t n)
{
	char *list = NULL;
	size_t size, shown = 0;
	FILE *out = open_memstream(&list, &size);
	if (!out)
		return command_fail(command, EXIT_FAILED, "%s: %s", name, strerror(ENOMEM));
	for (size_t i = 0; i < t->n && shown < SHOWN_MAX; i++)
		if (is_named(t->names[i], name))
			print_name(t, t->names[i], !shown++, out);
	if (shown < n)
		fprintf(out, " and %zu more", n - shown);
	fclose(out);
	command_fail(command, EXIT_USAGE, "%zu targets are called '%s': give one of %s", n, name, list ? list : "them");
	free(list);
	return EXIT_USAGE;
}

static int find_target(const char *command, const struct targets *t, char **path)
{
	const char *found = NULL;
	size_t n = 0;
	for (size_t i = 0; i < t->n; i++)
		if (is_named(t->names[i], *path)) {
			found = t->names[i];
			n++;
		}
	if (n > 1)
		return say_several(command, t, *path, n);
	if (n && asprintf(path, "%s/%s%s", t->spool, found, strchr(found, '/') ? "" : COMMAND_ALONE) < 0)
		return command_fail(command, EXIT_FAILED, "%s: %s", found, strerror(ENOMEM));
	return EXIT_DONE;
}

int command_find_targets(const char *name, int n, char **paths)
{
	struct targets t = {0};
	struct stat st;
	int code = EXIT_DONE;
	for (int i = 0; i < n && code == EXIT_DONE; i++) {
		const bool is_name = paths[i][0] && !strchr("/.", paths[i][0]);
		if (is_name && stat(paths[i], &st) < 0 && errno == ENOENT && list_targets(&t, name) == 0)
			code = find_target(name, &t, &paths[i]);
	}
	spool_query_targets_done(t.names);
	return code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tree: the calls of a program, by its own count. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "profiler/pprof/pprof.h"
#include "profiler/view/call_tree_text.h"
#include "profiler/view/calltree_profile.h"
#include "profiler/view/folded.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct asked {
	const char *name, *pprof, *type;
	bool folded, sites;
};

static int read_tree(const char *name, const char *path, struct calltree_file **ret)
{
	struct err e = {0};
	char *text;
	size_t len;
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	int r = fd < 0 ? fd : fd_slurp(fd, CALLTREE_FILE_MAX, &text, &len);
	if (r < 0)
		return command_fail(name, r, "cannot read %s: %s", path, strerror(-r));
	r = calltree_file_parse(text, len, ret, &e);
	return r < 0 ? command_fail(name, r, "%s: %s", path, e.text) : 0;
}

static int read_all(const struct asked *a, int n, char **paths, struct profile **ret)
{
	struct err e = {0};
	struct profile_symbolize *s = NULL;
	struct calltree_file **files = calloc((size_t)n, sizeof(*files));
	int r = files ? 0 : command_fail(a->name, -1, "there is no memory");
	for (int i = 0; r == 0 && i < n; i++)
		r = read_tree(a->name, paths[i], &files[i]);
	if (r == 0)
		profile_symbolize_open(false, &s, &e); /* names are not worth failing for */
	if (r == 0 && calltree_profile(files, (size_t)n, s, a->sites, ret, &e) < 0)
		r = command_fail(a->name, -1, "%s: %s", n == 1 ? paths[0] : "these files", e.text);
	profile_symbolize_close(s);
	for (int i = 0; files && i < n; i++)
		calltree_file_free(files[i]);
	free(files);
	return r;
}

static int write_pprof(const struct asked *a, const struct profile *p)
{
	uint8_t *data;
	size_t len;
	int r = pprof_write(p, &data, &len);
	if (r < 0)
		return command_fail(a->name, EXIT_FAILED, "cannot pack the profile: %s", strerror(-r));
	r = command_write(a->name, a->pprof, data, len);
	free(data);
	return r;
}

static int write_folded(const struct asked *a, const struct profile *p)
{
	int type = a->type ? profile_type_find(p, a->type) : (int)profile_default_type(p);
	if (type < 0)
		return command_fail(a->name, EXIT_USAGE, "there is no '%s' in it: there is calls%s", a->type,
			profile_info(p)->n_types > 1 ? " and time" : "; PILLION_TREE=FILE,time takes the time as well");
	int r = folded_write(p, (unsigned)type, "process", stdout);
	return r < 0 ? command_fail(a->name, EXIT_FAILED, "cannot write the paths: %s", strerror(-r)) : EXIT_DONE;
}

static int write_text(const struct asked *a, const struct profile *p)
{
	int r = call_tree_text_write(p, stdout);
	return r < 0 ? command_fail(a->name, EXIT_FAILED, "cannot write the tree: %s", strerror(-r)) : EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct asked a = {.name = argv[0]};
	const struct command_option options[] = {{.name = "--folded", .on = &a.folded},
		{.name = "--sites", .on = &a.sites}, {.name = "--pprof", .value = &a.pprof},
		{.name = "--type", .value = &a.type}, {0}};
	struct profile *p;

	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (n == 0)
		return command_fail(a.name, EXIT_USAGE, "which tree? Give files; see 'pillion help tree'");
	if (a.folded && a.pprof)
		return command_fail(a.name, EXIT_USAGE, "give one of --folded and --pprof; see 'pillion help tree'");
	if (a.type && !a.folded)
		return command_fail(a.name, EXIT_USAGE, "--type goes with --folded; see 'pillion help tree'");
	if (a.pprof && command_may_write(a.name, a.pprof) != EXIT_DONE)
		return EXIT_USAGE;
	if (read_all(&a, n, argv + 1, &p) < 0)
		return EXIT_FAILED;
	int code = a.folded ? write_folded(&a, p) : a.pprof ? write_pprof(&a, p) : write_text(&a, p);
	profile_free(p);
	return code;
}

const struct command cmd_tree = {
	.name = "tree",
	.line = "what a program calls, by its own count",
	.help = "usage: pillion tree FILE... [--sites] [--folded [--type TYPE] | --pprof OUT]\n"
		"\n"
		"Shows the calling-context tree of a program that is compiled with -finstrument-functions: each "
		"function\n"
		"below its caller, how often it was called there and, if that was asked for, the time it took. "
		"Recursion is\n"
		"folded: a call that is on its path already counts there. Several files are summed.\n"
		"\n"
		"  PILLION_TREE=FILE LD_PRELOAD=libpillion.so PROGRAM        writes FILE when the program exits\n"
		"  PILLION_TREE=FILE,time LD_PRELOAD=libpillion.so PROGRAM   with times; %p in FILE is the pid\n"
		"  pillion_tree_start(), pillion_tree_dump()                 from within: <pillion.h>\n"
		"\n"
		"  --sites       calls of a function from several places each by itself\n"
		"  --folded      one line per path, \"root;...;leaf VALUE\": input of flame graph tools\n"
		"  --type TYPE   calls or time (default: time, if it was taken)\n"
		"  --pprof OUT   a profile, with calls and time; -: to stdout\n"
		"\n"
		"example: pillion tree --folded --type calls app.tree | flamegraph.pl > app.svg\n",
	.run = run,
};

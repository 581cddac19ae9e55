/* SPDX-License-Identifier: Apache-2.0 */
/* top: the functions that cost most, of profiles or of the service's targets; once, or again and again. */
#include "profiler/cli/command.h"

#include "oci/config/cli_settings.h"

#include "profiler/cli/terminal.h"
#include "profiler/cli/top_live.h"
#include "profiler/spool/spool_latest.h"
#include "profiler/view/columns.h"
#include "profiler/view/target_table.h"
#include "profiler/view/top_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS_DEFAULT 20
#define INTERVAL_MS 2000
#define USUAL_TYPE "cpu"

struct asked {
	const char *self, *rows_text, *type, *control;
	bool once, live, cum;
	struct profile_filter filter;
	size_t rows;
	int n;
	char **paths;	     /* none: the service */
	struct options *own; /* of the service */
};

/* --- the input: the last windows of a service's targets, or the files named */

/* Two targets of one name have one directory. */
static bool is_known(const struct spool_latest *found, const char *dir)
{
	const size_t len = strlen(dir);
	for (size_t i = 0; i < found->n; i++)
		if (!strncmp(found->paths[i], dir, len) && strrchr(found->paths[i], '/') == found->paths[i] + len)
			return true;
	return false;
}

static int add_targets(const struct target_table *l, struct spool_latest *found)
{
	char dir[2048];
	int r = 0;
	for (size_t i = 0; r >= 0 && i < l->n; i++) {
		if (!l->targets[i].profile[0])
			continue;
		snprintf(dir, sizeof(dir), "%s/%s", l->spool, l->targets[i].profile);
		*strrchr(dir, '/') = 0;
		r = is_known(found, dir) ? 0 : spool_latest_add(found, dir);
		r = r == -ENOENT ? 0 : r; /* retention was faster */
	}
	return r;
}

static int of_service(const struct asked *a, struct spool_latest *found)
{
	struct target_table l = {0};
	int code = command_ask_targets(a->self, a->own->settings.paths.control, a->own->settings.paths.daemon, &l);
	if (code != EXIT_DONE)
		return code;
	const int r = add_targets(&l, found);
	if (r < 0)
		code = command_fail(a->self, EXIT_FAILED, "cannot read the profiles in %s: %s", l.spool, strerror(-r));
	else if (!found->n)
		code = command_fail(a->self, EXIT_NOTHING,
			l.n ? "no target has a window yet: the first is written when one is over"
			    : "pilliond profiles nothing: put io.pillion.profile=cpu on a container");
	target_table_done(&l);
	return code;
}

/* The profiles are of several kinds: takes those with CPU time, unless there are none. */
static int load_paths(
	const struct asked *a, struct spool_latest *found, const char *type, struct profile **ret, unsigned *ret_type)
{
	size_t cpu = 0;
	for (size_t i = 0; i < found->n; i++)
		cpu += !!strstr(found->paths[i], "-" USUAL_TYPE ".");
	return command_load(a->self, (int)found->n, found->paths, type ? type : cpu ? USUAL_TYPE : NULL, ret, ret_type);
}

static int load_profile(void *arg, const char *type, struct profile **ret, unsigned *ret_type)
{
	const struct asked *a = arg;
	struct spool_latest found = {0};
	if (a->n)
		return command_load(a->self, a->n, a->paths, type, ret, ret_type);
	int code = of_service(a, &found);
	if (code == EXIT_DONE)
		code = load_paths(a, &found, type, ret, ret_type);
	spool_latest_done(&found);
	return code;
}

/* --- once */

static int print_table(const struct asked *a, const struct profile *p, unsigned type)
{
	const struct top_view v = {.type = type, .by_cum = a->cum, .rows = a->rows, .columns = columns_of(stdout)};
	int r = top_header(p, a->n == 1 ? a->paths[0] : a->n ? "several files" : "the service's targets", stdout);
	putchar('\n');
	return r < 0 ? r : top_write_view(p, &v, NULL, stdout);
}

static int print_profile(struct asked *a)
{
	struct profile *p;
	unsigned type;
	int code = load_profile(a, a->type, &p, &type);
	if (code != EXIT_DONE)
		return code;
	code = command_filter(a->self, &a->filter, &p);
	const int r = code == EXIT_DONE ? print_table(a, p, type) : 0;
	profile_free(p);
	return r < 0 ? command_fail(a->self, EXIT_FAILED, "cannot write the table: %s", strerror(-r)) : code;
}

/* --- live */

struct seen {
	uint64_t sum;
};

static int hash_file(void *arg, int dir, const char *file, const char *path)
{
	struct seen *s = arg;
	struct stat st;
	if (fstatat(dir, file, &st, 0) == 0)
		s->sum = (s->sum ^ (uint64_t)st.st_mtim.tv_nsec ^ (uint64_t)st.st_mtim.tv_sec << 20 ^ st.st_ino ^
				 (uint64_t)st.st_size << 40) *
			 1099511628211u;
	return 0;
}

static uint64_t hash_files(void *arg)
{
	const struct asked *a = arg;
	struct seen s = {.sum = 1};
	struct spool_latest found = {0};
	size_t files;
	int n = a->n;
	char **paths = a->paths;
	if (!n && of_service(a, &found) == EXIT_DONE) {
		n = (int)found.n;
		paths = found.paths;
	}
	if (n)
		command_files(a->self, n, paths, hash_file, &s, &files);
	spool_latest_done(&found);
	return s.sum;
}

static int run_live_view(struct asked *a)
{
	const struct top_live_source s = {.changed = hash_files,
		.load = load_profile,
		.arg = a,
		.name = a->n == 1 ? a->paths[0]
			: a->n	  ? "several files"
				  : "last windows of all targets",
		.interval_ms = INTERVAL_MS};
	if (!terminal_possible())
		return command_fail(a->self, EXIT_USAGE, "--live needs a terminal (TERM=%s): --once prints the table",
			getenv("TERM") ? getenv("TERM") : "");
	return top_live_run(a->self, &s, a->type, a->cum, &a->filter);
}

/* Files do not change; the service and directories do. */
static bool goes_on(const struct asked *a)
{
	struct stat st;
	for (int i = 0; i < a->n; i++)
		if (stat(a->paths[i], &st) == 0 && S_ISDIR(st.st_mode))
			return true;
	return !a->n;
}

static int run(int argc, char **argv)
{
	static struct options own;
	struct asked a = {.self = argv[0], .rows = ROWS_DEFAULT, .own = &own};
	const struct command_option options[] = {{.name = "--rows", .alias = "-n", .value = &a.rows_text},
		{.name = "--type", .value = &a.type}, {.name = "--filter", .terms = &a.filter},
		{.name = "--cum", .on = &a.cum}, {.name = "--once", .on = &a.once}, {.name = "--live", .on = &a.live},
		{.name = "--control", .value = &a.control}, {0}};
	struct err e = {0};

	a.n = command_options(argc, argv, options);
	if (a.n < 0)
		return EXIT_USAGE;
	a.paths = argv + 1;
	if (a.rows_text && !command_rows(a.rows_text, &a.rows))
		return command_fail(
			a.self, EXIT_USAGE, "'%s' is not a number of rows: give 1, 2, ... or 'all'", a.rows_text);
	if (a.once && a.live)
		return command_fail(a.self, EXIT_USAGE, "give one of --once and --live; see 'pillion help top'");
	if (a.n && a.control)
		return command_fail(a.self, EXIT_USAGE, "--control is for the service: give it, or files");
	cli_settings_read(&own, 1, argv, &e);
	if (!e.code && a.control)
		options_set(&own, OPTION_FLAG, "control", a.control, &e);
	if (e.code && !a.n)
		return command_fail(a.self, EXIT_USAGE, "%s", e.text);
	const int code = command_find_targets(a.self, a.n, a.paths);
	if (code != EXIT_DONE)
		return code;
	return a.live || (!a.once && !a.rows_text && goes_on(&a) && terminal_possible()) ? run_live_view(&a)
											 : print_profile(&a);
}

const struct command cmd_top = {
	.name = "top",
	.line = "the functions that cost most, live or once",
	.help = "usage: pillion top [FILE|DIR...] [-n ROWS|all] [--type TYPE] [--filter TERM]... [--cum]\n"
		"                   [--once|--live] [--control SOCKET]\n"
		"\n"
		"Shows what a profile is of, what it lost, and the functions with the largest self time.\n"
		"Several files and all profiles of a directory are merged. Without an argument it is the last\n"
		"window of each target of the service.\n" COMMAND_TARGET_HELP "\n"
		"On a terminal the service and directories are shown live: read again as windows are written.\n"
		"Keys: q or Ctrl-C quit, s self or total first, t the next sample type, / filter, p pause,\n"
		"arrows, PgUp, PgDn, g, G. Files, and what goes into a pipe, are printed once.\n"
		"\n"
		"  -n, --rows ROWS        how many functions (default 20); printed once\n"
		"      --type TYPE        the sample type: samples, cpu, offcpu, ... (default: the profile's last)\n"
		"      --filter TERM      samples of a label (KEY=TEXT) or with a function (TEXT) alone; several:\n"
		"                         all must fit\n"
		"      --cum              the largest total first: with all that a function calls\n"
		"      --once             printed once, on a terminal too\n"
		"      --live             live, files too\n"
		"      --control SOCKET   of the service (PILLION_CONTROL; default /run/pillion/control.sock)\n"
		"\n"
		"example: pillion top -n 5 /var/lib/pillion/profiles/checkout\n",
	.run = run,
};

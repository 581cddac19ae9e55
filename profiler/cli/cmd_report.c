/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "profiler/inproc/crash_report.h"
#include "profiler/view/call_tree_text.h"
#include "profiler/view/folded.h"
#include "profiler/view/profile_json.h"
#include "profiler/view/top_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LEAST 200 /* a branch of the tree with less than one in so many is left out */
#define CRASH_SUFFIX ".json"

struct asked {
	const char *source, *by;
	unsigned type;
	bool all;
};

static int write_tree(const struct profile *p, const struct asked *a)
{
	int r = top_header(p, a->source, stdout);
	putchar('\n');
	return r < 0 ? r : call_tree_text_write_by(p, a->type, a->all ? 0 : LEAST, stdout);
}

static int write_table(const struct profile *p, const struct asked *a)
{
	int r = top_header(p, a->source, stdout);
	putchar('\n');
	return r < 0 ? r : top_write(p, a->type, TOP_ALL, stdout);
}

static int write_folded(const struct profile *p, const struct asked *a)
{
	return folded_write(p, a->type, a->by ? a->by : "process", stdout);
}

static int write_json(const struct profile *p, const struct asked *a)
{
	return profile_json_write(p, stdout);
}

enum { TEXT, FOLDED, PPROF, JSON, FORMS };
static int (*const forms[FORMS])(const struct profile *p, const struct asked *a) = {
	[TEXT] = write_tree, [FOLDED] = write_folded, [PPROF] = write_table, [JSON] = write_json};

/* --- a crash */

static bool is_crash(const char *path)
{
	const size_t len = strlen(path), suffix = strlen(CRASH_SUFFIX);
	return len > suffix && !strcmp(path + len - suffix, CRASH_SUFFIX);
}

static int write_crash(const char *self, const char *path, bool json)
{
	struct err e = {0};
	struct json *doc;
	char *text;
	size_t len;
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	if (crash_report_read(fd, path, &doc, &text, &len, &e) < 0)
		return command_fail(self, EXIT_FAILED, "%s", e.text);
	if (json)
		fwrite(text, 1, len, stdout);
	else
		crash_report_text(doc, stdout);
	json_free(doc);
	free(text);
	return EXIT_DONE;
}

static int write_crashes(const char *self, int n, char **paths, unsigned form)
{
	int code = EXIT_DONE;
	if (form != TEXT && form != JSON)
		return command_fail(self, EXIT_USAGE, "%s is a crash, which is shown with --text or --json", paths[0]);
	for (int i = 0; i < n; i++) {
		if (!is_crash(paths[i]))
			return command_fail(self, EXIT_USAGE, "%s is a crash and %s is none: report them one by one",
				paths[0], paths[i]);
		if (write_crash(self, paths[i], form == JSON) != EXIT_DONE)
			code = EXIT_FAILED;
	}
	return code;
}

/* --- the command */

static int write_report(const char *self, int n, char **paths, unsigned form, const char *type,
	const struct profile_filter *filter, struct asked *a)
{
	struct profile *p;
	int code = command_load(self, n, paths, type, &p, &a->type);
	if (code != EXIT_DONE)
		return code;
	code = command_filter(self, filter, &p);
	int r = code == EXIT_DONE ? forms[form](p, a) : 0;
	profile_free(p);
	return r < 0 ? command_fail(self, EXIT_FAILED, "cannot write the report: %s", strerror(-r)) : code;
}

static int run(int argc, char **argv)
{
	const char *type = NULL;
	bool on[FORMS] = {false};
	unsigned form = FORMS, given = 0;
	struct asked a = {0};
	struct profile_filter filter = {0};
	const struct command_option options[] = {{.name = "--text", .on = &on[TEXT]},
		{.name = "--folded", .on = &on[FOLDED]}, {.name = "--pprof", .on = &on[PPROF]},
		{.name = "--json", .on = &on[JSON]}, {.name = "--all", .on = &a.all},
		{.name = "--type", .value = &type}, {.name = "--by", .value = &a.by},
		{.name = "--filter", .terms = &filter}, {0}};

	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	for (unsigned i = 0; i < FORMS; i++)
		if (on[i] && ++given)
			form = i;
	if (given != 1)
		return command_fail(argv[0], EXIT_USAGE,
			"give one of --text, --folded, --pprof and --json; see 'pillion help report'");
	if (a.by && form != FOLDED)
		return command_fail(argv[0], EXIT_USAGE, "--by goes with --folded; see 'pillion help report'");
	if (a.all && form != TEXT)
		return command_fail(argv[0], EXIT_USAGE, "--all goes with --text; see 'pillion help report'");
	if (n && is_crash(argv[1]))
		return write_crashes(argv[0], n, argv + 1, form);
	a.source = n == 1 ? argv[1] : "several files";
	return write_report(argv[0], n, argv + 1, form, type, &filter, &a);
}

const struct command cmd_report = {
	.name = "report",
	.line = "a profile in another form",
	.help = "usage: pillion report --text|--folded|--pprof|--json FILE|DIR... [--type TYPE] [--by LABEL]\n"
		"                      [--filter TERM]... [--all]\n"
		"\n"
		"Several files and all profiles of a directory are merged. Call counts (calls profiles) are\n"
		"profiles as others are. Of a crash (crashes/*.json) it shows signal, stack, registers and "
		"mappings.\n" COMMAND_TARGET_HELP "\n"
		"  --text          a tree: each function below its caller, the largest first; what has less than\n"
		"                  half a per cent of all is left out\n"
		"  --all           that, too\n"
		"  --folded        one line per stack, \"process;root;...;leaf VALUE\": input of flame graph tools\n"
		"  --pprof         every function, in the columns of `go tool pprof -text`\n"
		"  --json          all of it, for scripts; /usr/share/doc/pillion/profiler/view/reading.md has the "
		"keys\n"
		"  --by LABEL      another label than process first: thread, exe, pid, cpu, user.x, ...\n"
		"  --type TYPE     the sample type: samples, cpu, offcpu, ... (default: the profile's last)\n"
		"  --filter TERM   samples of a label (KEY=TEXT) or with a function (TEXT) alone; several: all\n"
		"                  must fit\n"
		"\n"
		"example: pillion report --folded window.pb.gz | flamegraph.pl > window.svg\n",
	.run = run,
};

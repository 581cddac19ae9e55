/* SPDX-License-Identifier: Apache-2.0 */
/* crashes: the reports of programs that ended by a signal. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "oci/config/cli_settings.h"
#include "profiler/inproc/crash_report.h"
#include "profiler/spool/crash_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct asked {
	const char *self;
	bool json, found;
};

/* `line`: as one of a list. */
static int print_report(const struct asked *a, int dir, const char *file, const char *path, bool line)
{
	struct err e = {0};
	struct json *doc;
	char *text;
	size_t len;
	fd_auto fd = fd_open(dir, file, O_RDONLY | O_NONBLOCK, 0);
	if (crash_report_read(fd, path, &doc, &text, &len, &e) < 0)
		return command_fail(a->self, EXIT_FAILED, "%s", e.text);
	if (a->json)
		fwrite(text, 1, len, stdout);
	else if (line)
		crash_report_line(doc, path, stdout);
	else
		crash_report_text(doc, stdout);
	json_free(doc);
	free(text);
	return EXIT_DONE;
}

static int list_reports(struct asked *a, int dir, const char *path)
{
	char **names, whole[4096];
	size_t n;
	int r = crash_dir_list(dir, &names, &n), code = EXIT_DONE;
	if (r < 0)
		return command_fail(a->self, EXIT_FAILED, "cannot list %s: %s", path, strerror(-r));
	for (size_t i = 0; i < n; i++) {
		if (!a->found && !a->json)
			crash_report_head(stdout);
		a->found = true;
		snprintf(whole, sizeof(whole), "%s/%s", path, names[i]);
		if (print_report(a, dir, names[i], whole, true) != EXIT_DONE)
			code = EXIT_FAILED;
	}
	crash_dir_list_done(names);
	return code;
}

/* Lists a spool, which has a directory of reports, or that directory itself. */
static int list_path(struct asked *a, const char *path)
{
	char below[4096];
	snprintf(below, sizeof(below), "%s/" CRASH_DIR, path);
	fd_auto dir = fd_open_dir(AT_FDCWD, path);
	if (dir < 0)
		return command_fail(a->self, EXIT_FAILED, "cannot open %s: %s", path, strerror(-dir));
	fd_auto of = fd_open(dir, CRASH_DIR, O_RDONLY | O_DIRECTORY, 0);
	if (of == -ENOENT)
		return list_reports(a, dir, path);
	return of < 0 ? command_fail(a->self, EXIT_FAILED, "cannot open %s: %s", below, strerror(-of))
		      : list_reports(a, of, below);
}

static int print_path_reports(struct asked *a, const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return command_fail(a->self, EXIT_FAILED, "cannot read %s: %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode)) {
		command_await(a->self, path);
		return list_path(a, path);
	}
	a->found = true;
	return print_report(a, AT_FDCWD, path, path, false);
}

static int of_service(struct asked *a)
{
	static struct options o;
	char *none[] = {(char *)a->self, NULL};
	struct err e = {0};
	cli_settings_read(&o, 1, none, &e);
	if (e.code)
		return command_fail(a->self, EXIT_USAGE, "%s", e.text);
	return print_path_reports(a, o.settings.paths.spool);
}

static int run(int argc, char **argv)
{
	struct asked a = {.self = argv[0]};
	const struct command_option options[] = {{.name = "--json", .on = &a.json}, {0}};
	const int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	int code = n ? EXIT_DONE : of_service(&a);
	for (int i = 1; i <= n; i++)
		if (print_path_reports(&a, argv[i]) != EXIT_DONE)
			code = EXIT_FAILED;
	if (code == EXIT_DONE && !a.found)
		return command_fail(a.self, EXIT_NOTHING, "no crash is reported there");
	return code;
}

const struct command cmd_crashes = {
	.name = "crashes",
	.line = "reports of programs that ended by a signal",
	.help = "usage: pillion crashes [--json] [DIRECTORY | FILE]...\n"
		"\n"
		"Lists the crashes that are reported in directories of profiles, or shows those of files: signal and "
		"reason, the\n"
		"stack with functions and lines, registers, what was mapped. Without an argument it lists those of the "
		"service.\n"
		"\n"
		"  --json   the reports as they are: one document after the other\n"
		"\n"
		"What is reported: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT and SIGTRAP, where they end a program that "
		"runs with the\n"
		"event `crash`. Core file, exit status and the program's own handlers are as without it.\n"
		"\n"
		"example: pillion run --events cpu,crash -- ./app; pillion crashes pillion-*\n",
	.run = run,
};

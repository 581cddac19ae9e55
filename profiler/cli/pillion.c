/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pillion - the command line. Policy: needs no privilege but for `on` and `off`; a failure is one sentence on stderr
 * and an exit code of command.h; nothing is logged.
 */
#include "oci/base/nearest.h"
#include "profiler/cli/command.h"
#include "profiler/symbol/forkserver.h"

#include <stdio.h>
#include <string.h>

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const struct command cmd_version = {
	.name = "version",
	.line = "print the version",
	.help = "usage: pillion version [--json]\n"
		"\n"
		"  --json   an object with name and version, for scripts\n"
		"\n"
		"example: pillion version --json | jq -r .version\n",
	.run = run_version,
};

static const struct command cmd_help = {
	.name = "help",
	.line = "this list, or the help of one command",
	.help = "usage: pillion help [COMMAND]\n"
		"\n"
		"example: pillion help top\n",
	.run = run_help,
};

const struct command *const commands[] = {
	&cmd_run,
	&cmd_attach,
	&cmd_ps,
	&cmd_top,
	&cmd_report,
	&cmd_flame,
	&cmd_diff,
	&cmd_events,
	&cmd_symbolize,
	&cmd_tree,
	&cmd_export,
	&cmd_push,
	&cmd_crashes,
	&cmd_inject,
	&cmd_install,
	&cmd_uninstall,
	&cmd_doctor,
	&cmd_on,
	&cmd_off,
	&cmd_remap,
	&cmd_version,
	&cmd_help,
	&cmd_complete,
	&cmd_manual,
	NULL,
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

/* NULL: no name is near enough */
static const char *find_nearest_command(const char *typed)
{
	const char *best = NULL;
	size_t near = nearest_limit(strlen(typed));
	for (size_t i = 0; commands[i]; i++) {
		const size_t d =
			commands[i]->hidden ? NEAREST_MAX : nearest_distance(typed, strlen(typed), commands[i]->name);
		if (d < near) {
			near = d;
			best = commands[i]->name;
		}
	}
	return best;
}

static const struct command *find_command(const char *name)
{
	const struct command *c = command_find(name);
	const char *other = c ? NULL : find_nearest_command(name);
	if (other)
		fprintf(stderr, "pillion: unknown command '%s'; did you mean '%s'? 'pillion help' lists all\n", name,
			other);
	else if (!c)
		fprintf(stderr, "pillion: unknown command '%s'; 'pillion help' lists all\n", name);
	return c;
}

static void print_list(FILE *out)
{
	fputs("usage: pillion COMMAND ...\n\n", out);
	for (size_t i = 0; commands[i]; i++)
		if (!commands[i]->hidden)
			fprintf(out, "  %-9s  %s\n", commands[i]->name, commands[i]->line);
	fputs("\n'pillion help COMMAND' says more.\n", out);
}

static int run_help(int argc, char **argv)
{
	const struct command *c = argc > 1 ? find_command(argv[1]) : NULL;
	if (argc > 1 && !c)
		return EXIT_USAGE;
	if (c)
		command_help(c, stdout);
	else
		print_list(stdout);
	return EXIT_DONE;
}

static int run_version(int argc, char **argv)
{
	bool json = false;
	const struct command_option options[] = {{.name = "--json", .on = &json}, {0}};
	const int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (n > 0)
		return command_fail(argv[0], EXIT_USAGE, "it takes no argument, so '%s' is one too many", argv[1]);
	puts(json ? "{\"name\": \"pillion\", \"version\": \"" VERSION "\"}" : "pillion " VERSION);
	return EXIT_DONE;
}

/* `pillion --help`, `pillion --version` */
static const char *command_name(const char *arg)
{
	if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
		return "help";
	return strcmp(arg, "--version") ? arg : "version";
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

int main(int argc, char **argv)
{
	forkserver_main(argc, argv); /* started by `symbolize` */
	if (argc < 2) {
		print_list(stderr);
		return EXIT_USAGE;
	}
	const struct command *c = find_command(command_name(argv[1]));
	if (!c)
		return EXIT_USAGE;
	argv[1] = (char *)c->name;
	int code = EXIT_DONE;
	if (!c->own_options && asks_for_help(argc - 1, argv + 1))
		command_help(c, stdout);
	else
		code = c->run(argc - 1, argv + 1);
	if ((fflush(stdout) || ferror(stdout)) && code == EXIT_DONE)
		code = command_fail(c->name, EXIT_FAILED, "cannot write to standard output: %m");
	return code;
}

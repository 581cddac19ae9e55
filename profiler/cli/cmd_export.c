/* SPDX-License-Identifier: Apache-2.0 */
/* export: windows as one profile, for other programs. */
#include "profiler/cli/command.h"
#include "profiler/pprof/pprof.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_pprof(const char *self, const struct profile *p, const char *output)
{
	uint8_t *data;
	size_t len;
	int r = pprof_write(p, &data, &len);
	if (r < 0)
		return command_fail(self, EXIT_FAILED, "cannot pack the profile: %s", strerror(-r));
	r = command_write(self, output, data, len);
	free(data);
	if (r == EXIT_DONE && strcmp(output, "-") != 0)
		printf("%s\n", output);
	return r;
}

static int run(int argc, char **argv)
{
	const char *output = NULL, *type_name = NULL;
	struct profile_filter filter = {0};
	const struct command_option options[] = {{.name = "--output", .alias = "-o", .value = &output},
		{.name = "--type", .value = &type_name}, {.name = "--filter", .terms = &filter}, {0}};
	struct profile *p;
	unsigned type;
	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (!output)
		return command_fail(argv[0], EXIT_USAGE, "where to? Give --output FILE, or '-' for standard output");
	int code = command_may_write(argv[0], output);
	if (code == EXIT_DONE)
		code = command_load(argv[0], n, argv + 1, type_name, &p, &type);
	if (code != EXIT_DONE)
		return code;
	code = command_filter(argv[0], &filter, &p);
	if (code == EXIT_DONE)
		code = write_pprof(argv[0], p, output);
	profile_free(p);
	return code;
}

const struct command cmd_export = {
	.name = "export",
	.line = "windows as one profile, for other programs",
	.help = "usage: pillion export FILE|DIR... --output FILE|- [--type TYPE] [--filter TERM]...\n"
		"\n"
		"Merges files and all profiles of directories into one pprof file (.pb.gz): for go tool pprof,\n"
		"Pyroscope, Parca, speedscope. Whole or not at all. For text see 'pillion help "
		"report'.\n" COMMAND_TARGET_HELP "\n"
		"  -o, --output FILE   where to; -: standard output\n"
		"      --type TYPE     files with this sample type: samples, cpu, offcpu, ... (default: those of\n"
		"                      the first)\n"
		"      --filter TERM   samples of a label (KEY=TEXT) or with a function (TEXT) alone; several: all\n"
		"                      must fit\n"
		"\n"
		"example: pillion export /var/lib/pillion/profiles/checkout/20261126T10* -o ten.pb.gz\n",
	.run = run,
};

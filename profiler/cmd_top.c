#include "profiler/command.h"
#include "profiler/top.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_DEFAULT 20

static bool parse_rows(const char *text, size_t *ret)
{
	char *end;
	if (!strcmp(text, "all")) {
		*ret = TOP_ALL;
		return true;
	}
	unsigned long n = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || n < 1)
		return false;
	*ret = n;
	return true;
}

static int run(int argc, char **argv)
{
	const char *rows_text = NULL, *type_name = NULL;
	const struct command_option options[] = {
		{.name = "--rows", .alias = "-n", .value = &rows_text}, {.name = "--type", .value = &type_name}, {0}};
	struct profile *p;
	unsigned type;
	size_t rows = ROWS_DEFAULT;

	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (rows_text && !parse_rows(rows_text, &rows))
		return command_fail(
			argv[0], EXIT_USAGE, "'%s' is not a number of rows: give 1, 2, ... or 'all'", rows_text);
	int code = command_load(argv[0], n, argv + 1, type_name, &p, &type);
	if (code != EXIT_DONE)
		return code;
	int r = top_header(p, n == 1 ? argv[1] : "several files", stdout);
	putchar('\n');
	if (!r)
		r = top_write(p, type, rows, stdout);
	profile_free(p);
	return r < 0 ? command_fail(argv[0], EXIT_FAILED, "cannot write the table: %s", strerror(-r)) : EXIT_DONE;
}

const struct command cmd_top = {
	.name = "top",
	.line = "the functions that cost most",
	.help = "usage: pillion top FILE|DIR... [-n ROWS|all] [--type TYPE]\n"
		"\n"
		"Shows what a profile is of, what it lost, and the functions with the largest self time.\n"
		"Several files and all profiles of a directory are merged.\n"
		"\n"
		"  -n, --rows ROWS   how many functions (default 20)\n"
		"      --type TYPE   the sample type: samples, cpu, offcpu, ... (default: the profile's last)\n"
		"\n"
		"example: pillion top -n 5 /var/lib/pillion/profiles/checkout\n",
	.run = run,
};

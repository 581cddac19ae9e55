#include "profiler/command.h"
#include "profiler/folded.h"
#include "profiler/top.h"

#include <stdio.h>
#include <string.h>

static int write_text(const struct profile *p, const char *source, unsigned type)
{
	int r = top_header(p, source, stdout);
	putchar('\n');
	return r < 0 ? r : top_write(p, type, TOP_ALL, stdout);
}

static int run(int argc, char **argv)
{
	const char *type_name = NULL, *by = NULL;
	bool folded = false, text = false;
	const struct command_option options[] = {{.name = "--folded", .on = &folded}, {.name = "--text", .on = &text},
		{.name = "--type", .value = &type_name}, {.name = "--by", .value = &by}, {0}};
	struct profile *p;
	unsigned type;

	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (folded == text)
		return command_fail(argv[0], EXIT_USAGE, "give one of --folded and --text; see 'pillion help report'");
	if (by && !folded)
		return command_fail(argv[0], EXIT_USAGE, "--by goes with --folded; see 'pillion help report'");
	int code = command_load(argv[0], n, argv + 1, type_name, &p, &type);
	if (code != EXIT_DONE)
		return code;
	const char *source = n == 1 ? argv[1] : "several files";
	int r = folded ? folded_write(p, type, by ? by : "process", stdout) : write_text(p, source, type);
	profile_free(p);
	return r < 0 ? command_fail(argv[0], EXIT_FAILED, "cannot write the report: %s", strerror(-r)) : EXIT_DONE;
}

const struct command cmd_report = {
	.name = "report",
	.line = "a profile in another form",
	.help = "usage: pillion report --folded|--text FILE|DIR... [--type TYPE] [--by LABEL]\n"
		"\n"
		"Several files and all profiles of a directory are merged.\n"
		"\n"
		"  --folded      one line per stack, \"process;root;...;leaf VALUE\": input of flame graph tools\n"
		"  --text        every function, as `pillion top -n all`\n"
		"  --by LABEL    another label than process first: thread, exe, pid, cpu, user.x, ...\n"
		"  --type TYPE   the sample type: samples, cpu, offcpu, ... (default: the profile's last)\n"
		"\n"
		"example: pillion report --folded window.pb.gz | flamegraph.pl > window.svg\n",
	.run = run,
};

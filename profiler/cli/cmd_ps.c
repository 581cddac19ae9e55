/* SPDX-License-Identifier: Apache-2.0 */
/* ps: the targets of the running service. */
#include "profiler/cli/command.h"

#include "oci/config/cli_settings.h"

#include "profiler/view/target_table.h"

#include <string.h>

static int run(int argc, char **argv)
{
	static struct options o;
	const char *control = NULL;
	bool json = false, full = false;
	const struct command_option flags[] = {{.name = "--json", .on = &json}, {.name = "--no-trunc", .on = &full},
		{.name = "--control", .value = &control}, {0}};
	struct err e = {0};
	struct target_table l = {0};
	int n = command_options(argc, argv, flags);
	if (n < 0)
		return EXIT_USAGE;
	if (n > 0)
		return command_fail(argv[0], EXIT_USAGE, "it takes no argument, so '%s' is one too many", argv[1]);
	cli_settings_read(&o, 1, argv, &e);
	if (!e.code && control)
		options_set(&o, OPTION_FLAG, "control", control, &e);
	if (e.code)
		return command_fail(argv[0], EXIT_USAGE, "%s", e.text);
	int code = command_ask_targets(argv[0], o.settings.paths.control, o.settings.paths.daemon, &l);
	int r = code != EXIT_DONE ? 0 : json ? target_table_json(&l, stdout) : target_table_write(&l, full, stdout);
	target_table_done(&l);
	return r < 0 ? command_fail(argv[0], EXIT_FAILED, "cannot write the list: %s", strerror(-r)) : code;
}

const struct command cmd_ps = {
	.name = "ps",
	.line = "targets of the running service",
	.help = "usage: pillion ps [--json] [--no-trunc] [--control SOCKET]\n"
		"\n"
		"Asks the service on this host for its targets: one line per target, newest first, and a total.\n"
		"Sessions serve one target each and are not listed. Only root, or the user who started the\n"
		"service, may ask.\n"
		"\n"
		"  STATE      registered, armed (its program has not begun), started, ending (names are waited for)\n"
		"  STRATEGY   how it is attached to; \":user\": without kernel code\n"
		"  PER-S      samples per second since its window began\n"
		"  LOWERED    sampled at that part of the rate that was asked for: it alone brought too much (cap), or "
		"all cost\n"
		"             too much (budget); weights are scaled\n"
		"  BYTES      of its records, samples or not\n"
		"  LOST       samples, as the kernel counted them until the last window's end; \"+N?\": records lost "
		"since "
		"then\n"
		"             on the rings that all targets share\n"
		"  CPU        what it used since it was armed, by its cgroup's account\n"
		"  COST       CPU time of pilliond for it: its windows, and by number of records its share of reading "
		"the "
		"rings\n"
		"             (beside it the symbolizer's time for its names: naming_us of --json, by the wall clock)\n"
		"  MEMORY     what was counted for it in this window, and its events\n"
		"  PROFILE    the last one written\n"
		"\n"
		"  --json             an array with an object for each target instead\n"
		"  --no-trunc         ids, names and paths in full\n"
		"  --control SOCKET   of the service (PILLION_CONTROL; default /run/pillion/control.sock)\n"
		"\n"
		"example: pillion ps --json | jq -r '.[] | select(.lost > 0) | .name'\n",
	.run = run,
};

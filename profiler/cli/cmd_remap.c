/* SPDX-License-Identifier: Apache-2.0 */
/* remap: run by a service's unit after its start. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "oci/config/cli_settings.h"
#include "shim/attach/attach.h"

#include <stdio.h>

static void print_remap_error(const char *id, const struct err *why)
{
	char name[256];
	snprintf(name, sizeof(name), "%s", id);
	command_fail("remap", EXIT_FAILED, "%s: what it has mapped meanwhile has no names: %s", command_clean(name),
		why->text);
}

static int run(int argc, char **argv)
{
	static struct options o;
	struct err e = {0};
	fd_hold_stdio(); /* keeps output for people out of our sockets */
	int next = cli_settings_read(&o, argc, argv, &e);
	if (e.code)
		return command_fail(argv[0], EXIT_USAGE, "%s", e.text);
	if (next != argc)
		return command_fail(argv[0], EXIT_USAGE, "it takes no argument, so '%s' is one too many", argv[next]);
	int told = attach_remap(&o, print_remap_error, &e);
	if (told < 0)
		return command_fail(argv[0], EXIT_FAILED, "%s", e.text);
	if (told)
		printf("remapped: %d\n", told);
	return EXIT_DONE;
}

const struct command cmd_remap = {
	.name = "remap",
	.line = "tell a service that was killed what its targets have mapped since",
	.help = "usage: pillion remap [--control SOCKET]\n"
		"\n"
		"Where all of a service was killed at once and its service manager had kept its targets, it goes on "
		"with them,\n"
		"but has not heard which programs and libraries came meanwhile. This looks in /proc and tells it. "
		"Needs root;\n"
		"the service's unit does it behind each start, and mostly there is nothing to do.\n"
		"\n"
		"example: sudo pillion remap\n",
	.run = run,
};

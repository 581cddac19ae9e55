/* SPDX-License-Identifier: Apache-2.0 */
/* on, off: the kill switch, a file that the hook checks first, and that every profiler watches for. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SWITCH_DIR OPTIONS_ETC
#define SWITCH SWITCH_DIR "/off"

static int print_error(const char *name, const char *what, int r)
{
	const char *way_out = r == -EACCES || r == -EPERM ? "; run it as root" : "";
	return command_fail(name, EXIT_FAILED, "cannot %s %s: %s%s", what, SWITCH, strerror(-r), way_out);
}

static int no_arguments(int argc, char **argv)
{
	static const struct command_option none[] = {{0}};
	int n = command_options(argc, argv, none);
	if (n > 0)
		return command_fail(argv[0], -EINVAL, "it takes no argument, so '%s' is one too many", argv[1]);
	return n;
}

static int run_off(int argc, char **argv)
{
	if (no_arguments(argc, argv) < 0)
		return EXIT_USAGE;
	umask(022); /* profilers look for it as a user of their own */
	if (mkdir(SWITCH_DIR, 0755) < 0 && errno != EEXIST)
		return print_error(argv[0], "create", -errno);
	int fd = fd_open(AT_FDCWD, SWITCH, O_WRONLY | O_CREAT | O_NOFOLLOW, 0644);
	if (fd < 0)
		return print_error(argv[0], "create", fd);
	fd_close(fd);
	puts("off: nothing is profiled on this host, until 'pillion on'");
	return EXIT_DONE;
}

static int run_on(int argc, char **argv)
{
	if (no_arguments(argc, argv) < 0)
		return EXIT_USAGE;
	if (unlink(SWITCH) < 0 && errno != ENOENT)
		return print_error(argv[0], "remove", -errno);
	puts("on: containers that ask for a profile get one");
	return EXIT_DONE;
}

const struct command cmd_on = {
	.name = "on",
	.line = "profile containers again after 'off'",
	.help = "usage: pillion on\n"
		"\n"
		"Removes the kill switch " SWITCH ". Needs root.\n"
		"\n"
		"example: sudo pillion on\n",
	.run = run_on,
};

const struct command cmd_off = {
	.name = "off",
	.line = "profile nothing on this host",
	.help = "usage: pillion off\n"
		"\n"
		"Creates the kill switch " SWITCH ", which the hook looks at first. Needs root.\n"
		"Profiling stops within a second; the last profiles are written. Programs keep running. 'pillion\n"
		"run' and 'attach' make no profile either. It works without a service.\n"
		"\n"
		"example: sudo pillion off\n",
	.run = run_off,
};

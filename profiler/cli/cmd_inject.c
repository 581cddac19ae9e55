/* SPDX-License-Identifier: Apache-2.0 */
/* inject: prints the settings of a container in which libpillion is to run. */
#include "profiler/cli/command.h"

#include "oci/base/json/json_write.h"
#include "oci/config/cli_settings.h"
#include "shim/attach/app_socket.h"
#include "shim/attach/app_socket_container.h"

#include <stdio.h>

static const char *const environment[] = {"LD_PRELOAD=" APP_CONTAINER_LIBRARY, "PILLION_SOCKET=" APP_CONTAINER_SOCKET};
#define N_ENVIRONMENT (sizeof(environment) / sizeof(environment[0]))

/* For podman, docker, nerdctl, but not for ctr's --mount. */
static void print_options(const char *library)
{
	printf("--volume %s:" APP_CONTAINER_LIBRARY ":ro", library);
	for (size_t i = 0; i < N_ENVIRONMENT; i++)
		printf(" --env %s", environment[i]);
	putchar('\n');
}

static struct jsonout *mount_of(const char *library)
{
	struct jsonout *m = json_write_object(), *options = json_write_array();
	static const char *const words[] = {"bind", "ro", "nosuid", "nodev"};
	int r = json_write_add(m, "destination", json_write_text(APP_CONTAINER_LIBRARY));
	if (r == 0)
		r = json_write_add(m, "type", json_write_text("bind"));
	if (r == 0)
		r = json_write_add(m, "source", json_write_text(library));
	for (size_t i = 0; r == 0 && i < sizeof(words) / sizeof(words[0]); i++)
		r = json_write_add(options, NULL, json_write_text(words[i]));
	if (r == 0)
		r = json_write_add(m, "options", options);
	return r < 0 ? json_write_free(m) : m;
}

/* Prints the additions to a config.json (runtime-spec, config.md). */
static int print_oci(const char *library)
{
	struct jsonout *all = json_write_object(), *mounts = json_write_array(), *process = json_write_object(),
		       *env = json_write_array();
	int r = json_write_add(mounts, NULL, mount_of(library));
	for (size_t i = 0; r == 0 && i < N_ENVIRONMENT; i++)
		r = json_write_add(env, NULL, json_write_text(environment[i]));
	if (r == 0)
		r = json_write_add(process, "env", env);
	if (r == 0)
		r = json_write_add(all, "process", process);
	if (r == 0)
		r = json_write_add(all, "mounts", mounts);
	if (r == 0)
		r = json_write_out(all, stdout);
	json_write_free(all);
	return r;
}

static int run(int argc, char **argv)
{
	static struct options o;
	char library[sizeof(((struct app_socket *)0)->library)];
	bool oci = false;
	struct err e = {0};
	const struct command_option options[] = {{.name = "--oci", .on = &oci}, {0}};
	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	if (n > 0)
		return command_fail(argv[0], EXIT_USAGE, "it takes no argument, so '%s' is one too many", argv[1]);
	cli_settings_read(&o, 1, argv, &e);
	if (e.code)
		return command_fail(argv[0], EXIT_USAGE, "%s", e.text);
	if (app_socket_find_library(&o.settings, library, sizeof(library), &e) < 0)
		return command_fail(argv[0], EXIT_FAILED, "%s", e.text);
	if (!oci)
		print_options(library);
	else if (print_oci(library) < 0)
		return command_fail(argv[0], EXIT_FAILED, "there is no memory");
	return EXIT_DONE;
}

const struct command cmd_inject = {
	.name = "inject",
	.line = "what a container is started with for alloc, calls and crash",
	.help = "usage: pillion inject [--oci]\n"
		"\n"
		"Prints options for podman, docker or nerdctl: libpillion as a read-only volume, and two variables of "
		"the\n"
		"environment. With them an annotation alone gives what is known within programs alone (alloc, calls, "
		"crash), on\n"
		"images of glibc and of musl; a static program is told that it cannot.\n"
		"\n"
		"  --oci    the same as parts of a config.json: mounts and process.env\n"
		"\n"
		"example: podman run $(pillion inject) --annotation io.pillion.profile=alloc IMAGE\n",
	.run = run,
};

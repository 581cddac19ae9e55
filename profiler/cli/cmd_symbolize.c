/* SPDX-License-Identifier: Apache-2.0 */
/* symbolize: names and lines for profiles that were written without them. A profile is replaced whole or not at all. */
#include "profiler/cli/command.h"

#include "oci/base/fd.h"
#include "profiler/pprof/pprof.h"
#include "profiler/pprof/profile_symbolize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define URLS "DEBUGINFOD_URLS" /* read by libdebuginfod */

struct job {
	const char *name;
	const char *out; /* NULL: in place */
	struct profile_symbolize *symbolize;
	size_t changed;
};

/* --- writing ------------------------------------------------------------------------------------------- */

/* Writes a profile elsewhere, or in its place. */
static int write_profile(const struct job *j, int dir, const char *file, const char *path, const void *data, size_t len)
{
	struct err e = {0};
	if (j->out)
		return command_write(j->name, j->out, data, len) == EXIT_DONE ? 0 : -EIO;
	int r = command_replace(dir, file, path, data, len, &e);
	return r < 0 ? command_fail(j->name, r, "%s%s", e.text, r == -EINVAL ? "" : "; -o FILE writes elsewhere") : 0;
}

/* Copies a profile that stays as it is, if it is to be elsewhere. */
static int copy_profile(const struct job *j, int dir, const char *file, const char *path)
{
	char *data;
	size_t len;
	fd_auto fd = fd_open(dir, file, O_RDONLY, 0);
	int r = fd < 0 ? fd : fd_slurp(fd, PPROF_READ_MAX, &data, &len);
	if (r < 0)
		return command_fail(j->name, r, "%s: cannot read it: %s", path, strerror(-r));
	r = write_profile(j, dir, file, path, data, len);
	free(data);
	return r;
}

/* --- a profile ----------------------------------------------------------------------------------------- */

static int save_profile(const struct job *j, int dir, const char *file, const char *path, const struct profile *p)
{
	uint8_t *data;
	size_t len;
	int r = pprof_write(p, &data, &len);
	if (r < 0)
		return command_fail(j->name, r, "%s: cannot pack it: %s", path, strerror(-r));
	r = write_profile(j, dir, file, path, data, len);
	free(data);
	return r;
}

static int symbolize_file(void *arg, int dir, const char *file, const char *path)
{
	struct job *j = arg;
	struct err e = {0};
	struct profile *p, *fresh = NULL;
	int r = command_read(j->name, dir, file, path, &p);
	if (r < 0)
		return r;
	r = profile_symbolize_run(j->symbolize, p, &fresh, &e);
	if (r < 0)
		command_fail(j->name, r, "%s: %s", path, e.text);
	else if (fresh)
		r = save_profile(j, dir, file, path, fresh);
	else if (j->out)
		r = copy_profile(j, dir, file, path);
	j->changed += r == 0 && fresh;
	profile_free(p);
	profile_free(fresh);
	return r;
}

/* --- the command --------------------------------------------------------------------------------------- */

static int print_summary(const struct job *j)
{
	struct profile_symbolize_sums sums;
	profile_symbolize_report(j->symbolize, stderr, &sums);
	const char *why = profile_symbolize_network_failure(j->symbolize), *urls = getenv(URLS);
	if (why)
		command_fail(j->name, 0, "%s", why);
	if (sums.without && !(urls && *urls))
		command_fail(j->name, 0,
			"there is no debug information of %zu of %zu modules here: install their debug packages, or "
			"name a debuginfod server by --debuginfod URL or " URLS
			" (of Debian: https://debuginfod.debian.net)",
			sums.without, sums.modules);
	if (!sums.modules)
		return command_fail(j->name, EXIT_DONE, "nothing is missing that a build-id could tell");
	return j->changed || !sums.without ? EXIT_DONE : EXIT_NOTHING;
}

static bool is_url(const char *text)
{
	static const char *const schemes[] = {"http://", "https://", "file://"};
	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (!strncmp(text, schemes[i], strlen(schemes[i])) && text[strlen(schemes[i])])
			return true;
	return false;
}

static int check_arguments(const struct job *j, int n, char **paths, const char *url)
{
	struct stat st;
	if (url && !is_url(url))
		return command_fail(
			j->name, EXIT_USAGE, "'%s' is no server: give a URL as https://debuginfod.debian.net", url);
	if (j->out && (n != 1 || (stat(paths[0], &st) == 0 && S_ISDIR(st.st_mode))))
		return command_fail(j->name, EXIT_USAGE,
			"-o takes one profile; without it each file is replaced, see 'pillion help %s'", j->name);
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	struct job j = {.name = argv[0]};
	const char *url = NULL;
	const struct command_option options[] = {
		{.name = "--output", .alias = "-o", .value = &j.out}, {.name = "--debuginfod", .value = &url}, {0}};
	struct err e = {0};
	size_t files;

	int n = command_options(argc, argv, options);
	int code = n < 0 ? EXIT_USAGE : command_find_targets(argv[0], n, argv + 1);
	if (code == EXIT_DONE)
		code = check_arguments(&j, n, argv + 1, url);
	if (code != EXIT_DONE)
		return code;
	if (url)
		setenv(URLS, url, 1);
	const char *urls = getenv(URLS);
	if (profile_symbolize_open(urls && *urls, &j.symbolize, &e) < 0)
		return command_fail(j.name, EXIT_FAILED, "%s", e.text);
	code = j.out ? command_may_write(j.name, j.out) : EXIT_DONE;
	if (code == EXIT_DONE)
		code = command_files(j.name, n, argv + 1, symbolize_file, &j, &files);
	if (code == EXIT_DONE)
		code = print_summary(&j);
	profile_symbolize_close(j.symbolize);
	return code;
}

const struct command cmd_symbolize = {
	.name = "symbolize",
	.line = "names and lines for profiles without them, by build-id",
	.help = "usage: pillion symbolize FILE|DIR... [--debuginfod URL]\n"
		"       pillion symbolize FILE -o OUT [--debuginfod URL]\n"
		"\n"
		"Fills in the function names, files, lines and inlined calls that a profile lacks, of any tool's that "
		"has\n"
		"mappings with build-ids. Each file is replaced, whole or not at all; one that lacks nothing is not "
		"touched.\n"
		"Debug information is looked for in this order, and anywhere but where the profile was made, too:\n"
		"/usr/lib/debug/.build-id; the module itself, if it lies here and has the build-id; debuginfod "
		"servers.\n" COMMAND_TARGET_HELP "\n"
		"  -o, --output OUT       leave FILE alone and write OUT; -: to stdout\n"
		"      --debuginfod URL   ask this server (default: those of DEBUGINFOD_URLS, else none). Needs the "
		"package\n"
		"                         libdebuginfod1, whose variables say the rest: DEBUGINFOD_CACHE_PATH,\n"
		"                         DEBUGINFOD_TIMEOUT (here 30 s), ...; see debuginfod-find(1)\n"
		"\n"
		"example: pillion symbolize /var/lib/pillion/profiles/checkout --debuginfod "
		"https://debuginfod.debian.net\n",
	.run = run,
};

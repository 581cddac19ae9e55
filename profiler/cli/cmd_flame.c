/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/command.h"
#include "profiler/view/flame_html.h"
#include "profiler/view/top_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT "flame.html"
#define OUTPUT_SVG "flame.svg"

static int write_to(const char *name, const struct flame_html *f, bool svg, const char *output)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	int r = out ? (svg ? flame_html_svg : flame_html_page)(f, out) : -ENOMEM;
	if (out && fclose(out) && r == 0)
		r = -ENOMEM;
	r = r < 0 ? command_fail(name, EXIT_FAILED, "cannot draw %s: %s", output,
			    r == -EINVAL ? "the profiles to be compared have different sample types" : strerror(-r))
		  : command_write(name, output, text, len);
	free(text);
	return r;
}

static bool names_picture(const char *output)
{
	const char *dot = output ? strrchr(output, '.') : NULL;
	return dot && !strcmp(dot, ".svg");
}

/* Returns the title: the targets' names, if there are any. */
static char *title_of(const struct profile *p, int n, char **paths)
{
	char *text = NULL;
	size_t len;
	const char *slash = strrchr(paths[0], '/');
	FILE *out = open_memstream(&text, &len);
	if (!out)
		return NULL;
	top_targets(p, n > 1 ? "several profiles" : slash && slash[1] ? slash + 1 : paths[0], out);
	fclose(out);
	return text;
}

/* The profile to compare with may have no sample that matches: then all is new. */
static int load_before(const char *name, const char *path, struct profile *after, const char *type,
	const struct profile_filter *filter, struct profile **ret)
{
	char *paths[] = {(char *)(uintptr_t)path};
	struct profile *some;
	struct err e = {0};
	unsigned unheard;
	int code = command_load(name, 1, paths, type, ret, &unheard);
	if (code == EXIT_DONE && profile_match_types(after, *ret) == -ENOMEM)
		code = command_fail(name, EXIT_FAILED, "%s: %s", path, strerror(ENOMEM));
	if (code != EXIT_DONE || !filter->n)
		return code;
	if (profile_filter_apply(*ret, filter, &some, &e) < 0)
		return command_fail(name, EXIT_FAILED, "%s: %s", path, e.text);
	profile_free(*ret);
	*ret = some;
	return EXIT_DONE;
}

static int run(int argc, char **argv)
{
	const char *type_name = NULL, *output = NULL, *before_path = NULL;
	bool svg = false;
	struct profile_filter filter = {0};
	const struct command_option options[] = {{.name = "--output", .alias = "-o", .value = &output},
		{.name = "--type", .value = &type_name}, {.name = "--before", .value = &before_path},
		{.name = "--svg", .on = &svg}, {.name = "--filter", .terms = &filter}, {0}};
	struct profile *p, *before = NULL;
	unsigned type;
	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	svg |= names_picture(output);
	output = output ? output : svg ? OUTPUT_SVG : OUTPUT;
	int code = command_load(argv[0], n, argv + 1, type_name, &p, &type);
	if (code != EXIT_DONE)
		return code;
	code = command_filter(argv[0], &filter, &p);
	if (code == EXIT_DONE && before_path)
		code = load_before(argv[0], before_path, p, profile_info(p)->types[type].type, &filter, &before);
	char *title = title_of(p, n, argv + 1);
	if (code == EXIT_DONE) {
		const struct flame_html f = {.of = p, .before = before, .type = type, .title = title ? title : ""};
		code = write_to(argv[0], &f, svg, output);
		if (code == EXIT_DONE && strcmp(output, "-") != 0)
			printf("%s\n", output);
	}
	free(title);
	profile_free(before);
	profile_free(p);
	return code;
}

const struct command cmd_flame = {
	.name = "flame",
	.line = "a profile as a flame graph in a page of its own",
	.help = "usage: pillion flame FILE|DIR... [--output FILE] [--svg] [--type TYPE] [--before FILE|DIR]\n"
		"                     [--filter TERM]...\n"
		"\n"
		"One file that needs a browser and nothing else: zoom, search, callers, by thread, process or\n"
		"another label, every sample type of the profile, light and dark, by mouse or keyboard.\n"
		"Several files and all profiles of a directory are merged.\n" COMMAND_TARGET_HELP "\n"
		"  -o, --output FILE       where to (default flame.html, flame.svg); -: to stdout\n"
		"      --svg               a picture without a script, which FILE.svg is, too\n"
		"      --type TYPE         the sample type to begin with: samples, cpu, offcpu, ...\n"
		"                          (default: the profile's last)\n"
		"      --before FILE|DIR   compared with this: red has a larger share of all than then, blue a\n"
		"                          smaller one\n"
		"      --filter TERM       samples of a label (KEY=TEXT) or with a function (TEXT) alone; several:\n"
		"                          all must fit\n"
		"\n"
		"example: pillion flame /var/lib/pillion/profiles/checkout -o checkout.html\n",
	.run = run,
};

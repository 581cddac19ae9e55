#include "profiler/command.h"
#include "profiler/flame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT "flame.html"
#define OUTPUT_SVG "flame.svg"

/* As a file that is there whole or not at all; "-" is stdout. */
static int write_to(const struct flame *f, bool svg, const char *path, struct err *e)
{
	char *text = NULL;
	size_t len;
	const bool is_stdout = !strcmp(path, "-");
	FILE *out = is_stdout ? stdout : open_memstream(&text, &len);
	int r = out ? (svg ? flame_svg : flame_page)(f, out) : -ENOMEM;
	if (out && !is_stdout && fclose(out) && r == 0)
		r = -ENOMEM;
	if (r < 0)
		err_say(e, r, "cannot draw %s: %s", path,
			r == -EINVAL ? "the profiles to be compared have different sample types" : strerror(-r));
	else if (!is_stdout)
		r = command_replace(AT_FDCWD, path, path, text, len, e);
	free(text);
	return r;
}

/* What they are called: the target's name where there is one. */
static const char *title_of(const struct profile *p, int n, char **paths, char *buf, size_t size)
{
	struct profile_sample s;
	const char *slash = strrchr(paths[0], '/');
	const char *name = n > 1 ? "several profiles" : slash && slash[1] ? slash + 1 : paths[0];
	if (profile_samples(p))
		profile_sample_get(p, 0, &s);
	for (size_t i = 0; profile_samples(p) && i < s.n_labels; i++)
		if (s.labels[i].str &&
			(!strcmp(s.labels[i].key, "service_name") || !strcmp(s.labels[i].key, "container")))
			name = s.labels[i].str;
	snprintf(buf, size, "%s", name);
	return buf;
}

static int run(int argc, char **argv)
{
	const char *type_name = NULL, *output = NULL, *before_path = NULL;
	bool svg = false;
	struct filter filter = {0};
	const struct command_option options[] = {{.name = "--output", .alias = "-o", .value = &output},
		{.name = "--type", .value = &type_name}, {.name = "--before", .value = &before_path},
		{.name = "--svg", .on = &svg}, {.name = "--filter", .terms = &filter}, {0}};
	struct profile *p, *before = NULL;
	struct err e = {0};
	char title[256];
	unsigned type, before_type;
	int n = command_options(argc, argv, options);
	if (n < 0)
		return EXIT_USAGE;
	output = output ? output : svg ? OUTPUT_SVG : OUTPUT;
	int code = command_load(argv[0], n, argv + 1, type_name, &p, &type);
	if (code != EXIT_DONE)
		return code;
	code = command_filter(argv[0], &filter, &p);
	if (code == EXIT_DONE && before_path) {
		char *paths[] = {(char *)(uintptr_t)before_path};
		code = command_load(argv[0], 1, paths, profile_info(p)->types[type].type, &before, &before_type);
		if (code == EXIT_DONE)
			code = command_filter(argv[0], &filter, &before);
	}
	if (code == EXIT_DONE) {
		const struct flame f = {.of = p,
			.before = before,
			.type = type,
			.title = title_of(p, n, argv + 1, title, sizeof(title))};
		if (write_to(&f, svg, output, &e) < 0)
			code = command_fail(argv[0], EXIT_FAILED, "%s", e.text);
		else if (strcmp(output, "-") != 0)
			printf("%s\n", output);
	}
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
		"Several files and all profiles of a directory are merged.\n"
		"\n"
		"  -o, --output FILE       where to (default flame.html, flame.svg); -: to stdout\n"
		"      --svg               a picture without a script\n"
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

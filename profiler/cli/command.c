/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/nearest.h"
#include "oci/base/utf8.h"
#include "profiler/cli/command.h"
#include "profiler/cli/progress.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool keeps;
static char said[512], taken[sizeof(said)];

void command_keep_saying(bool keep)
{
	keeps = keep;
}

void command_progress(const char *name, size_t file, const char *path)
{
	char text[512];
	snprintf(text, sizeof(text), "pillion %s: file %zu, %s", name, file, path);
	if (!keeps)
		progress_show(text);
}

const char *command_said(void)
{
	memcpy(taken, said, sizeof(taken));
	said[0] = 0;
	return taken;
}

void command_say_profile(const char *target, uint64_t samples, const char *path)
{
	fprintf(stderr, "%llu samples of %s; look: pillion top %s\n", (unsigned long long)samples, target, path);
}

int command_fail(const char *name, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	progress_end();
	if (keeps) {
		vsnprintf(said, sizeof(said), fmt, ap);
	} else {
		char *text = NULL; /* which may name files, and quote them */
		fprintf(stderr, "pillion %s: ", name);
		if (vasprintf(&text, fmt, ap) < 0)
			text = NULL;
		utf8_print(stderr, text ? text : fmt, NULL);
		putc('\n', stderr);
		free(text);
	}
	va_end(ap);
	return code;
}

bool command_rows(const char *text, size_t *ret)
{
	char *end;
	if (!strcmp(text, "all")) {
		*ret = SIZE_MAX;
		return true;
	}
	unsigned long n = strtoul(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end || n < 1)
		return false;
	*ret = n;
	return true;
}

void command_help(const struct command *c, FILE *out)
{
	fputs(c->help, out);
	if (!c->settings)
		return;
	fputs("\noptions, each also as PILLION_NAME and in pillion.conf:\n", out);
	options_help(out, OPTION_FLAG);
}

#define NAMES_MAX 32 /* of a command's options, with aliases */
#define ROW 256	     /* beyond any character that getopt_long_only(3) returns */

/* Each name is a long one, aliases too: "-xy" is one unknown option, and no row of letters. */
static void list_names(const struct command_option *options, struct option *ret)
{
	size_t n = 0;
	for (const struct command_option *o = options; o->name && n + 2 < NAMES_MAX; o++) {
		const int takes = o->value || o->terms ? required_argument : no_argument;
		ret[n++] = (struct option){o->name + 2, takes, NULL, ROW + (int)(o - options)};
		if (o->alias)
			ret[n++] = (struct option){o->alias + 1, takes, NULL, ROW + (int)(o - options)};
	}
}

/* getopt_long_only(3) also takes the beginning of a name, and one dash: here these stay mistakes. */
static bool is_spelled(const char *arg, const struct command_option *o)
{
	const size_t n = strlen(o->name);
	return (!strncmp(arg, o->name, n) && (!arg[n] || arg[n] == '=')) || (o->alias && !strcmp(arg, o->alias));
}

static int no_option(const char *command, const char *arg, const struct command_option *o)
{
	const char *meant = NULL;
	const size_t len = strcspn(arg, "=");
	size_t near = strncmp(arg, "--", 2) ? 0 : nearest_limit(len - 2);
	for (; o->name; o++) {
		const size_t d = nearest_distance(arg, len, o->name);
		if (d < near) {
			near = d;
			meant = o->name;
		}
	}
	if (meant)
		return command_fail(command, -EINVAL, "there is no option '%s'; is '%s' meant? 'pillion help %s'", arg,
			meant, command);
	return command_fail(command, -EINVAL, "there is no option '%s'; see 'pillion help %s'", arg, command);
}

/* "-" keeps the arguments in order, whatever POSIXLY_CORRECT says: argv[at] is being read. ":" keeps getopt silent. */
int command_options(int argc, char **argv, const struct command_option *options)
{
	struct option names[NAMES_MAX] = {0};
	int kept = 0, at = 1;
	list_names(options, names);
	optind = 0; /* from the beginning */
	for (int c; (c = getopt_long_only(argc, argv, "-:", names, NULL)) != -1; at = optind) {
		if (c == 1) {
			argv[++kept] = optarg;
			continue;
		}
		const int row = (c == '?' || c == ':' ? optopt : c) - ROW;
		const struct command_option *o = row < 0 ? NULL : &options[row];
		if (!o || !is_spelled(argv[at], o))
			return no_option(argv[0], argv[at], options);
		if (c == '?' || c == ':')
			return command_fail(argv[0], -EINVAL, "option '%s' %s; see 'pillion help %s'", o->name,
				c == ':' ? "needs a value" : "takes no value", argv[0]);
		if (o->terms && o->terms->n == PROFILE_FILTER_TERMS_MAX)
			return command_fail(argv[0], -EINVAL, "option '%s' may be there %d times at most", o->name,
				PROFILE_FILTER_TERMS_MAX);
		if (o->terms)
			o->terms->terms[o->terms->n++] = optarg;
		else if (o->value)
			*o->value = optarg;
		else
			*o->on = true;
	}
	while (optind < argc)
		argv[++kept] = argv[optind++];
	return kept;
}

const char *command_clean(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return text;
}

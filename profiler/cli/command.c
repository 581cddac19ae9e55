/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/nearest.h"
#include "oci/base/utf8.h"
#include "profiler/cli/command.h"
#include "profiler/cli/progress.h"

#include <errno.h>
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

/* The row of `arg`; for "--name=value" *ret_inline is behind the '='. */
static const struct command_option *find_option(const char *arg, const struct command_option *o, char **ret_inline)
{
	*ret_inline = NULL;
	for (; o->name; o++) {
		size_t n = strlen(o->name);
		if (!strcmp(arg, o->name) || (o->alias && !strcmp(arg, o->alias)))
			return o;
		if (!strncmp(arg, o->name, n) && arg[n] == '=') {
			*ret_inline = (char *)arg + n + 1;
			return o;
		}
	}
	return NULL;
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

int command_options(int argc, char **argv, const struct command_option *options)
{
	int kept = 0;
	for (int i = 1; i < argc; i++) {
		char *value;
		if (!strcmp(argv[i], "--")) {
			while (++i < argc)
				argv[++kept] = argv[i];
			break;
		}
		if (argv[i][0] != '-' || !argv[i][1]) {
			argv[++kept] = argv[i];
			continue;
		}
		const struct command_option *o = find_option(argv[i], options, &value);
		if (!o)
			return no_option(argv[0], argv[i], options);
		const bool wants = o->value || o->terms;
		if (wants && !value && i + 1 < argc)
			value = argv[++i];
		if (wants ? !value : !!value)
			return command_fail(argv[0], -EINVAL, "option '%s' %s; see 'pillion help %s'", o->name,
				wants ? "needs a value" : "takes no value", argv[0]);
		if (o->terms && o->terms->n == PROFILE_FILTER_TERMS_MAX)
			return command_fail(argv[0], -EINVAL, "option '%s' may be there %d times at most", o->name,
				PROFILE_FILTER_TERMS_MAX);
		if (o->terms)
			o->terms->terms[o->terms->n++] = value;
		else if (o->value)
			*o->value = value;
		else
			*o->on = true;
	}
	return kept;
}

const char *command_clean(char *text)
{
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return text;
}

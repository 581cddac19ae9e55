#include "profiler/command.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int command_fail(const char *name, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	fprintf(stderr, "pillion %s: ", name);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	putc('\n', stderr);
	return code;
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
			return command_fail(
				argv[0], -EINVAL, "there is no option '%s'; see 'pillion help %s'", argv[i], argv[0]);
		if (o->value && !value && i + 1 < argc)
			value = argv[++i];
		if (o->value ? !value : !!value)
			return command_fail(argv[0], -EINVAL, "option '%s' %s; see 'pillion help %s'", o->name,
				o->value ? "needs a value" : "takes no value", argv[0]);
		if (o->value)
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/runtime_argv.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#define RUNC (1u << DIALECT_RUNC)
#define CRUN (1u << DIALECT_CRUN)
#define BOTH (RUNC | CRUN)

/* An option that is not in the table is unclear. `to`: offset of its value in struct runtime_argv, NOWHERE: skipped. */
struct option {
	const char *name;
	char letter;
	unsigned dialects;
	bool value;
	size_t to;
};
#define NOWHERE SIZE_MAX
#define TO(field) offsetof(struct runtime_argv, field)

static const struct option global[] = {
	{"root", 0, BOTH, true, TO(root)},
	{"log", 0, BOTH, true, TO(log)},
	{"log-format", 0, BOTH, true, TO(log_format)},
	{"rootless", 0, BOTH, true, NOWHERE},
	{"criu", 0, RUNC, true, NOWHERE},
	{"cgroup-manager", 0, CRUN, true, NOWHERE},
	{"log-level", 0, CRUN, true, NOWHERE},
	{"debug", 0, BOTH, false, NOWHERE},
	{"systemd-cgroup", 0, BOTH, false, NOWHERE},
	{0},
};
static const struct option with_bundle[] = {
	/* create, run */
	{"bundle", 'b', BOTH, true, TO(bundle)},
	{"config", 'f', CRUN, true, TO(config)},
	{"console-socket", 0, BOTH, true, NOWHERE},
	{"pidfd-socket", 0, RUNC, true, NOWHERE},
	{"pid-file", 0, BOTH, true, NOWHERE},
	{"preserve-fds", 0, BOTH, true, NOWHERE},
	{"detach", 'd', BOTH, false, NOWHERE},
	{"keep", 0, BOTH, false, NOWHERE},
	{"no-pivot", 0, BOTH, false, NOWHERE},
	{"no-new-keyring", 0, BOTH, false, NOWHERE},
	{"no-subreaper", 0, BOTH, false, NOWHERE},
	{0},
};
static const struct option start[] = {{0}};
static const struct option delete[] = {{"force", 'f', BOTH, false, NOWHERE}, {0}};

static const struct {
	const char *name;
	enum runtime_argv_command command;
	const struct option *options;
} commands[] = {{"create", INVOKED_CREATE, with_bundle}, {"run", INVOKED_RUN, with_bundle},
	{"start", INVOKED_START, start}, {"delete", INVOKED_DELETE, delete}};

enum dialect dialect_of(const char *path)
{
	const char *name = strrchr(path, '/');
	return strstr(name ? name + 1 : path, "crun") ? DIALECT_CRUN : DIALECT_RUNC;
}

struct parse {
	enum dialect dialect;
	int argc, i;
	char **argv;
	struct runtime_argv *ret;
};

static void set_option_value(const struct parse *p, const struct option *o, const char *value)
{
	if (o->to != NOWHERE)
		*(const char **)((char *)p->ret + o->to) = value; /* the last one counts, in both */
}

/* runc's switches may have =true or =false, which does not matter here. */
static bool is_switch_value(const struct parse *p, const char *value)
{
	return p->dialect == DIALECT_RUNC && (!strcmp(value, "true") || !strcmp(value, "false"));
}

/* `name`: after the dashes, "bundle" or "bundle=B". */
static int take_long(struct parse *p, const struct option *o, const char *name)
{
	const char *equals = strchr(name, '=');
	const size_t len = equals ? (size_t)(equals - name) : strlen(name);
	for (; o->name; o++)
		if ((o->dialects & 1u << p->dialect) && strlen(o->name) == len && !strncmp(o->name, name, len))
			break;
	if (!o->name || (!o->value && equals && !is_switch_value(p, equals + 1)))
		return -EINVAL;
	if (!o->value)
		return 0;
	if (!equals && p->i + 1 >= p->argc)
		return -EINVAL;
	set_option_value(p, o, equals ? equals + 1 : p->argv[++p->i]);
	return 0;
}

/* "-b B" in both; "-b=B" is runc's, "-bB" crun's: each takes the other's form as an error, so it is unclear. */
static int take_short(struct parse *p, const struct option *o, const char *arg)
{
	const char letter = arg[1], *rest = arg + 2;
	for (; o->name; o++)
		if ((o->dialects & 1u << p->dialect) && o->letter == letter)
			break;
	if (!o->name)
		return -EINVAL;
	if (!o->value)
		return *rest ? -EINVAL : 0;
	if (!*rest) {
		if (p->i + 1 >= p->argc)
			return -EINVAL;
		set_option_value(p, o, p->argv[++p->i]);
		return 0;
	}
	if ((p->dialect == DIALECT_RUNC) != (*rest == '='))
		return -EINVAL;
	set_option_value(p, o, rest + (*rest == '='));
	return 0;
}

static int parse_option(struct parse *p, const struct option *options)
{
	const char *arg = p->argv[p->i];
	if (arg[1] == '-')
		return take_long(p, options, arg + 2);
	/* urfave/cli takes one dash for two */
	return p->dialect == DIALECT_RUNC && arg[1] && arg[2] && arg[2] != '=' ? take_long(p, options, arg + 1)
									       : take_short(p, options, arg);
}

static bool is_option(const char *arg)
{
	return arg[0] == '-' && arg[1];
}

/* The last word is the id. An option after it is an error to crun and to runc from 1.5 on. */
static int take_rest(struct parse *p, const struct option *options)
{
	for (; p->i < p->argc && is_option(p->argv[p->i]) && strcmp(p->argv[p->i], "--") != 0; p->i++)
		if (parse_option(p, options) < 0)
			return -EINVAL;
	p->ret->id_at = p->i;
	p->i += p->i < p->argc && !strcmp(p->argv[p->i], "--");
	p->ret->id = p->i + 1 == p->argc ? p->argv[p->i] : NULL;
	return p->ret->id && p->ret->id[0] ? 0 : -EINVAL;
}

int runtime_argv_parse(enum dialect dialect, int argc, char **argv, struct runtime_argv *ret)
{
	struct parse p = {.dialect = dialect, .argc = argc, .i = 1, .argv = argv, .ret = ret};
	*ret = (struct runtime_argv){0};
	for (; p.i < argc && is_option(argv[p.i]); p.i++)
		if (!strcmp(argv[p.i], "--") || parse_option(&p, global) < 0)
			return -EINVAL;
	ret->at = p.i;
	for (size_t i = 0; p.i < argc && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[p.i], commands[i].name)) {
			ret->command = commands[i].command;
			p.i++;
			return take_rest(&p, commands[i].options);
		}
	return 0;
}

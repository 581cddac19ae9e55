/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/config/options.h"

#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#define FILE_MAX (64u << 10)
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* --- the table ---------------------------------------------------------------------------------------------- */

struct row;
/* Parses the text into `field`, or returns -EINVAL and leaves `field` as it was. */
typedef int parse_fn(const struct row *row, const char *text, void *field);

static parse_fn parse_events, parse_labels, parse_word, parse_words, parse_level, parse_switch, parse_seconds, parse_ms,
	parse_size, parse_percent, parse_number, parse_path, parse_file, parse_log, parse_metrics, parse_name,
	parse_patterns;

struct row {
	const char *name;
	unsigned from; /* enum option_source, or'ed */
	parse_fn *parse;
	size_t offset, size;  /* of the field in struct options */
	uint64_t min, max;    /* of a number, in the unit of the field */
	const char *fallback; /* default, as text; NULL = all zero */
	const char *allowed; /* for help, and the sentence that refuses a value; parse_word reads its words from here */
	const char *about;   /* for help */
};

#define USER (OPTION_FLAG | OPTION_ENV | OPTION_FILE)
#define TENANT (USER | OPTION_ANNOTATION)
#define FIELD(f) offsetof(struct options, f), sizeof(((struct options *)0)->f)

/* clang-format off */
static const struct row rows[] = {
	{"events", TENANT, parse_events, FIELD(request.events), 0, 0,
		"cpu", "an event list, a preset, on or off", "what is counted"},
	{"stacks", TENANT, parse_word, FIELD(request.stacks), 0, 0,
		"auto", "auto, fp, dwarf, none", "how user stacks are taken"},
	{"attach", TENANT, parse_word, FIELD(request.attach), 0, 0,
		"auto", "auto, cgroup, process", "how events attach to the target"},
	{"labels", TENANT, parse_labels, FIELD(request.n_labels), 0, 0,
		NULL, "k=v,... (at most 16, key <= 63, value <= 128)", "labels of the profile, shown as user.k"},
	{"detail", TENANT, parse_words, FIELD(request.detail), 0, 0,
		NULL, "cpu, time, cgroup", "labels that samples have besides: each makes profiles larger"},
	{"window", TENANT, parse_seconds, FIELD(request.window_s), WINDOW_MIN_S, WINDOW_MAX_S,
		"60s", "5s to 3600s", "the span of one profile"},
	{"enabled", USER, parse_switch, FIELD(settings.enabled), 0, 0,
		"1", "1 or 0", "0 is as if pillion were not there"},
	{"strict", OPTION_FLAG | OPTION_ENV | OPTION_POLICY, parse_switch, FIELD(settings.strict), 0, 0,
		"0", "1 or 0", "a failure to profile fails the start"},
	{"quiet", OPTION_FLAG | OPTION_ENV, parse_switch, FIELD(settings.command.quiet), 0, 0,
		"0", "1 or 0", "`pillion run` does not say on a terminal where the profile will be"},
	{"wait", OPTION_FLAG | OPTION_ENV, parse_switch, FIELD(settings.command.wait), 0, 0,
		"0", "1 or 0", "`pillion run` stays above the program, its child, and ends with what was seen of it"},
	{"max-rate", OPTION_POLICY, parse_number, FIELD(settings.policy.max_rate), 1, 100000,
		"999", "1 to 100000", "samples per second that an annotation may ask for"},
	{"tracepoints", OPTION_POLICY, parse_switch, FIELD(settings.policy.tracepoints), 0, 0,
		"0", "1 or 0", "an annotation may ask for tracepoints, whose rate nothing bounds"},
	{"kprobes", OPTION_POLICY, parse_switch, FIELD(settings.policy.kprobes), 0, 0,
		"0", "1 or 0", "an annotation may ask for kprobes: every process that comes by there is slowed down"},
	{"uprobes", OPTION_POLICY, parse_switch, FIELD(settings.policy.uprobes), 0, 0,
		"0", "1 or 0", "an annotation may ask for uprobes: every process that runs the same file is slowed down"},
	{"raw", OPTION_POLICY, parse_switch, FIELD(settings.policy.raw), 0, 0,
		"0", "1 or 0", "an annotation may ask for any counter of the CPU's by its number"},
	{"sidecars", OPTION_POLICY, parse_switch, FIELD(settings.policy.sidecars), 0, 0,
		"0", "1 or 0", "a container's Pod may bring its own profiler: user code alone"},
	{"namespaces", OPTION_POLICY, parse_patterns, FIELD(settings.policy.allow_namespaces), 0, 0,
		NULL, "patterns with commas between them (* is any text)", "whose Pods may have a profile; all"},
	{"users", OPTION_POLICY, parse_patterns, FIELD(settings.policy.allow_users), 0, 0,
		NULL, "patterns with commas between them (* is any text)", "whose containers may, by name or number; all"},
	{"events", OPTION_POLICY, parse_patterns, FIELD(settings.policy.allow_events), 0, 0,
		NULL, "patterns with commas between them (* is any text)", "what an annotation may ask for; all"},
	{"sample-containers", OPTION_POLICY, parse_number, FIELD(settings.policy.sample), 1, 1000000,
		"1", "1 to 1000000", "one of so many annotated containers is profiled, chosen by its id"},
	{"budget", USER, parse_ms, FIELD(settings.budget_ms), 50, 5000,
		"500ms", "50ms to 5s", "the longest that a start may be held up"},
	{"control", USER, parse_path, FIELD(settings.paths.control), 0, 0,
		"/run/pillion/control.sock", "an absolute path (<= 107 bytes)", "the control socket"},
	{"spool", USER, parse_path, FIELD(settings.paths.spool), 0, 0,
		"/var/lib/pillion/profiles", "an absolute path (<= 1023 bytes)", "where a service or a container's session writes"},
	{"spool-size", USER, parse_size, FIELD(settings.spool_bytes), 1u << 20, 1ull << 50,
		"1GiB", "1MiB to 1048576GiB", "beyond it the oldest profiles are removed"},
	{"spool-age", USER, parse_seconds, FIELD(settings.spool_age_s), 1, 3650u * 86400,
		"7d", "1s to 3650d", "beyond it a profile is removed"},
	{"node", USER, parse_name, FIELD(settings.node), 0, 0,
		NULL, "a name", "what profiles say of where they are from; the host's name"},
	{"target-root", OPTION_FLAG | OPTION_FILE, parse_path, FIELD(settings.paths.target_root), 0, 0,
		NULL, "an absolute path (<= 1023 bytes)", "where files of targets are read that come without their own: a sidecar's"},
	{"users-group", USER, parse_name, FIELD(settings.users.group), 0, 0,
		NULL, "the name of a group", "whose members a service profiles processes of their own for; root's only"},
	{"users-max", USER, parse_number, FIELD(settings.users.max), 1, USERS_MAX,
		"4", "1 to 16", "users at a time; each has rings and processes of its own"},
	{"users-spool-size", USER, parse_size, FIELD(settings.users.spool_bytes), 1u << 20, 1ull << 50,
		"256MiB", "1MiB to 1048576GiB", "of each user: beyond it the oldest profiles are removed"},
	{"metrics", USER, parse_metrics, FIELD(settings.paths.metrics), 0, 0,
		NULL, "off, an absolute path (<= 107 bytes) or 127.0.0.1:PORT",
		"where a service serves metrics; http.sock beside the control socket"},
	{"targets", USER, parse_number, FIELD(settings.limits.targets), 1, 100000,
		"1000", "1 to 100000", "of a service: one more is refused"},
	{"fds", USER, parse_number, FIELD(settings.limits.fds), 64, 1u << 24,
		"65536", "64 to 16777216", "descriptors of a service: a target that needs more is refused, or has fewer events"},
	{"table-size", USER, parse_size, FIELD(settings.limits.table_bytes), 1u << 20, 1ull << 40,
		"48MiB", "1MiB to 1048576MiB", "stacks that a service counts: near it the window of the largest target ends early"},
	{"module-size", USER, parse_size, FIELD(settings.limits.module_bytes), 1u << 20, 1ull << 40,
		"96MiB", "1MiB to 1048576MiB", "unwind tables and symbols that a service keeps: beyond it addresses have no names"},
	{"jit-size", USER, parse_size, FIELD(settings.limits.jit_bytes), 64u << 10, 1ull << 40,
		"32MiB", "64KiB to 1048576MiB", "names of code made at run time that a service keeps"},
	{"target-rate", USER, parse_number, FIELD(settings.limits.target_rate), 0, 1u << 30,
		"4000", "samples a second, 0 = no bound", "of one target of a service: beyond it that is sampled less often"},
	{"target-bytes", USER, parse_size, FIELD(settings.limits.target_bytes), 0, 1ull << 40,
		"128MiB", "a size, 0 = no bound", "the same in bytes of samples a second"},
	{"cpu-budget", USER, parse_percent, FIELD(settings.limits.cpu_budget), 0, 100000,
		"1%", "0% to 100% of the machine, 0 = no bound", "CPU time that profiling may take: beyond it a service puts names off, then samples all less often"},
	{"output", USER, parse_file, FIELD(settings.paths.output), 0, 0,
		NULL, "a path (<= 1023 bytes)", "where `pillion run` and `attach` write, also -o: by themselves, also where a service listens; ./pillion-<pid>/"},
	{"duration", USER, parse_seconds, FIELD(settings.command.duration_s), 1, 3650u * 86400,
		NULL, "1s to 3650d", "when `pillion attach` lets go; when the target ends"},
	{"daemon", USER, parse_path, FIELD(settings.paths.daemon), 0, 0,
		"/usr/libexec/pillion/pilliond", "an absolute path (<= 1023 bytes)", "the program that a session starts"},
	{"runtime", OPTION_FILE, parse_path, FIELD(settings.paths.runtime), 0, 0,
		NULL, "an absolute path (<= 1023 bytes)", "the OCI runtime behind pillion-runc; the first runc or crun that is there"},
	{"config", OPTION_FLAG | OPTION_ENV, parse_path, FIELD(settings.paths.config), 0, 0,
		NULL, "an absolute path (<= 1023 bytes)", "the user's configuration file"},
	{"log", USER, parse_log, FIELD(settings.paths.log), 0, 0,
		NULL, "syslog, stderr or an absolute path", "where messages go"},
	{"log-level", USER, parse_level, FIELD(settings.log_level), 0, 0,
		"warn", "error, warn, info, debug", "the least message that is written"},
};
/* clang-format on */

/* --- values ------------------------------------------------------------------------------------------------- */

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if (*text < 0x20 || *text > 0x7e)
			return false;
	return true;
}

static int copy_text(const struct row *row, const char *text, void *field)
{
	size_t len = strlen(text);

	if (len >= row->size)
		return -EINVAL;
	memcpy(field, text, len + 1);
	return 0;
}

static int parse_events(const struct row *row, const char *text, void *field)
{
	if (!*text || !is_printable(text))
		return -EINVAL;
	return copy_text(row, strcmp(text, "on") ? text : "cpu", field);
}

/* Finds the index of a word in `allowed`. */
static int find_word(const struct row *row, const char *text, size_t size, uint32_t *ret)
{
	const char *word = row->allowed;
	size_t len = strcspn(word, ",");

	for (*ret = 0; len; ++*ret, len = strcspn(word, ",")) {
		if (size == len && !strncmp(word, text, len))
			return 0;
		word += len + strspn(word + len, ", ");
	}
	return -EINVAL;
}

/* The words of `allowed` are those of an enum, in its order. */
static int parse_word(const struct row *row, const char *text, void *field)
{
	uint32_t which;
	int r = find_word(row, text, strlen(text), &which);

	if (r == 0)
		memcpy(field, &which, sizeof(which));
	return r;
}

/* Several words of `allowed`, separated by commas: each is a bit. */
static int parse_words(const struct row *row, const char *text, void *field)
{
	uint32_t mask = 0, which;

	for (const char *at = text;; at++) {
		size_t len = strcspn(at, ",");
		if (find_word(row, at, len, &which) < 0)
			return -EINVAL;
		mask |= 1u << which;
		at += len;
		if (!*at)
			break;
		at += strspn(at + 1, " ");
	}
	memcpy(field, &mask, sizeof(mask));
	return 0;
}

static int parse_level(const struct row *row, const char *text, void *field)
{
	int level = log_parse_level(text);

	if (level < 0)
		return -EINVAL;
	memcpy(field, &level, sizeof(level));
	return 0;
}

static int parse_switch(const struct row *row, const char *text, void *field)
{
	static const char *const words[] = {"0", "1", "no", "yes", "false", "true", "off", "on"};

	for (size_t i = 0; i < LENGTH(words); i++) {
		if (strcmp(words[i], text))
			continue;
		*(bool *)field = i & 1;
		return 0;
	}
	return -EINVAL;
}

static int store_number(const struct row *row, uint64_t value, void *field)
{
	uint32_t narrow = (uint32_t)value;

	if (value < row->min || value > row->max)
		return -EINVAL;
	memcpy(field, row->size == sizeof(value) ? (void *)&value : (void *)&narrow, row->size);
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/* Digits, then exactly one of the units; no sign, no space, no overflow. */
static int parse_scaled(const char *text, const struct unit *units, size_t n, uint64_t *ret)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	for (; isdigit((unsigned char)*text); text++)
		if (__builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, (unsigned)(*text - '0'), &value))
			return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (!strcmp(units[i].name, text))
			return __builtin_mul_overflow(value, units[i].factor, ret) ? -EINVAL : 0;
	return -EINVAL;
}

static int parse_number(const struct row *row, const char *text, void *field)
{
	static const struct unit none[] = {{"", 1}};
	uint64_t value;
	int r = parse_scaled(text, none, LENGTH(none), &value);

	return r < 0 ? r : store_number(row, value, field);
}

/* Up to three decimals: the field has thousandths. */
static int parse_percent(const struct row *row, const char *text, void *field)
{
	static const struct unit whole[] = {{"", 1000}, {"%", 1000}};
	static const struct unit decimals[] = {{"", 1}, {"%", 1}};
	const char *point = strchr(text, '.');
	size_t digits = point ? strspn(point + 1, "0123456789") : 0;
	char joined[32];
	uint64_t value;
	if (!point)
		return parse_scaled(text, whole, LENGTH(whole), &value) < 0 ? -EINVAL : store_number(row, value, field);
	if (digits < 1 || digits > 3 || !isdigit((unsigned char)*text) || strlen(text) > sizeof(joined) - 4)
		return -EINVAL;
	snprintf(joined, sizeof(joined), "%.*s%.*s%.*s%s", (int)(point - text), text, (int)digits, point + 1,
		3 - (int)digits, "00", point + 1 + digits);
	return parse_scaled(joined, decimals, LENGTH(decimals), &value) < 0 ? -EINVAL : store_number(row, value, field);
}

static int parse_size(const struct row *row, const char *text, void *field)
{
	static const struct unit units[] = {{"", 1}, {"KiB", 1u << 10}, {"MiB", 1u << 20}, {"GiB", 1u << 30}};
	uint64_t value;
	int r = parse_scaled(text, units, LENGTH(units), &value);

	return r < 0 ? r : store_number(row, value, field);
}

static int parse_duration(const struct row *row, const char *text, uint64_t unit_ms, void *field)
{
	static const struct unit units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	uint64_t ms;

	if (parse_scaled(text, units, LENGTH(units), &ms) < 0 || ms % unit_ms)
		return -EINVAL;
	return store_number(row, ms / unit_ms, field);
}

static int parse_seconds(const struct row *row, const char *text, void *field)
{
	return parse_duration(row, text, 1000, field);
}

static int parse_ms(const struct row *row, const char *text, void *field)
{
	return parse_duration(row, text, 1, field);
}

static int parse_path(const struct row *row, const char *text, void *field)
{
	return *text == '/' ? copy_text(row, text, field) : -EINVAL;
}

/* A port must be whole, and on no other address of the machine. */
static int parse_metrics(const struct row *row, const char *text, void *field)
{
	static const char loopback[] = "127.0.0.1:";
	const char *port = text + sizeof(loopback) - 1;
	if (*text == '/' || !strcmp(text, "off"))
		return copy_text(row, text, field);
	if (strncmp(text, loopback, sizeof(loopback) - 1) != 0 || strspn(port, "0123456789") != strlen(port) ||
		strlen(port) > 5 || atoi(port) < 1 || atoi(port) > 65535)
		return -EINVAL;
	return copy_text(row, text, field);
}

static int parse_file(const struct row *row, const char *text, void *field)
{
	return *text ? copy_text(row, text, field) : -EINVAL;
}

static int parse_name(const struct row *row, const char *text, void *field)
{
	return is_printable(text) && !strpbrk(text, ": ,") ? copy_text(row, text, field) : -EINVAL;
}

static int parse_patterns(const struct row *row, const char *text, void *field)
{
	return *text && is_printable(text) && text[strspn(text, ", ")] ? copy_text(row, text, field) : -EINVAL;
}

static int parse_log(const struct row *row, const char *text, void *field)
{
	bool named = !*text || !strcmp(text, "syslog") || !strcmp(text, "stderr");

	return named ? copy_text(row, text, field) : parse_path(row, text, field);
}

/* `len` bytes of "k=v" */
static int parse_label(const char *text, size_t len, struct label *ret)
{
	const char *eq = memchr(text, '=', len);
	size_t key = eq ? (size_t)(eq - text) : 0, value = len - key - 1;

	if (!key || key >= sizeof(ret->key) || value >= sizeof(ret->value) || strchr("0123456789.-", *text))
		return -EINVAL;
	for (size_t i = 0; i < key; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_.-", text[i]))
			return -EINVAL;
	memcpy(ret->key, text, key);
	ret->key[key] = 0;
	memcpy(ret->value, eq + 1, value);
	ret->value[value] = 0;
	return is_printable(ret->value) ? 0 : -EINVAL;
}

static int parse_labels(const struct row *row, const char *text, void *field)
{
	struct request *r = (struct request *)((char *)field - offsetof(struct request, n_labels));
	struct label labels[LABELS_MAX] = {0};
	uint32_t n = 0;

	while (*text) {
		size_t len = strcspn(text, ",");
		if (n == LABELS_MAX || parse_label(text, len, &labels[n]) < 0)
			return -EINVAL;
		for (uint32_t i = 0; i < n; i++)
			if (!strcmp(labels[i].key, labels[n].key))
				return -EINVAL;
		n++;
		text += len;
		if (*text && !*++text)
			return -EINVAL; /* a comma at the end */
		text += strspn(text, " ");
	}
	r->n_labels = n;
	memcpy(r->labels, labels, sizeof(labels));
	return 0;
}

/* --- rows --------------------------------------------------------------------------------------------------- */

/* File keys are written with '_', everything else with '-'; either finds the row. */
static bool same_name(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((a[i] == '_' ? '-' : a[i]) != b[i])
			return false;
	return !b[len];
}

static const char *annotation_name(const struct row *row)
{
	return strcmp(row->name, "events") ? row->name : "profile";
}

static const struct row *find_row(const char *name, size_t len, enum option_source source)
{
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const char *have = source == OPTION_ANNOTATION ? annotation_name(&rows[i]) : rows[i].name;
		if ((rows[i].from & source) && same_name(name, have, len))
			return &rows[i];
	}
	return NULL;
}

/* The option's name as this source writes it, for help and errors. */
static const char *format_option_name(const struct row *row, enum option_source source, char *buf, size_t size)
{
	if (source == OPTION_ANNOTATION)
		snprintf(buf, size, ANNOTATION_PREFIX "%s", annotation_name(row));
	else if (source == OPTION_FLAG)
		snprintf(buf, size, "--%s", row->name);
	else
		snprintf(buf, size, "%s%s", source == OPTION_ENV ? "PILLION_" : "", row->name);
	if (source == OPTION_ENV || source == OPTION_FILE || source == OPTION_POLICY)
		for (char *c = buf; *c; c++)
			*c = *c == '-' ? '_' : source == OPTION_ENV ? (char)toupper((unsigned char)*c) : *c;
	return buf;
}

static int set_row(struct options *o, const struct row *row, const char *where, const char *value, struct err *e)
{
	char text[ERR_SHOWN];

	if (row->parse(row, value, (char *)o + row->offset) == 0)
		return 0;
	return err_say(e, -EINVAL, "%s: \"%s\" is not %s", where, err_shown(value, strlen(value), text), row->allowed);
}

/* By a flag or a variable: an explicit output wins over a service, which writes to its own spool alone. */
static int set_explicit(struct options *o, const struct row *row, const char *where, const char *value, struct err *e)
{
	int r = set_row(o, row, where, value, e);
	if (r == 0 && row->offset == offsetof(struct options, settings.paths.output))
		o->settings.command.output_explicit = o->settings.paths.output[0] != 0;
	return r;
}

int options_off(const char *dir)
{
	char path[512];
	struct stat st;
	snprintf(path, sizeof(path), "%.500s/off", dir);
	if (fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
}

void options_default(struct options *o)
{
	memset(o, 0, sizeof(*o));
	snprintf(o->settings.paths.etc, sizeof(o->settings.paths.etc), "%s", OPTIONS_ETC);
	for (size_t i = 0; i < LENGTH(rows); i++)
		if (rows[i].fallback)
			rows[i].parse(&rows[i], rows[i].fallback, (char *)o + rows[i].offset);
}

void request_default(struct request *r)
{
	struct options o;

	options_default(&o);
	*r = o.request;
	memset(r->events, 0, sizeof(r->events));
}

int options_set_as(struct options *o, enum option_source source, const char *name, const char *where, const char *value,
	struct err *e)
{
	char text[ERR_SHOWN + 12];
	const struct row *row = find_row(name, strlen(name), source);

	if (!row)
		return err_say(e, -ENOENT, "no such option: %s", err_shown(name, strlen(name), text));
	return set_row(o, row, where ? where : format_option_name(row, source, text, sizeof(text)), value, e);
}

int options_set(struct options *o, enum option_source source, const char *name, const char *value, struct err *e)
{
	return options_set_as(o, source, name, NULL, value, e);
}

const char *options_name(enum option_source source, size_t i)
{
	for (size_t row = 0; row < LENGTH(rows); row++)
		if ((rows[row].from & source) && i-- == 0)
			return source == OPTION_ANNOTATION ? annotation_name(&rows[row]) : rows[row].name;
	return NULL;
}

/* --- sources ------------------------------------------------------------------------------------------------ */

static char *trim_spaces(char *s)
{
	s += strspn(s, " \t\r");
	for (size_t n = strlen(s); n && strchr(" \t\r", s[n - 1]);)
		s[--n] = 0;
	return s;
}

static int read_line(char *line, options_pair_fn *fn, void *arg, struct err *e)
{
	char *eq = strchr(line, '=');

	line = trim_spaces(line);
	if (!*line || *line == '#')
		return 0;
	if (!eq)
		return err_say(e, -EINVAL, "not of the form key = value");
	*eq = 0;
	return fn(arg, trim_spaces(line), trim_spaces(eq + 1), e);
}

static int read_lines(const char *path, char *text, options_pair_fn *fn, void *arg, struct err *e)
{
	for (int number = 1; text; number++) {
		char *line = strsep(&text, "\n");
		if (read_line(line, fn, arg, e) < 0)
			return err_wrap(e, -EINVAL, "%s, line %d", path, number);
	}
	return 0;
}

int options_read_pairs(int fd, const char *path, options_pair_fn *fn, void *arg, struct err *e)
{
	/* not on the heap: the policy decides about a container even if there is no memory */
	static char text[FILE_MAX + 2];
	ssize_t n = fd_read_all(fd, text, FILE_MAX + 1);
	if (n < 0 || n > FILE_MAX)
		return err_set(e, n < 0 ? (int)n : -EFBIG, "cannot read %s", path);
	text[n] = 0;
	return strlen(text) == (size_t)n ? read_lines(path, text, fn, arg, e)
					 : err_say(e, -EINVAL, "%s is not text", path);
}

int options_read_file(struct options *o, enum option_source source, const char *path, struct err *e)
{
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0); /* a FIFO must not hold us up */

	if (fd == -ENOENT)
		return 0;
	return fd < 0 ? err_set(e, fd, "cannot open %s", path) : options_read_fd(o, source, fd, path, e);
}

struct from_file {
	struct options *o;
	enum option_source source;
};

static int set_pair(void *arg, const char *key, const char *value, struct err *e)
{
	const struct from_file *f = arg;
	return options_set(f->o, f->source, key, value, e);
}

int options_read_fd(struct options *o, enum option_source source, int fd, const char *path, struct err *e)
{
	return options_read_pairs(fd, path, set_pair, &(struct from_file){o, source}, e);
}

int options_read_env(struct options *o, struct err *e)
{
	char name[64];
	struct err later;
	int first = 0;

	if (getauxval(AT_SECURE))
		return 0;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		if (!(rows[i].from & OPTION_ENV))
			continue;
		const char *value = getenv(format_option_name(&rows[i], OPTION_ENV, name, sizeof(name)));
		int r = value ? set_explicit(o, &rows[i], name, value, first < 0 ? &later : e) : 0;
		first = first < 0 ? first : r;
	}
	return first;
}

/* A flag's short name. */
static const struct {
	char letter;
	const char *name;
} letters[] = {{'o', "output"}};

/* `len`: up to a '='. */
static const struct row *find_flag(const char *flag, size_t len)
{
	if (!strncmp(flag, "--", 2))
		return find_row(flag + 2, len - 2, OPTION_FLAG);
	for (size_t i = 0; i < LENGTH(letters); i++)
		if (len == 2 && flag[1] == letters[i].letter)
			return find_row(letters[i].name, strlen(letters[i].name), OPTION_FLAG);
	return NULL;
}

/* Returns the row that was probably meant; NULL: none is near. */
static const struct row *nearest_row(const char *flag, size_t len)
{
	const struct row *best = NULL;
	if (strncmp(flag, "--", 2) != 0)
		return NULL;
	size_t near = nearest_limit(len - 2);
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const size_t d =
			rows[i].from & OPTION_FLAG ? nearest_distance(flag + 2, len - 2, rows[i].name) : NEAREST_MAX;
		if (d < near) {
			near = d;
			best = &rows[i];
		}
	}
	return best;
}

struct flag {
	const struct row *row;	 /* NULL: there is no such option */
	const struct row *meant; /* if `row` is NULL: probably meant, or NULL */
	const char *value;	 /* NULL: without one */
	int took;		 /* number of arguments */
};

static bool is_dashes(int argc, char **argv, int i)
{
	return i < argc && !strcmp(argv[i], "--");
}

/* Are there only options of ours, with their values, from argv[i] up to a "--"? */
static bool leads_to_dashes(int argc, char **argv, int i)
{
	for (; i < argc && !is_dashes(argc, argv, i); i++) {
		const size_t len = strcspn(argv[i], "=");
		if (argv[i][0] != '-' || (!find_flag(argv[i], len) && !nearest_row(argv[i], len)))
			return false;
		i += i + 1 < argc && argv[i + 1][0] != '-';
	}
	return i < argc;
}

/*
 * Is argv[i], after a flag, its value, or the program? A switch needs no value: 0 and 1 are no programs, and a word is
 * its value if a "--" follows. A flag that is not ours counts as the one that was probably meant; without one, argv[i]
 * is its value if there is a "--" further on, so that a typing error does not run a program of that name.
 */
static bool is_value(const struct flag *f, int argc, char **argv, int i)
{
	const struct row *row = f->row ? f->row : f->meant;
	bool unused;
	if (i >= argc || is_dashes(argc, argv, i))
		return false;
	if (!row)
		return argv[i][0] != '-' && leads_to_dashes(argc, argv, i + 1);
	if (row->parse != parse_switch)
		return f->row || argv[i][0] != '-';
	return !strcmp(argv[i], "0") || !strcmp(argv[i], "1") ||
	       (parse_switch(row, argv[i], &unused) == 0 && is_dashes(argc, argv, i + 1));
}

static struct flag look_at_flag(int argc, char **argv, int i)
{
	const size_t len = strcspn(argv[i], "=");
	struct flag f = {.row = find_flag(argv[i], len), .took = 1};
	f.meant = f.row ? NULL : nearest_row(argv[i], len);
	if (argv[i][len]) {
		f.value = argv[i] + len + 1;
	} else if (is_value(&f, argc, argv, i + 1)) {
		f.value = argv[i + 1];
		f.took = 2;
	}
	return f;
}

static int set_flag(struct options *o, const struct flag *f, const char *arg, struct err *e)
{
	char text[ERR_SHOWN + 12];
	if (!f->row && f->meant)
		return err_say(e, -EINVAL, "no such option: %s; is --%s meant?", err_shown(arg, strlen(arg), text),
			f->meant->name);
	if (!f->row)
		return err_say(e, -EINVAL, "no such option: %s", err_shown(arg, strlen(arg), text));
	format_option_name(f->row, OPTION_FLAG, text, sizeof(text));
	if (f->value)
		return set_explicit(o, f->row, text, f->value, e);
	return f->row->parse == parse_switch ? set_row(o, f->row, text, "1", e)
					     : err_say(e, -EINVAL, "%s needs a value: %s", text, f->row->allowed);
}

int options_read_flags(struct options *o, int argc, char **argv, int *ret_next, struct err *e)
{
	struct err later;
	int i = 1, first = 0;

	for (; i < argc && argv[i][0] == '-' && argv[i][1];) {
		if (is_dashes(argc, argv, i)) {
			i++;
			break;
		}
		const struct flag f = look_at_flag(argc, argv, i);
		int r = set_flag(o, &f, argv[i], first < 0 ? &later : e);
		first = first < 0 ? first : r;
		i += f.took;
	}
	*ret_next = i;
	return first;
}

/* --- help --------------------------------------------------------------------------------------------------- */

void options_help(FILE *out, enum option_source source)
{
	char name[64];

	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct row *r = &rows[i];
		if (!(r->from & source))
			continue;
		fprintf(out, "  %-22s %s: %s", format_option_name(r, source, name, sizeof(name)), r->about, r->allowed);
		const char *fallback = source == OPTION_ANNOTATION && i == 0 ? "off" : r->fallback;
		if (fallback)
			fprintf(out, " (default %s)", fallback);
		fputc('\n', out);
	}
}

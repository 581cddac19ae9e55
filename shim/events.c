#include "shim/events.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NSEC 1000000000ull
#define WAITS_MIN_MOST_US 60000000u
#define WAITS_MIN_US 1000 /* shorter waits are many, and seldom what somebody looks for */

#define SOFTWARE(what) PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##what
#define HARDWARE(what) PERF_TYPE_HARDWARE, PERF_COUNT_HW_##what
#define CACHE_MISS(cache)                                                                                              \
	PERF_TYPE_HW_CACHE,                                                                                            \
		PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16
#define COUNTS(name, what, period, help)                                                                               \
	{                                                                                                              \
		name, what, MEASURES_COUNT, period, name, "count", help, false, false                                  \
	}
#define KERNEL_COUNTS(name, what, period, help)                                                                        \
	{                                                                                                              \
		name, what, MEASURES_COUNT, period, name, "count", help, false, true                                   \
	}

/*
 * A row's number is part of the protocol: new ones come last. Names are perf's (tools/perf/util/evsel.c). Default
 * periods are meant to give some hundred samples a second of a program that has many of them; those of hardware events
 * are by what a CPU of 3 GHz can have at most, and were never tried on one.
 */
static const struct event_kind kinds[] = {
	{"cpu", SOFTWARE(CPU_CLOCK), MEASURES_CPU, 99, "cpu", "nanoseconds", "CPU time, by a timer on each CPU", false,
		false},
	COUNTS("page-faults", SOFTWARE(PAGE_FAULTS), 100, "page faults, minor and major"),
	{"tracepoint", PERF_TYPE_TRACEPOINT, 0, MEASURES_COUNT, 1, "tracepoint", "count",
		"a place in the kernel, as in tracepoint:sched:sched_switch", true, true},
	COUNTS("minor-faults", SOFTWARE(PAGE_FAULTS_MIN), 100, "page faults without a disk: memory used first"),
	COUNTS("major-faults", SOFTWARE(PAGE_FAULTS_MAJ), 1, "page faults that waited for a disk"),
	KERNEL_COUNTS("context-switches", SOFTWARE(CONTEXT_SWITCHES), 100, "threads that went off their CPU"),
	KERNEL_COUNTS("cpu-migrations", SOFTWARE(CPU_MIGRATIONS), 10, "threads that went to another CPU"),
	COUNTS("alignment-faults", SOFTWARE(ALIGNMENT_FAULTS), 100, "accesses that the kernel had to align"),
	COUNTS("emulation-faults", SOFTWARE(EMULATION_FAULTS), 100, "instructions that the kernel had to emulate"),
	COUNTS("cycles", HARDWARE(CPU_CYCLES), 10000000, "cycles of the CPU"),
	COUNTS("instructions", HARDWARE(INSTRUCTIONS), 10000000, "instructions that were finished"),
	COUNTS("branches", HARDWARE(BRANCH_INSTRUCTIONS), 2000000, "branches that were finished"),
	COUNTS("branch-misses", HARDWARE(BRANCH_MISSES), 50000, "branches that went another way than predicted"),
	COUNTS("cache-references", HARDWARE(CACHE_REFERENCES), 200000, "accesses to the last level of cache"),
	COUNTS("cache-misses", HARDWARE(CACHE_MISSES), 50000, "accesses that the last level of cache had not"),
	COUNTS("L1-dcache-load-misses", CACHE_MISS(L1D), 500000, "loads that the first level of cache had not"),
	COUNTS("LLC-load-misses", CACHE_MISS(LL), 50000, "loads that the last level of cache had not"),
	COUNTS("dTLB-load-misses", CACHE_MISS(DTLB), 50000, "loads whose address was in no TLB"),
	{"offcpu", SOFTWARE(CONTEXT_SWITCHES), MEASURES_WAITS, 99, "offcpu", "nanoseconds",
		"time on no CPU, by where threads wait", false, true},
	{"uprobe", EVENT_TYPE_UPROBE, 0, MEASURES_COUNT, 1, "uprobe", "count",
		"calls of a function, as in uprobe:/usr/bin/x:work", true, false},
};

static const struct event_preset presets[] = {
	{EVENT_WALL, "cpu,offcpu", "time of threads on a CPU and off it, in one profile", true},
	{"latency", "cpu,offcpu", "where time goes, on a CPU and off it", false},
	{"memory", "page-faults,major-faults", "where memory is used first, or comes from a disk", false},
	{"all", "cpu,offcpu,page-faults,major-faults,cpu-migrations", "what every machine has", false},
};

const struct event_preset *event_preset(size_t row)
{
	return row < sizeof(presets) / sizeof(presets[0]) ? &presets[row] : NULL;
}

size_t event_kinds(void)
{
	return sizeof(kinds) / sizeof(kinds[0]);
}

const struct event_kind *event_kind(uint32_t row)
{
	return row < event_kinds() ? &kinds[row] : NULL;
}

bool event_is_uprobe(const struct event_spec *s)
{
	return kinds[s->kind].type == EVENT_TYPE_UPROBE;
}

/* Of a uprobe without the directories. */
static const char *short_name(const struct event_spec *s)
{
	const char *at = s->name, *colon = strchr(s->name, ':');
	if (event_is_uprobe(s) && colon)
		for (const char *c = s->name; c < colon; c++)
			at = *c == '/' ? c + 1 : at;
	return at;
}

const char *event_name(const struct event_spec *s)
{
	return kinds[s->kind].named ? short_name(s) : kinds[s->kind].name;
}

const char *event_sample_type(const struct event_spec *s)
{
	return kinds[s->kind].named ? short_name(s) : kinds[s->kind].sample_type;
}

const char *event_text(const struct event_spec *s, char buf[EVENT_TEXT_MAX])
{
	const struct event_kind *k = &kinds[s->kind];
	bool timed = k->measure != MEASURES_COUNT;
	uint64_t value = timed ? (NSEC + s->period / 2) / s->period : s->period;
	char options[32] = "";
	if (k->measure == MEASURES_WAITS && s->min_us != WAITS_MIN_US)
		snprintf(options, sizeof(options), ":min=%uus", s->min_us);
	snprintf(buf, EVENT_TEXT_MAX, "%s%s%s%s%s%c%" PRIu64, k->name, k->named ? ":" : "", s->name, options,
		s->idle ? ":idle" : "", timed ? '@' : '/', value);
	return buf;
}

static int find_kind(const char *name, size_t len)
{
	for (size_t i = 0; i < event_kinds(); i++)
		if (strlen(kinds[i].name) == len && !strncmp(kinds[i].name, name, len))
			return (int)i;
	return -1;
}

static const struct event_preset *find_preset(const char *item, size_t len)
{
	const struct event_preset *p;
	for (size_t i = 0; (p = event_preset(i)); i++)
		if (strlen(p->name) == len && !strncmp(p->name, item, len))
			return p;
	return NULL;
}

/* ":system:name", each of what a directory of tracefs may be called. */
static int parse_which(const char *which, size_t len, int column, char ret[static EVENT_NAME_MAX], struct err *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"; /* no '.', no '/' */
	size_t system = len ? strspn(which + 1, letters) : 0, at = 1 + system;
	size_t name = system && at < len && which[at] == ':' ? strspn(which + at + 1, letters) : 0;
	if (!name || at + 1 + name != len || len > EVENT_NAME_MAX)
		return err_say(e, -EINVAL,
			"events, column %d: a tracepoint is written tracepoint:SYSTEM:NAME, as in "
			"tracepoint:sched:sched_switch",
			column);
	snprintf(ret, EVENT_NAME_MAX, "%.*s", (int)len - 1, which + 1);
	return 0;
}

/* ":/path/of/a/file:function", printable and without spaces; '@' and what follows is a version, which no table has. */
static int parse_probe(const char *which, size_t len, int column, char ret[static EVENT_NAME_MAX], struct err *e)
{
	const char *colon = len > 1 ? memchr(which + 1, ':', len - 1) : NULL;
	bool good = colon && which[1] == '/' && colon[-1] != '/' && colon + 1 < which + len && len <= EVENT_NAME_MAX;
	for (size_t i = 1; good && i < len; i++)
		good = which[i] > ' ' && which[i] < 0x7f && (which[i] != ':' || which + i == colon) &&
		       (which[i] != '@' || which + i < colon);
	if (!good)
		return err_say(e, -EINVAL,
			"events, column %d: a uprobe is written uprobe:FILE:FUNCTION, as in uprobe:/usr/bin/x:work/10",
			column);
	snprintf(ret, EVENT_NAME_MAX, "%.*s", (int)len - 1, which + 1);
	return 0;
}

/* Paths have slashes: of a uprobe, only one with digits behind it up to the end is that of a period. */
static size_t name_length(const char *item, size_t len, bool probe)
{
	size_t at = len;
	if (!probe)
		return strcspn(item, "@/,");
	while (at && item[at - 1] >= '0' && item[at - 1] <= '9')
		at--;
	return at && at < len && item[at - 1] == '/' ? at - 1 : len;
}

/* ":min=100us:idle", in any order. */
static int parse_waits(const char *options, size_t len, int column, struct event_spec *ret, struct err *e)
{
	static const struct {
		const char *text;
		uint32_t us;
	} units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"", 0}};
	const char *end = options + len;
	for (const char *at = options, *next; at < end; at = next) {
		char *rest = NULL;
		size_t unit = 0;
		next = at + 1 + strcspn(at + 1, ":@,");
		uint64_t n = strncmp(at, ":min=", 5) || at[5] < '0' || at[5] > '9' ? 0 : strtoull(at + 5, &rest, 10);
		size_t left = rest ? (size_t)(next - rest) : 0;
		while (rest && unit < sizeof(units) / sizeof(units[0]) &&
			(strlen(units[unit].text) != left || strncmp(units[unit].text, rest, left) != 0))
			unit++;
		if (next - at == 5 && !strncmp(at, ":idle", 5))
			ret->idle = 1;
		else if (rest && unit < sizeof(units) / sizeof(units[0]) && (n == 0 || units[unit].us) &&
			 n <= WAITS_MIN_MOST_US / (units[unit].us ? units[unit].us : 1))
			ret->min_us = (uint32_t)n * units[unit].us;
		else
			return err_say(e, -EINVAL,
				"events, column %d: offcpu takes min=TIME (0 to 60s) and idle, as in "
				"offcpu:min=100us:idle",
				column);
	}
	return 0;
}

static int parse_item(const char *text, const char *item, size_t len, uint32_t max_rate, struct event_spec *ret,
	bool *ret_clamped, struct err *e)
{
	size_t kind_len = strcspn(item, ":@/,");
	int column = (int)(item - text) + 1;
	int kind = find_kind(item, kind_len < len ? kind_len : len);
	const bool waits = kind >= 0 && kinds[kind].measure == MEASURES_WAITS;
	const bool probe = kind >= 0 && kinds[kind].type == EVENT_TYPE_UPROBE;
	size_t name_len = name_length(item, len, probe);
	if (name_len > len)
		name_len = len;
	*ret = (struct event_spec){.min_us = waits ? WAITS_MIN_US : 0};
	if (kind >= 0 && (kinds[kind].named || waits)) {
		int r = waits	? parse_waits(item + kind_len, name_len - kind_len, column, ret, e)
			: probe ? parse_probe(item + kind_len, name_len - kind_len, column, ret->name, e)
				: parse_which(item + kind_len, name_len - kind_len, column, ret->name, e);
		if (r < 0)
			return r;
	} else if (kind_len < name_len) {
		kind = -1;
	}
	const struct event_preset *preset = kind < 0 ? find_preset(item, kind_len) : NULL;
	if (preset)
		return err_say(e, -EINVAL,
			"events, column %d: %s has no rate of its own: list its events beside it, as in cpu@199,%s",
			column, preset->name, preset->name);
	if (kind < 0)
		return err_say(e, -EINVAL, "events, column %d: no event \"%.*s\"; 'pillion events' lists what there is",
			column, name_len > 40 ? 40 : (int)name_len, item);
	const struct event_kind *k = &kinds[kind];
	bool timed = k->measure != MEASURES_COUNT;
	char sign = name_len < len ? item[name_len] : 0;
	uint64_t value = k->period;
	if (sign) {
		char *end;
		const char *digits = item + name_len + 1;
		errno = 0;
		value = strtoull(digits, &end, 10);
		if (*digits < '0' || *digits > '9' || errno || end != item + len || value == 0 ||
			(!timed && value > INT64_MAX)) /* the kernel's own bound for a period */
			return err_say(e, -EINVAL,
				"events, column %d: \"%.*s\" needs a positive whole number behind '%c'", column,
				len > 40 ? 40 : (int)len, item, sign);
		if ((sign == '@') != timed)
			return err_say(e, -EINVAL, "events, column %d: %s takes %s, as in %s", column, k->name,
				timed ? "a rate" : "a period", timed ? "cpu@199" : "page-faults/50");
	}
	if (timed && max_rate && value > max_rate) {
		value = max_rate;
		*ret_clamped = true;
	}
	if (timed && value > 100000)
		return err_say(e, -EINVAL, "events, column %d: at most 100000 Hz", column);
	ret->kind = (uint32_t)kind;
	ret->period = timed ? NSEC / value : value;
	return 0;
}

/* Of one kind of the kernel's: two that record it garble each other's records (shim/perf.h). */
static bool excludes(const struct event_spec *a, const struct event_spec *b)
{
	const struct event_kind *x = &kinds[a->kind], *y = &kinds[b->kind];
	return x != y && !x->named && x->type == y->type && x->config == y->config;
}

const char *events_text(const struct event_spec *specs, size_t n, char buf[EVENTS_TEXT_MAX])
{
	char text[EVENT_TEXT_MAX];
	size_t at = 0;
	bool wall = false;
	buf[0] = 0;
	for (size_t i = 0; i < n; i++) {
		wall |= specs[i].profiles != PROFILES_OWN;
		if (specs[i].profiles != PROFILES_WALL)
			at += (size_t)snprintf(
				buf + at, EVENTS_TEXT_MAX - at, "%s%s", at ? "," : "", event_text(&specs[i], text));
	}
	if (wall)
		snprintf(buf + at, EVENTS_TEXT_MAX - at, "%s%s", at ? "," : "", EVENT_WALL);
	return buf;
}

struct list {
	const char *text;
	uint32_t max_rate;
	struct event_spec specs[EVENTS_MAX];
	bool soft[EVENTS_MAX]; /* of a preset: what is listed by itself counts */
	size_t n;
	bool clamped, taken[sizeof(presets) / sizeof(presets[0])];
};

static bool is_same(const struct event_spec *a, const struct event_spec *b)
{
	return a->kind == b->kind && !strcmp(a->name, b->name);
}

/* The place for it: that of the same one, or a new one. */
static int find_place(const struct list *l, const struct event_spec *s, int column, size_t *ret, struct err *e)
{
	for (size_t i = 0; i < l->n; i++)
		if (excludes(&l->specs[i], s))
			return err_say(e, -EINVAL,
				"events, column %d: %s and %s cannot be sampled together: the kernel garbles records "
				"of two such events",
				column, event_name(s), event_name(&l->specs[i]));
	*ret = 0;
	while (*ret < l->n && !is_same(&l->specs[*ret], s))
		++*ret;
	return *ret < EVENTS_MAX ? 0 : err_say(e, -EINVAL, "events: more than %d of them", EVENTS_MAX);
}

static int add_item(struct list *l, const char *item, size_t len, struct err *e)
{
	struct event_spec s;
	size_t at;
	int column = (int)(item - l->text) + 1;
	int r = parse_item(l->text, item, len, l->max_rate, &s, &l->clamped, e);
	if (r == 0)
		r = find_place(l, &s, column, &at, e);
	if (r < 0)
		return r;
	if (at < l->n && !l->soft[at])
		return err_say(e, -EINVAL, "events, column %d: %s is there twice", column, event_name(&s));
	if (at < l->n && l->specs[at].profiles == PROFILES_WALL)
		s.profiles = PROFILES_OWN_AND_WALL;
	l->n += at == l->n;
	l->specs[at] = s;
	l->soft[at] = false;
	return 0;
}

/* What is there already keeps its rate. */
static int add_preset(struct list *l, const char *item, const struct event_preset *preset, struct err *e)
{
	int column = (int)(item - l->text) + 1;
	bool *taken = &l->taken[preset - presets];
	if (*taken)
		return err_say(e, -EINVAL, "events, column %d: %s is there twice", column, preset->name);
	*taken = true;
	for (const char *at = preset->list;; at++) {
		size_t len = strcspn(at, ","), place;
		struct event_spec s;
		int r = parse_item(preset->list, at, len, l->max_rate, &s, &l->clamped, e);
		if (r == 0)
			r = find_place(l, &s, column, &place, e);
		if (r < 0)
			return r;
		s.profiles = preset->wall ? PROFILES_WALL : PROFILES_OWN;
		if (place == l->n) {
			l->soft[l->n] = true;
			l->specs[l->n++] = s;
		} else if (l->specs[place].profiles != s.profiles) {
			l->specs[place].profiles = PROFILES_OWN_AND_WALL;
		}
		at += len;
		if (!*at)
			return 0;
	}
}

int events_parse(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, struct err *e)
{
	struct list l = {.text = text, .max_rate = max_rate};
	for (const char *item = text;; item++) {
		size_t len = strcspn(item, ",");
		const struct event_preset *preset = find_preset(item, len);
		int r = preset ? add_preset(&l, item, preset, e) : add_item(&l, item, len, e);
		if (r < 0)
			return r;
		item += len;
		if (!*item)
			break;
	}
	memcpy(ret, l.specs, l.n * sizeof(l.specs[0]));
	*ret_n = l.n;
	*ret_clamped = l.clamped;
	return 0;
}

/* --- tracepoints --------------------------------------------------------------------------------------- */

static int read_id(const char *name, uint64_t *ret)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	char path[160], text[32];
	int colon = (int)strcspn(name, ":"), r = -ENOENT;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/events/%.*s/%s/id", places[i], colon, name, name + colon + 1);
		r = fd_read_text(AT_FDCWD, path, text, sizeof(text));
		if (r == 0 || r != -ENOENT)
			break;
	}
	if (r == 0)
		*ret = strtoull(text, NULL, 10);
	return r;
}

int events_resolve(struct event_spec *specs, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		if (kinds[specs[i].kind].type != PERF_TYPE_TRACEPOINT)
			continue;
		int r = read_id(specs[i].name, &specs[i].config);
		if (r == -EACCES)
			return err_say(e, r, "tracepoint %s: tracefs is for root only on this host", specs[i].name);
		if (r == -ENOENT && access("/sys/kernel/tracing/events", F_OK) < 0 &&
			access("/sys/kernel/debug/tracing/events", F_OK) < 0)
			return err_say(e, r,
				"tracepoint %s: tracefs is not mounted: mount -t tracefs none /sys/kernel/tracing",
				specs[i].name);
		if (r == -ENOENT)
			return err_say(e, r, "there is no tracepoint %s in this kernel", specs[i].name);
		if (r < 0)
			return err_set(e, r, "tracepoint %s", specs[i].name);
	}
	return 0;
}

int events_ask(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n, bool *ret_clamped,
	struct err *e)
{
	int r = events_parse(text, max_rate, ret, ret_n, ret_clamped, e);
	return r < 0 ? r : events_resolve(ret, *ret_n, e);
}

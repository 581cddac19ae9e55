/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/event_spec.h"

#include "oci/config/options.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#define NSEC 1000000000ull
#define WAITS_MIN_MOST_US 60000000u
#define WAITS_MIN_US 1000 /* shorter waits are many, and seldom of interest */

#define SOFTWARE(what) PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##what
#define HARDWARE(what) PERF_TYPE_HARDWARE, PERF_COUNT_HW_##what
#define CACHE_MISS(cache)                                                                                              \
	PERF_TYPE_HW_CACHE,                                                                                            \
		PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16
#define COUNTS(name, what, period, help)                                                                               \
	{                                                                                                              \
		name, what, MEASURES_COUNT, period, name, "count", help, NAMED_NOT, false                              \
	}
#define KERNEL_COUNTS(name, what, period, help)                                                                        \
	{                                                                                                              \
		name, what, MEASURES_COUNT, period, name, "count", help, NAMED_NOT, true                               \
	}

/*
 * A row's number is part of the protocol: new ones come last. Names are perf's (tools/perf/util/evsel.c). Default
 * periods are meant to give some hundred samples a second of a program that has many such events. Those of hardware
 * events are computed from the most that a CPU of 3 GHz can have, and were never tried on one.
 */
static const struct event_kind kinds[] = {
	{"cpu", SOFTWARE(CPU_CLOCK), MEASURES_CPU, 99, "cpu", "nanoseconds", "CPU time, by a timer on each CPU",
		NAMED_NOT, false},
	COUNTS("page-faults", SOFTWARE(PAGE_FAULTS), 100, "page faults, minor and major"),
	{"tracepoint", PERF_TYPE_TRACEPOINT, 0, MEASURES_COUNT, 1, "tracepoint", "count",
		"a place in the kernel, as in tracepoint:sched:sched_switch", NAMED_TRACEPOINT, true},
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
	{"offcpu", SOFTWARE(CONTEXT_SWITCHES), MEASURES_OFFCPU, 99, "offcpu", "nanoseconds",
		"time on no CPU, by where threads wait", NAMED_NOT, true},
	{"uprobe", EVENT_TYPE_UPROBE, 0, MEASURES_COUNT, 1, "uprobe", "count",
		"calls of a function, as in uprobe:/usr/bin/x:work", NAMED_UPROBE, false},
	{"kprobe", EVENT_TYPE_KPROBE, 0, MEASURES_COUNT, 1, "kprobe", "count",
		"calls of a function of the kernel, as in kprobe:vfs_read", NAMED_KPROBE, true},
	{"raw", PERF_TYPE_RAW, 0, MEASURES_COUNT, 1000000, "raw", "count",
		"a counter by the number that the CPU's manual gives, as in raw:r1c2", NAMED_RAW, false},
	{"alloc", EVENT_TYPE_APP, 0, MEASURES_ALLOC, 512 << 10, "alloc_space", "bytes",
		"memory that is allocated, and what of it is in use", NAMED_NOT, false},
	{"heap", EVENT_TYPE_APP, 1, MEASURES_LIVE_HEAP, 1, "inuse_space", "bytes", "what of alloc is in use", NAMED_NOT,
		false},
	{"calls", EVENT_TYPE_APP, 2, MEASURES_CALLS, 1, "calls", "count",
		"calls, each of them, in programs built with -finstrument-functions", NAMED_NOT, false},
	{"crash", EVENT_TYPE_APP, 3, MEASURES_CRASH, 1, "crashes", "count",
		"signals that end a program: a report of each (pillion crashes)", NAMED_NOT, false},
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

bool event_is(const struct event_spec *s, enum event_naming naming)
{
	return kinds[s->kind].naming == naming;
}

bool event_is_of_app(const struct event_spec *s)
{
	return kinds[s->kind].type == EVENT_TYPE_APP;
}

bool event_is_timed(const struct event_kind *k)
{
	return k->measure == MEASURES_CPU || k->measure == MEASURES_OFFCPU;
}

int event_heap(void)
{
	int row = 0;
	while (kinds[row].measure != MEASURES_LIVE_HEAP)
		row++;
	return row;
}

bool event_shares_counters(const struct event_kind *k)
{
	return k->type == PERF_TYPE_HARDWARE || k->type == PERF_TYPE_HW_CACHE || k->type == PERF_TYPE_RAW;
}

/* The name; that of a uprobe without the directories. */
static const char *short_name(const struct event_spec *s)
{
	const char *at = s->name, *colon = strchr(s->name, ':');
	if (event_is(s, NAMED_UPROBE) && colon)
		for (const char *c = s->name; c < colon; c++)
			at = *c == '/' ? c + 1 : at;
	return at;
}

const char *event_name(const struct event_spec *s)
{
	return kinds[s->kind].naming ? short_name(s) : kinds[s->kind].name;
}

const char *event_sample_type(const struct event_spec *s)
{
	return kinds[s->kind].naming ? short_name(s) : kinds[s->kind].sample_type;
}

static const char *const stacks_words[] = {
	[STACKS_AUTO] = "auto", [STACKS_FP] = "fp", [STACKS_DWARF] = "dwarf", [STACKS_NONE] = "none"};
#define N_STACKS (sizeof(stacks_words) / sizeof(stacks_words[0]))
static const char *const only_words[] = {[EVENT_ONLY_USER] = "user", [EVENT_ONLY_KERNEL] = "kernel"};
#define N_ONLY (sizeof(only_words) / sizeof(only_words[0]))

static void add_text(char buf[EVENT_TEXT_MAX], const char *before, const char *text)
{
	size_t at = strlen(buf);
	snprintf(buf + at, EVENT_TEXT_MAX - at, "%s%s", before, text);
}

const char *event_text(const struct event_spec *s, char buf[EVENT_TEXT_MAX])
{
	const struct event_kind *k = &kinds[s->kind];
	bool timed = event_is_timed(k);
	uint64_t value = timed ? (NSEC + s->period / 2) / s->period : s->period;
	char number[32];
	snprintf(buf, EVENT_TEXT_MAX, "%s%s%s", k->name, k->naming ? ":" : "", s->name);
	snprintf(number, sizeof(number), "%uus", s->min_us);
	if (k->measure == MEASURES_OFFCPU && s->min_us != WAITS_MIN_US)
		add_text(buf, ":min=", number);
	if (s->idle)
		add_text(buf, ":", "idle");
	if (s->with_time)
		add_text(buf, ":", "time");
	if (s->stacks && s->stacks <= N_STACKS)
		add_text(buf, ":stacks=", stacks_words[s->stacks - 1]);
	if (s->only && s->only < N_ONLY)
		add_text(buf, ":", only_words[s->only]);
	snprintf(number, sizeof(number), "%" PRIu64, value);
	if (k->measure != MEASURES_CALLS)
		add_text(buf, timed ? "@" : "/", number);
	return buf;
}

static int find_kind(const char *name, size_t len)
{
	for (size_t i = 0; i < event_kinds(); i++)
		if (kinds[i].measure != MEASURES_LIVE_HEAP && strlen(kinds[i].name) == len &&
			!strncmp(kinds[i].name, name, len))
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

/* --- names: the text between the kind and its options --------------------------------------------------- */

/* Finds the first of `stops` from `from` on, or the end. */
static size_t find_delimiter(const char *item, size_t from, size_t len, const char *stops)
{
	size_t at = from < len ? from + strcspn(item + from, stops) : len;
	return at < len ? at : len;
}

/*
 * Finds the end of a uprobe's name. Paths and names of Go's functions have slashes: without an option behind the name,
 * a slash begins a period only if nothing but digits follows it.
 */
static size_t probe_end(const char *item, size_t kind, size_t len)
{
	size_t function = find_delimiter(item, kind + 1, len, ":"), end = find_delimiter(item, function + 1, len, ":");
	size_t at = len;
	if (end < len)
		return end;
	while (at && item[at - 1] >= '0' && item[at - 1] <= '9')
		at--;
	return at && at < len && item[at - 1] == '/' ? at - 1 : len;
}

static size_t name_end(enum event_naming naming, const char *item, size_t kind, size_t len)
{
	size_t at = naming == NAMED_NOT ? kind : find_delimiter(item, kind + 1, len, ":@/");
	if (naming == NAMED_UPROBE)
		return probe_end(item, kind, len);
	return naming == NAMED_TRACEPOINT && at < len && item[at] == ':' ? find_delimiter(item, at + 1, len, ":@/")
									 : at;
}

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* Counts these letters from `at` on. */
static size_t run_of(const char *text, size_t at, size_t len, const char *letters)
{
	size_t n = at < len ? strspn(text + at, letters) : 0;
	return at + n < len ? n : len > at ? len - at : 0;
}

/* "system:name" or "system:name.field"; the first two have the letters that tracefs allows for a directory. */
static bool is_tracepoint(const char *name, size_t len)
{
	size_t system = run_of(name, 0, len, LETTERS "-"), at = system + 1;
	size_t point = system && system < len && name[system] == ':' ? run_of(name, at, len, LETTERS "-") : 0;
	at += point;
	if (!point || at == len)
		return point;
	return name[at] == '.' && at + 1 < len && run_of(name, at + 1, len, LETTERS) == len - at - 1;
}

/* "/path/of/a/file:function", printable and without spaces; '@' begins a version, which no symbol table has. */
static bool is_probe(const char *name, size_t len)
{
	const char *colon = memchr(name, ':', len);
	bool good = colon && name[0] == '/' && colon[-1] != '/' && colon + 1 < name + len;
	for (size_t i = 0; good && i < len; i++)
		good = name[i] > ' ' && name[i] < 0x7f && (name[i] != ':' || name + i == colon) &&
		       (name[i] != '@' || name + i < colon);
	return good;
}

/* "function" or "function+offset", decimal or 0x... */
static bool is_kprobe(const char *name, size_t len, uint64_t *ret_offset)
{
	size_t function = run_of(name, 0, len, LETTERS ".");
	char *end;
	if (!function || function == len)
		return function;
	*ret_offset = strtoull(name + function + 1, &end, strncmp(name + function + 1, "0x", 2) ? 10 : 16);
	return name[function] == '+' && name[function + 1] >= '0' && name[function + 1] <= '9' && end == name + len &&
	       *ret_offset <= UINT32_MAX;
}

/* "r1c2", as perf writes it */
static bool is_raw(const char *name, size_t len, uint64_t *ret)
{
	size_t digits = name[0] == 'r' ? run_of(name, 1, len, "0123456789abcdefABCDEF") : 0;
	*ret = digits ? strtoull(name + 1, NULL, 16) : 0;
	return digits && digits == len - 1 && digits <= 16;
}

/* The syntax of each, and an example. */
static const char *const written[] = {
	[NAMED_TRACEPOINT] = "a tracepoint is written tracepoint:SYSTEM:NAME, or with .FIELD behind it, as in "
			     "tracepoint:sched:sched_switch",
	[NAMED_KPROBE] = "a kprobe is written kprobe:FUNCTION, or with +OFFSET behind it, as in kprobe:vfs_read/10",
	[NAMED_UPROBE] = "a uprobe is written uprobe:FILE:FUNCTION, as in uprobe:/usr/bin/x:work/10",
	[NAMED_RAW] = "a raw event is written raw:rHEX, as in raw:r1c2/100000",
};

static int parse_name(
	enum event_naming naming, const char *name, size_t len, int column, struct event_spec *ret, struct err *e)
{
	bool good = len > 1 && len <= EVENT_NAME_MAX && name[0] == ':';
	name++, len--;
	switch (naming) {
	case NAMED_NOT:
		return 0;
	case NAMED_TRACEPOINT:
		good = good && is_tracepoint(name, len);
		break;
	case NAMED_KPROBE:
		good = good && is_kprobe(name, len, &ret->config);
		break;
	case NAMED_UPROBE:
		good = good && is_probe(name, len);
		break;
	case NAMED_RAW:
		good = good && is_raw(name, len, &ret->config);
		break;
	}
	if (!good)
		return err_say(e, -EINVAL, "events, column %d: %s", column, written[naming]);
	snprintf(ret->name, sizeof(ret->name), "%.*s", (int)len, name);
	return 0;
}

/* --- options -------------------------------------------------------------------------------------------- */

static bool is_word(const char *at, size_t len, const char *word)
{
	return strlen(word) == len && !strncmp(at, word, len);
}

/* "100us" */
static bool parse_time(const char *at, size_t len, uint32_t *ret_us)
{
	static const struct {
		const char *text;
		uint32_t us;
	} units[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"", 0}};
	char *rest;
	if (!len || at[0] < '0' || at[0] > '9')
		return false;
	uint64_t n = strtoull(at, &rest, 10);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		uint32_t us = units[i].us;
		if (!is_word(rest, (size_t)(at + len - rest), units[i].text))
			continue;
		*ret_us = (uint32_t)n * us;
		return (n == 0 || us) && n <= WAITS_MIN_MOST_US / (us ? us : 1);
	}
	return false;
}

static bool parse_word(const char *at, size_t len, const char *const *words, size_t n, uint8_t *ret)
{
	for (size_t i = 0; i < n; i++)
		if (words[i] && is_word(at, len, words[i])) {
			*ret = (uint8_t)i;
			return true;
		}
	return false;
}

/* May it happen both in user code and in kernel code? */
static bool has_modes(const struct event_kind *k)
{
	return k->measure == MEASURES_COUNT && !k->in_kernel && k->naming != NAMED_UPROBE;
}

static bool parse_option(const struct event_kind *k, const char *at, size_t len, struct event_spec *ret)
{
	static const char min[] = "min=", stacks[] = "stacks=";
	const size_t n_min = sizeof(min) - 1, n_stacks = sizeof(stacks) - 1;
	const bool waits = k->measure == MEASURES_OFFCPU;
	if (k->measure == MEASURES_CALLS) {
		ret->with_time = is_word(at, len, "time");
		return ret->with_time;
	}
	if (waits && len > n_min && !strncmp(at, min, n_min))
		return parse_time(at + n_min, len - n_min, &ret->min_us);
	if (len > n_stacks && !strncmp(at, stacks, n_stacks)) {
		bool good = parse_word(at + n_stacks, len - n_stacks, stacks_words, N_STACKS, &ret->stacks);
		ret->stacks++;
		return good;
	}
	if (waits && is_word(at, len, "idle")) {
		ret->idle = 1;
		return true;
	}
	return has_modes(k) && !ret->only && parse_word(at, len, only_words, N_ONLY, &ret->only);
}

/* ":min=100us:idle", in any order. */
static int parse_options(
	const struct event_kind *k, const char *options, size_t len, int column, struct event_spec *ret, struct err *e)
{
	const bool waits = k->measure == MEASURES_OFFCPU;
	for (size_t at = 0, next; at < len; at = next) {
		next = find_delimiter(options, at + 1, len, ":");
		const bool good = parse_option(k, options + at + 1, next - at - 1, ret);
		if (!good && k->measure == MEASURES_CALLS)
			return err_say(e, -EINVAL, "events, column %d: calls takes time, as in calls:time", column);
		if (!good)
			return err_say(e, -EINVAL,
				"events, column %d: %s takes %sstacks=STACKS (auto, fp, dwarf, none), as in %s", column,
				k->name,
				waits	       ? "min=TIME (0 to 60s), idle and "
				: has_modes(k) ? "user or kernel, and "
					       : "",
				waits	       ? "offcpu:min=100us:idle"
				: has_modes(k) ? "page-faults:user:stacks=fp"
					       : "cpu:stacks=fp");
	}
	return 0;
}

static int parse_item(const char *text, const char *item, size_t len, uint32_t max_rate, struct event_spec *ret,
	bool *ret_clamped, struct err *e)
{
	size_t kind_len = find_delimiter(item, 0, len, ":@/,");
	int column = (int)(item - text) + 1;
	int kind = find_kind(item, kind_len);
	const struct event_preset *preset = kind < 0 ? find_preset(item, kind_len) : NULL;
	if (preset)
		return err_say(e, -EINVAL,
			"events, column %d: %s has no rate of its own: list its events beside it, as in cpu@199,%s",
			column, preset->name, preset->name);
	if (kind < 0)
		return err_say(e, -EINVAL, "events, column %d: no event \"%.*s\"; 'pillion events' lists what there is",
			column, kind_len > 40 ? 40 : (int)kind_len, item);
	const struct event_kind *k = &kinds[kind];
	bool timed = event_is_timed(k);
	*ret = (struct event_spec){.kind = (uint32_t)kind, .min_us = k->measure == MEASURES_OFFCPU ? WAITS_MIN_US : 0};
	size_t name = name_end(k->naming, item, kind_len, len);
	size_t options = name < len && item[name] == ':' ? find_delimiter(item, name, len, "@/") : name;
	int r = parse_name(k->naming, item + kind_len, name - kind_len, column, ret, e);
	if (r == 0)
		r = parse_options(k, item + name, options - name, column, ret, e);
	if (r < 0)
		return r;
	char sign = options < len ? item[options] : 0;
	uint64_t value = k->period;
	if (sign && k->measure == MEASURES_CALLS)
		return err_say(e, -EINVAL, "events, column %d: calls are counted all: there is no period", column);
	if (sign) {
		char *end;
		const char *digits = item + options + 1;
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
	if (k->measure == MEASURES_CRASH && value != 1)
		return err_say(e, -EINVAL, "events, column %d: %s takes no period: each is reported", column, k->name);
	if (timed && max_rate && value > max_rate) {
		value = max_rate;
		*ret_clamped = true;
	}
	if (timed && value > 100000)
		return err_say(e, -EINVAL, "events, column %d: at most 100000 Hz", column);
	ret->period = timed ? NSEC / value : value;
	return 0;
}

/* Do both record the same kernel event? Two such events garble each other's records (shim/event/perf_event.h). */
static bool has_conflict(const struct event_spec *a, const struct event_spec *b)
{
	const struct event_kind *x = &kinds[a->kind], *y = &kinds[b->kind];
	size_t point = strcspn(a->name, ".");
	if (x->naming == NAMED_TRACEPOINT && x == y)
		return strcmp(a->name, b->name) && point == strcspn(b->name, ".") && !strncmp(a->name, b->name, point);
	return x != y && !x->naming && x->type == y->type && x->config == y->config;
}

const char *event_spec_text(const struct event_spec *specs, size_t n, char buf[EVENTS_TEXT_MAX])
{
	char text[EVENT_TEXT_MAX];
	size_t at = 0;
	bool wall = false;
	buf[0] = 0;
	for (size_t i = 0; i < n; i++) {
		const uint16_t in = specs[i].profiles;
		wall |= in == PROFILES_WALL || in == PROFILES_OWN_AND_WALL;
		if (in == PROFILES_OWN || in == PROFILES_OWN_AND_WALL)
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
	bool soft[EVENTS_MAX]; /* of a preset: an event listed by itself takes its place */
	size_t n;
	bool clamped, taken[sizeof(presets) / sizeof(presets[0])];
	event_spec_left_fn *left;
	void *arg;
};

/* 0: the others of the list are taken without it. */
static int leave_out(const struct list *l, int error, const struct err *why, struct err *e)
{
	if (l->left)
		l->left(l->arg, why->text);
	err_say(e, why->code, "%s", why->text);
	return l->left ? 0 : error;
}

static bool is_same(const struct event_spec *a, const struct event_spec *b)
{
	return a->kind == b->kind && !strcmp(a->name, b->name);
}

/* Finds the place of the same event, or a new one. */
static int find_place(const struct list *l, const struct event_spec *s, int column, size_t *ret, struct err *e)
{
	for (size_t i = 0; i < l->n; i++)
		if (has_conflict(&l->specs[i], s))
			return err_say(e, -EINVAL,
				"events, column %d: %s and %s cannot be sampled together: the kernel garbles records "
				"of two such events",
				column, event_name(s), event_name(&l->specs[i]));
	*ret = 0;
	while (*ret < l->n && !is_same(&l->specs[*ret], s))
		++*ret;
	return *ret < EVENTS_MAX ? 0
				 : err_say(e, -EINVAL, "events, column %d: %s is one more than %d, which is the most",
					   column, event_name(s), EVENTS_MAX);
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

/* Adds a preset's events. One that is there already keeps its rate. */
static int add_preset(struct list *l, const char *item, const struct event_preset *preset, struct err *e)
{
	int column = (int)(item - l->text) + 1;
	bool *taken = &l->taken[preset - presets];
	struct err why = {0};
	if (*taken)
		return err_say(e, -EINVAL, "events, column %d: %s is there twice", column, preset->name);
	*taken = true;
	for (const char *at = preset->list;; at++) {
		size_t len = strcspn(at, ","), place;
		struct event_spec s;
		int r = parse_item(preset->list, at, len, l->max_rate, &s, &l->clamped, &why);
		if (r == 0)
			r = find_place(l, &s, column, &place, &why);
		if (r < 0 && leave_out(l, r, &why, e) < 0)
			return r;
		s.profiles = preset->wall ? PROFILES_WALL : PROFILES_OWN;
		if (r < 0) {
			/* without it */
		} else if (place == l->n) {
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

int event_spec_parse_some(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, event_spec_left_fn *left, void *arg, struct err *e)
{
	struct list l = {.text = text, .max_rate = max_rate, .left = left, .arg = arg};
	struct err why = {0};
	int last = 0;
	for (const char *item = text;; item++) {
		size_t len = strcspn(item, ",");
		const struct event_preset *preset = find_preset(item, len);
		int r = preset ? add_preset(&l, item, preset, &why) : add_item(&l, item, len, &why);
		last = r < 0 ? r : last;
		if (r < 0 && leave_out(&l, r, &why, e) < 0)
			return r;
		item += len;
		if (!*item)
			break;
	}
	memcpy(ret, l.specs, l.n * sizeof(l.specs[0]));
	*ret_n = l.n;
	*ret_clamped = l.clamped;
	return l.n ? 0 : last;
}

int event_spec_parse(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, struct err *e)
{
	return event_spec_parse_some(text, max_rate, ret, ret_n, ret_clamped, NULL, NULL, e);
}

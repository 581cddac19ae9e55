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

#define SOFTWARE(what) PERF_TYPE_SOFTWARE, PERF_COUNT_SW_##what
#define HARDWARE(what) PERF_TYPE_HARDWARE, PERF_COUNT_HW_##what
#define CACHE_MISS(cache)                                                                                              \
	PERF_TYPE_HW_CACHE,                                                                                            \
		PERF_COUNT_HW_CACHE_##cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16
#define COUNTS(name, what, period, help)                                                                               \
	{                                                                                                              \
		name, what, false, period, name, "count", help, false, false                                           \
	}
#define KERNEL_COUNTS(name, what, period, help)                                                                        \
	{                                                                                                              \
		name, what, false, period, name, "count", help, false, true                                            \
	}

/*
 * A row's number is part of the protocol: new ones come last. Names are perf's (tools/perf/util/evsel.c). Default
 * periods are meant to give some hundred samples a second of a program that has many of them; those of hardware events
 * are by what a CPU of 3 GHz can have at most, and were never tried on one.
 */
static const struct event_kind kinds[] = {
	{"cpu", SOFTWARE(CPU_CLOCK), true, 99, "cpu", "nanoseconds", "CPU time, by a timer on each CPU", false, false},
	COUNTS("page-faults", SOFTWARE(PAGE_FAULTS), 100, "page faults, minor and major"),
	{"tracepoint", PERF_TYPE_TRACEPOINT, 0, false, 1, "tracepoint", "count",
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
};

size_t event_kinds(void)
{
	return sizeof(kinds) / sizeof(kinds[0]);
}

const struct event_kind *event_kind(uint32_t row)
{
	return row < event_kinds() ? &kinds[row] : NULL;
}

const char *event_name(const struct event_spec *s)
{
	return kinds[s->kind].named ? s->name : kinds[s->kind].name;
}

const char *event_sample_type(const struct event_spec *s)
{
	return kinds[s->kind].named ? s->name : kinds[s->kind].sample_type;
}

const char *event_text(const struct event_spec *s, char buf[EVENT_TEXT_MAX])
{
	const struct event_kind *k = &kinds[s->kind];
	uint64_t value = k->clock ? (NSEC + s->period / 2) / s->period : s->period;
	snprintf(buf, EVENT_TEXT_MAX, "%s%s%.63s%c%" PRIu64, k->name, k->named ? ":" : "", s->name,
		k->clock ? '@' : '/', value);
	return buf;
}

static int find_kind(const char *name, size_t len)
{
	for (size_t i = 0; i < event_kinds(); i++)
		if (strlen(kinds[i].name) == len && !strncmp(kinds[i].name, name, len))
			return (int)i;
	return -1;
}

/* ":system:name", each of what a directory of tracefs may be called. */
static int parse_which(const char *which, size_t len, int column, char ret[static 64], struct err *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"; /* no '.', no '/' */
	size_t system = len ? strspn(which + 1, letters) : 0, at = 1 + system;
	size_t name = system && at < len && which[at] == ':' ? strspn(which + at + 1, letters) : 0;
	if (!name || at + 1 + name != len || len > 63)
		return err_say(e, -EINVAL,
			"events, column %d: a tracepoint is written tracepoint:SYSTEM:NAME, as in "
			"tracepoint:sched:sched_switch",
			column);
	snprintf(ret, 64, "%.*s", (int)len - 1, which + 1);
	return 0;
}

static int parse_item(const char *text, const char *item, size_t len, uint32_t max_rate, struct event_spec *ret,
	bool *ret_clamped, struct err *e)
{
	size_t name_len = strcspn(item, "@/,"), kind_len = strcspn(item, ":@/,");
	int column = (int)(item - text) + 1;
	if (name_len > len)
		name_len = len;
	int kind = find_kind(item, kind_len < len ? kind_len : len);
	*ret = (struct event_spec){0};
	if (kind >= 0 && kinds[kind].named) {
		int r = parse_which(item + kind_len, name_len - kind_len, column, ret->name, e);
		if (r < 0)
			return r;
	} else if (kind_len < name_len) {
		kind = -1;
	}
	if (kind < 0)
		return err_say(e, -EINVAL, "events, column %d: no event \"%.*s\"; 'pillion events' lists what there is",
			column, name_len > 40 ? 40 : (int)name_len, item);
	const struct event_kind *k = &kinds[kind];
	char sign = name_len < len ? item[name_len] : 0;
	uint64_t value = k->period;
	if (sign) {
		char *end;
		const char *digits = item + name_len + 1;
		errno = 0;
		value = strtoull(digits, &end, 10);
		if (*digits < '0' || *digits > '9' || errno || end != item + len || value == 0 ||
			(!k->clock && value > INT64_MAX)) /* the kernel's own bound for a period */
			return err_say(e, -EINVAL,
				"events, column %d: \"%.*s\" needs a positive whole number behind '%c'", column,
				len > 40 ? 40 : (int)len, item, sign);
		if ((sign == '@') != k->clock)
			return err_say(e, -EINVAL, "events, column %d: %s takes %s, as in %s", column, k->name,
				k->clock ? "a rate" : "a period", k->clock ? "cpu@199" : "page-faults/50");
	}
	if (k->clock && max_rate && value > max_rate) {
		value = max_rate;
		*ret_clamped = true;
	}
	if (k->clock && value > 100000)
		return err_say(e, -EINVAL, "events, column %d: at most 100000 Hz", column);
	ret->kind = (uint32_t)kind;
	ret->period = k->clock ? NSEC / value : value;
	return 0;
}

int events_parse(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, struct err *e)
{
	struct event_spec specs[EVENTS_MAX];
	bool clamped = false;
	size_t n = 0;
	for (const char *item = text;; item++) {
		size_t len = strcspn(item, ",");
		if (n == EVENTS_MAX)
			return err_say(e, -EINVAL, "events: more than %d of them", EVENTS_MAX);
		int r = parse_item(text, item, len, max_rate, &specs[n], &clamped, e);
		if (r < 0)
			return r;
		for (size_t i = 0; i < n; i++)
			if (specs[i].kind == specs[n].kind && !strcmp(specs[i].name, specs[n].name))
				return err_say(e, -EINVAL, "events, column %d: %s is there twice",
					(int)(item - text) + 1, event_name(&specs[n]));
		n++;
		item += len;
		if (!*item)
			break;
	}
	memcpy(ret, specs, n * sizeof(specs[0]));
	*ret_n = n;
	*ret_clamped = clamped;
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
		if (!kinds[specs[i].kind].named)
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

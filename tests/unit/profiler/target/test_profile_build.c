/* SPDX-License-Identifier: Apache-2.0 */
/* profile_build: labels of samples, and what stands for events that have no sample. */
#include "profiler/target/profile/profile_build.h"

#include "profiler/inproc/live_heap.h"
#include "profiler/sample/aggregate.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define REAL 1700000000123456789

enum { CPU, FAULTS }; /* the events of fed_target() */

static struct engine engine;
static struct target *target;
static struct window window;

static void begin(void)
{
	fed_engine(&engine);
	target = fed_target(&engine, 1);
	window = (struct window){.t = target, .real = REAL, .duration = NSEC_PER_SEC};
	for (unsigned i = 0; i < 2; i++) {
		window.counts[i] = target->sampling.counts[i];
		window.kernel[i] = (struct event_totals){.correct = 1, .had_counter = 1};
	}
}

static void end(void)
{
	fed_engine_done(&engine);
}

static struct profile *build(uint32_t event)
{
	struct profile *p;
	uint64_t n;
	ck_assert_int_eq(profile_build(&window, event, &p, &n), 0);
	return p;
}

static const char *name_of_leaf(const struct profile *p, const struct profile_sample *s)
{
	struct profile_location l;
	profile_location_get(p, s->locations[0], &l);
	return profile_function_name(p, l.lines[0].function);
}

/* --- labels */

static void add(const struct sample_origin *who, const struct sample_detail *when)
{
	aggregate_add_at(window.counts[CPU], &(struct stack_frame){.kind = FRAME_SPECIAL, .name = frame_nowhere}, 1,
		who, when, 1, target->desc.events[CPU].period);
}

/* The labels of a profile's only sample, which are in the order of their keys: "key=text key=number[unit] ". */
static const char *only_labels(struct profile *p)
{
	static char text[4096];
	struct profile_sample s;
	ck_assert_uint_eq(profile_samples(p), 1);
	profile_sample_get(p, 0, &s);
	text[0] = 0;
	for (size_t i = 0; i < s.n_labels; i++) {
		const struct profile_label *l = &s.labels[i];
		size_t at = strlen(text);
		if (l->str)
			snprintf(text + at, sizeof(text) - at, "%s=%s ", l->key, l->str);
		else
			snprintf(text + at, sizeof(text) - at, "%s=%" PRId64 "[%s] ", l->key, l->num,
				l->unit ? l->unit : "");
	}
	profile_free(p);
	return text;
}

#define CONTAINER "container=c1 container_id=c1 "
#define SERVICE "service_name=c1 "

static const struct {
	const char *scenario;
	struct sample_origin who;
	struct sample_detail when;
	const char *expect;
} details[] = {
	{"neither thread nor time", {0, 0, "", "", "", NULL}, {0, 0}, CONTAINER SERVICE},
	{"a thread", {7, 8, "web", "worker", "webd", NULL}, {0, 0},
		CONTAINER "exe=webd pid=7[] process=web " SERVICE "thread=worker tid=8[] "},
	{"a CPU", {0, 0, "", "", "", NULL}, {4, 0}, CONTAINER "cpu=3[] " SERVICE},
	{"a decoder may not drop CPU 0", {0, 0, "", "", "", NULL}, {1, 0}, CONTAINER "cpu=0[number] " SERVICE},
	{"as the window began", {0, 0, "", "", "", NULL}, {0, 1},
		CONTAINER SERVICE "timestamp=1700000000123456789[nanoseconds] "},
	{"2.5 s behind that", {0, 0, "", "", "", NULL}, {0, 2500001},
		CONTAINER SERVICE "timestamp=1700000002623456789[nanoseconds] "},
	{"the last that there can be", {0, 0, "", "", "", NULL}, {0, UINT32_MAX},
		CONTAINER SERVICE "timestamp=1700004295090750789[nanoseconds] "},
	{"a CPU and a time", {0, 0, "", "", "", NULL}, {2, 1001},
		CONTAINER "cpu=1[] " SERVICE "timestamp=1700000000124456789[nanoseconds] "},
	{"labels of its thread's own", {0, 0, "", "", "", "a=1\nservice_name=x\n"}, {0, 0},
		CONTAINER SERVICE "user.a=1 user.service_name=x "},
};

START_TEST(a_sample_has_its_details)
{
	add(&details[_i].who, &details[_i].when);
	const char *is = only_labels(build(CPU));
	ck_assert_msg(!strcmp(is, details[_i].expect), "%s: %s", details[_i].scenario, is);
}
END_TEST

START_TEST(samples_are_as_far_apart_as_they_were)
{
	const struct sample_origin who = {.process = "web", .thread = "", .exe = ""};
	int64_t at[3], sum = 0;
	for (uint32_t i = 0; i < 3; i++)
		add(&who, &(struct sample_detail){.us = 1 + i * i * 1000});
	struct profile *p = build(CPU);
	ck_assert_uint_eq(profile_samples(p), 3);
	for (size_t i = 0; i < 3; i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		ck_assert_str_eq(s.labels[s.n_labels - 1].key, "timestamp");
		at[i] = s.labels[s.n_labels - 1].num - REAL;
		sum += at[i];
	}
	ck_assert_int_eq(sum, 5 * NSEC_PER_MSEC); /* 0, 1 and 4 */
	for (size_t i = 0; i < 3; i++)
		ck_assert(at[i] == 0 || at[i] == NSEC_PER_MSEC || at[i] == 4 * NSEC_PER_MSEC);
	profile_free(p);
}
END_TEST

START_TEST(a_sample_says_whose_it_is)
{
	struct target_desc *d = &target->desc;
	const struct sample_origin who = {.process = "", .thread = "", .exe = "", .labels = "team=b\ntier=2\n"};
	add(&who, &(struct sample_detail){0});
	strcpy(d->pod, "shop-1");
	strcpy(d->pod_namespace, "prod");
	strcpy(d->service, "shop");
	strcpy(d->cgroup, "/kubepods/x");
	strcpy(engine.role.node, "node-1");
	strcpy(d->labels[0].key, "team");
	strcpy(d->labels[0].value, "a");
	d->n_labels = 1;
	/* the label cgroup is there on request; where both have a label of one key, the target's stays */
	ck_assert_str_eq(only_labels(build(CPU)),
		CONTAINER "namespace=prod node=node-1 pod=shop-1 service_name=shop user.team=a user.tier=2 ");
	d->detail = DETAIL_CGROUP;
	strcpy(d->labels[1].key, "service_name");
	strcpy(d->labels[1].value, "asked");
	d->n_labels = 2;
	ck_assert_str_eq(only_labels(build(CPU)),
		"cgroup=/kubepods/x " CONTAINER "namespace=prod node=node-1 pod=shop-1 service_name=asked "
		"user.service_name=asked user.team=a user.tier=2 ");
	/* without a service the container's name is one, and without a name its id */
	d->n_labels = 0;
	d->service[0] = d->cgroup[0] = 0;
	strcpy(d->name, "web");
	ck_assert_str_eq(only_labels(build(CPU)),
		"container=web container_id=c1 namespace=prod node=node-1 pod=shop-1 service_name=web user.team=b "
		"user.tier=2 ");
	d->name[0] = 0;
	ck_assert_str_eq(only_labels(build(CPU)),
		"container_id=c1 namespace=prod node=node-1 pod=shop-1 service_name=c1 user.team=b user.tier=2 ");
}
END_TEST

/* --- what has no sample */

#define HIDDEN "[kernel, not permitted]"

static const struct {
	const char *scenario;
	uint32_t event;
	enum strategy strategy;
	bool kernel;
	uint64_t periods;
	const char *frame, *comment; /* how it begins; NULL: there is none */
} unsampled[] = {
	{"all has a sample", CPU, STRATEGY_PROCESS, true, 0, NULL, NULL},
	{"CPU time", CPU, STRATEGY_PROCESS, true, 5, "[unsampled]",
		"[unsampled] is CPU time of threads that ended between two samples: a higher rate shows more of it"},
	{"CPU time of a cgroup", CPU, STRATEGY_CGROUP, true, 2, "[unsampled]",
		"[unsampled] is CPU time of threads that ended between two samples: a higher rate shows more of it"},
	{"CPU time, also the kernel's", CPU, STRATEGY_PROCESS, false, 5, HIDDEN,
		HIDDEN " is CPU time by the kernel's count without a sample: code that "
		       "kernel.perf_event_paranoid hides"},
	{"CPU time by timers, which hide nothing", CPU, STRATEGY_TIMERS, false, 5, "[unsampled]",
		"[unsampled] is CPU time by the processes' own account"},
	{"faults", FAULTS, STRATEGY_PROCESS, true, 5, "[unsampled]",
		"[unsampled] is what threads did behind their last samples: a shorter period shows more of it"},
	{"faults are no CPU time, whatever is hidden", FAULTS, STRATEGY_PROCESS, false, 5, "[unsampled]",
		"[unsampled] is what threads did behind their last samples: a shorter period shows more of it"},
};

START_TEST(events_without_a_sample_are_in_the_profile_and_told)
{
	const uint32_t event = unsampled[_i].event;
	const uint64_t period = target->desc.events[event].period;
	unsigned told = 0;
	target->desc.strategy = unsampled[_i].strategy;
	target->desc.kernel = unsampled[_i].kernel;
	window.kernel[event].unsampled = unsampled[_i].periods * period;
	struct profile *p = build(event);
	ck_assert_uint_eq(profile_samples(p), unsampled[_i].frame ? 1 : 0);
	if (unsampled[_i].frame) {
		struct profile_sample s;
		profile_sample_get(p, 0, &s);
		ck_assert_msg(!strcmp(name_of_leaf(p, &s), unsampled[_i].frame), "%s: %s", unsampled[_i].scenario,
			name_of_leaf(p, &s));
		ck_assert_int_eq(s.values[0], (int64_t)unsampled[_i].periods);
		ck_assert_int_eq(s.values[1], (int64_t)(unsampled[_i].periods * period));
	}
	for (size_t i = 0; i < profile_comments(p); i++) {
		const char *is = profile_comment_get(p, i), *expect = unsampled[_i].comment;
		if (strncmp(is, "[unsampled]", strlen("[unsampled]")) && strncmp(is, HIDDEN, strlen(HIDDEN)))
			continue;
		told++;
		ck_assert_msg(expect && !strncmp(is, expect, strlen(expect)), "%s: %s", unsampled[_i].scenario, is);
	}
	ck_assert_uint_eq(told, unsampled[_i].comment ? 1 : 0);
	profile_free(p);
}
END_TEST

/* --- code made at run time */

static int open_map(void *arg, const char *path, struct file *ret)
{
	return strstr(path, arg) ? -EACCES : -ENOENT;
}

#define NO_NAMES                                                                                                       \
	"[anon] code made at run time has no names, as the profiler may not read them (Permission denied); it may if " \
	"others may, as with umask 022: "
static const struct {
	const char *denied;
	uint32_t pid, pid_too; /* of frames; 0: none */
	const char *comment;   /* NULL: none */
} unread[] = {
	{"/perf-7.map", 7, 7, NO_NAMES "/tmp/perf-7.map"},
	{"/perf-", 7, 8, NO_NAMES "/tmp/perf-7.map"}, /* one note for all */
	{"/perf-8.map", 7, 8, NO_NAMES "/tmp/perf-8.map"},
	{"/perf-9.map", 7, 8, NULL},
	{"/perf-7.map", 0, 0, NULL},
};

START_TEST(a_map_that_may_not_be_read_is_told_once)
{
	const uint32_t pids[] = {unread[_i].pid, unread[_i].pid_too};
	unsigned told = 0;
	for (size_t i = 0; i < LENGTH(pids) && pids[i]; i++) {
		struct jit *j;
		ck_assert_int_eq(jit_new(pids[i], "", NULL, &engine.symbols.jit_room, &j), 0);
		jit_refresh(j, 1, open_map, (void *)unread[_i].denied);
		const struct stack_frame f = {.kind = FRAME_JIT, .jit = j, .vaddr = 0x1000};
		aggregate_add_at(window.counts[CPU], &f, 1, &(struct sample_origin){0, 0, "", "", "", NULL},
			&(struct sample_detail){0, 0}, 1, 1);
		jit_unref(j);
	}
	struct profile *p = build(CPU);
	for (size_t i = 0; i < profile_comments(p); i++)
		if (!strncmp(profile_comment_get(p, i), "[anon]", strlen("[anon]"))) {
			told++;
			ck_assert_ptr_nonnull(unread[_i].comment);
			ck_assert_str_eq(profile_comment_get(p, i), unread[_i].comment);
		}
	ck_assert_uint_eq(told, unread[_i].comment ? 1 : 0);
	profile_free(p);
}
END_TEST

/* --- types and values */

static const struct {
	const char *event;
	uint32_t profile;
	struct profile_type types[4];
	unsigned n_types;
	struct profile_type period_type;
	int64_t period;
} types[] = {
	{"cpu@1000", CPU, {{"samples", "count"}, {"cpu", "nanoseconds"}}, 2, {"cpu", "nanoseconds"}, 1000000},
	{"page-faults/50", CPU, {{"samples", "count"}, {"page-faults", "count"}}, 2, {"page-faults", "count"}, 50},
	{"offcpu", CPU, {{"samples", "count"}, {"offcpu", "nanoseconds"}}, 2, {"offcpu", "nanoseconds"}, 1},
	{"calls", CPU, {{"calls", "count"}}, 1, {"calls", "count"}, 1},
	{"calls:time", CPU, {{"calls", "count"}, {"time", "nanoseconds"}}, 2, {"calls", "count"}, 1},
	{"alloc/4096", CPU,
		{{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"},
			{"inuse_space", "bytes"}},
		4, {"space", "bytes"}, 4096},
	{"cpu@1000", PROFILE_BUILD_WALL, {{"samples", "count"}, {"wall", "nanoseconds"}}, 2, {"wall", "nanoseconds"},
		1},
};

/* `text`: one event. It takes the place of the first one. */
static void ask_for(const char *text)
{
	struct event_spec specs[EVENTS_MAX];
	struct err e = {0};
	size_t n;
	bool clamped;
	ck_assert_msg(event_spec_parse(text, 10000, specs, &n, &clamped, &e) == 0 && n == 1, "%s: %s", text, e.text);
	target->desc.events[CPU] = specs[0];
	target->desc.n_events = 1;
}

START_TEST(each_event_has_its_types)
{
	ask_for(types[_i].event);
	target->desc.events[CPU].profiles = types[_i].profile == PROFILE_BUILD_WALL ? PROFILES_WALL : PROFILES_OWN;
	struct profile *p = build(types[_i].profile);
	const struct profile_info *is = profile_info(p);
	ck_assert_uint_eq(is->n_types, types[_i].n_types);
	for (unsigned i = 0; i < is->n_types; i++) {
		ck_assert_str_eq(is->types[i].type, types[_i].types[i].type);
		ck_assert_str_eq(is->types[i].unit, types[_i].types[i].unit);
	}
	ck_assert_str_eq(is->period_type.type, types[_i].period_type.type);
	ck_assert_str_eq(is->period_type.unit, types[_i].period_type.unit);
	ck_assert_int_eq(is->period, types[_i].period);
	ck_assert_int_eq(is->time_ns, REAL);
	ck_assert_int_eq(is->duration_ns, NSEC_PER_SEC);
	profile_free(p);
}
END_TEST

/* A sample of memory stands for a number of objects that is not whole: the nearest one is in the profile. */
START_TEST(objects_are_rounded)
{
	static const struct {
		uint64_t parts;
		int64_t objects;
	} rounded[] = {{LIVE_HEAP_PART, 1}, {5 * LIVE_HEAP_PART / 2, 3}, {5 * LIVE_HEAP_PART / 2 - 1, 2}, {10, 0}};
	const struct sample_origin who = {.process = "web", .thread = "", .exe = ""};
	ask_for("alloc/4096");
	aggregate_add_at(window.counts[CPU], &(struct stack_frame){.kind = FRAME_SPECIAL, .name = frame_nowhere}, 1,
		&who, &(struct sample_detail){0}, rounded[_i].parts, 4096);
	struct profile *p = build(CPU);
	struct profile_sample sample;
	ck_assert_uint_eq(profile_samples(p), 1);
	profile_sample_get(p, 0, &sample);
	ck_assert_int_eq(sample.values[0], rounded[_i].objects);
	ck_assert_int_eq(sample.values[1], 4096);
	profile_free(p);
}
END_TEST

UNIT_SUITE(profile_build)
{
	Suite *s = suite_create("profile_build");
	TCase *t = tcase_create("profile_build");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, a_sample_has_its_details, 0, LENGTH(details));
	tcase_add_test(t, samples_are_as_far_apart_as_they_were);
	tcase_add_test(t, a_sample_says_whose_it_is);
	tcase_add_loop_test(t, events_without_a_sample_are_in_the_profile_and_told, 0, LENGTH(unsampled));
	tcase_add_loop_test(t, a_map_that_may_not_be_read_is_told_once, 0, LENGTH(unread));
	tcase_add_loop_test(t, each_event_has_its_types, 0, LENGTH(types));
	tcase_add_loop_test(t, objects_are_rounded, 0, 4);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* coverage: CPUs on which a target has no event, and what it ran there by its account. The list of CPUs is a file. */
#include "profiler/sample/cpu_coverage.h"

#include "oci/base/clock.h"
#include "profiler/target/profile/profile_build.h"
#include "profiler/target/target_coverage.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>

#define MS NSEC_PER_MSEC
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct engine engine;
static struct target *target;
static int online, fds;

static void begin(void)
{
	fed_engine(&engine); /* libunwind keeps two descriptors for good */
	fed_engine_done(&engine);
	fds = fd_count();
	fed_engine(&engine);
	online = memfd_create("online", MFD_CLOEXEC);
	ck_assert_int_eq(cpu_coverage_new(dup(online), &engine.perf.coverage), 0);
	target = fed_target(&engine, 1);
	target->usage.cpu_stat = memfd_create("cpu.stat", MFD_CLOEXEC);
}

static void end(void)
{
	engine.perf.coverage = cpu_coverage_free(engine.perf.coverage);
	fed_engine_done(&engine);
	fd_close(online);
	ck_assert_int_eq(fd_count(), fds);
}

static void says(int fd, const char *text)
{
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
}

static void look(const char *cpus, int64_t now)
{
	char text[4096];
	snprintf(text, sizeof(text), "%s\n", cpus);
	says(online, text);
	target_coverage_look(&engine, now);
}

/* That of the fixture has events on CPU 0; more of them here. */
static void add_events(const int *cpus, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fed_stream(target, PERF_SAMPLES, 0, 100 + i)->cpu = cpus[i];
}

/* Looks at 10, 20, ...: which CPUs are up. The window began at `since`. */
static const struct {
	const char *what;
	enum strategy strategy;
	int cpus[4]; /* with events, beside 0 */
	size_t n_cpus;
	const char *looks[6];
	int64_t since;
	const char *list;
} lists[] = {
	{"all have events", STRATEGY_CGROUP, {1, 2, 3}, 3, {"0-3"}, 10, ""},
	{"one came up", STRATEGY_CGROUP, {1, 2}, 2, {"0-2", "0-3"}, 10, "3"},
	{"it was up before its events were opened", STRATEGY_CGROUP, {1, 2}, 2, {"0-3"}, 10, "3"},
	{"it was gone before the window began", STRATEGY_CGROUP, {1}, 1, {"0-2", "0-1"}, 21, ""},
	{"it has gone in this window", STRATEGY_CGROUP, {1}, 1, {"0-2", "0-1"}, 20, "2"},
	{"one has gone: until then it was covered", STRATEGY_CGROUP, {1}, 1, {"0-1", "0"}, 10, ""},
	{"one went and came back", STRATEGY_CGROUP, {1}, 1, {"0-1", "0", "0-1"}, 10, "1"},
	{"the first one, too", STRATEGY_CGROUP, {1}, 1, {"0-1", "1", "0-1"}, 10, "0"},
	{"and went again", STRATEGY_CGROUP, {1}, 1, {"0-1", "0", "0-1", "0"}, 40, "1"},
	{"and stays away", STRATEGY_CGROUP, {1}, 1, {"0-1", "0", "0-1", "0"}, 41, ""},
	{"threads' events count again", STRATEGY_PROCESS, {1}, 1, {"0-1", "0", "0-1"}, 10, ""},
	{"threads have none on a new one", STRATEGY_THREADS, {0}, 0, {"0", "0-1"}, 10, "1"},
	{"some of many", STRATEGY_CGROUP, {3, 4}, 2, {"0-7,9,11"}, 10, "1-2,5-7,9,11"},
	{"more than fit", STRATEGY_CGROUP, {1}, 1,
		{"0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,44,46,48,50"}, 10,
		"2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,32,34,36,38,40,42,..."},
	{"nobody says", STRATEGY_CGROUP, {1}, 1, {""}, 10, ""},
	{"no list of CPUs", STRATEGY_CGROUP, {1}, 1, {"none"}, 10, ""},
	{"no CPU that there can be", STRATEGY_CGROUP, {1}, 1, {"0-1,99999"}, 10, ""},
};

START_TEST(which_are_bare)
{
	char list[CPU_COVERAGE_LIST_MAX];
	target->desc.strategy = lists[_i].strategy;
	add_events(lists[_i].cpus, lists[_i].n_cpus);
	for (size_t i = 0; i < LENGTH(lists[_i].looks) && lists[_i].looks[i]; i++)
		look(lists[_i].looks[i], 10 * (int64_t)(i + 1));
	target_coverage_list(target, lists[_i].since, list);
	ck_assert_msg(!strcmp(list, lists[_i].list), "%s: %s", lists[_i].what, list);
}
END_TEST

#define READ_MAX 4095 /* bytes of the list of CPUs: all but the last of a page of sysfs */

/* "0,0,...,0,1", so long that CPU 1 is the last byte that is read, and what comes behind it. */
static const struct {
	const char *what, *behind;
} long_lists[] = {
	{"the list is as long as what is read", ""},
	{"its line ends there", "\n"},
	{"more CPUs follow", ",0,0"},
	{"more CPUs of its span follow", "-1,0"},
};

START_TEST(the_last_cpu_of_what_is_read_counts)
{
	char text[READ_MAX + 8], list[CPU_COVERAGE_LIST_MAX];
	for (size_t i = 0; i < READ_MAX; i++)
		text[i] = i % 2 ? ',' : '0';
	text[READ_MAX - 1] = '1';
	snprintf(text + READ_MAX, sizeof(text) - READ_MAX, "%s", long_lists[_i].behind);
	says(online, text);
	for (int64_t now = 10; now <= 20; now += 10) {
		target_coverage_look(&engine, now);
		target_coverage_list(target, now, list);
		ck_assert_msg(!strcmp(list, "1"), "%s: %s", long_lists[_i].what, list);
	}
	look("0", 30);
	target_coverage_list(target, 31, list);
	ck_assert_msg(!strcmp(list, ""), "%s: %s", long_lists[_i].what, list);
}
END_TEST

START_TEST(a_list_that_cannot_be_read_changes_nothing)
{
	static const char *const unreadable[] = {"", "none"};
	char list[CPU_COVERAGE_LIST_MAX];
	look("0-1", 10);
	for (size_t i = 0; i < LENGTH(unreadable); i++) {
		says(online, unreadable[i]);
		target_coverage_look(&engine, 20 + (int64_t)i);
		target_coverage_list(target, 30, list);
		ck_assert_str_eq(list, "1");
	}
	look("0", 40);
	target_coverage_list(target, 40, list);
	ck_assert_str_eq(list, "1");
	target_coverage_list(target, 41, list);
	ck_assert_str_eq(list, "");
}
END_TEST

/* A target of which a CPU came back, and one that was opened behind that. */
START_TEST(events_that_are_opened_anew_count)
{
	char list[CPU_COVERAGE_LIST_MAX];
	add_events((int[]){1}, 1);
	look("0-1", 10);
	look("0", 20);
	look("0-1", 30);
	ck_assert(target->events.bare);
	target = fed_target(&engine, 2);
	fed_stream(target, PERF_SAMPLES, 0, 200)->cpu = 1;
	target_coverage_list(target, 30, list);
	ck_assert_str_eq(list, "");
	ck_assert(!target->events.bare);
}
END_TEST

START_TEST(who_does_not_look_knows_of_none)
{
	char list[CPU_COVERAGE_LIST_MAX] = "?";
	engine.perf.coverage = cpu_coverage_free(engine.perf.coverage);
	target_coverage_look(&engine, 10);
	target_coverage_list(target, 0, list);
	ck_assert_str_eq(list, "");
	ck_assert_int_eq(cpu_coverage_new(-ENOENT, &engine.perf.coverage), -ENOENT);
}
END_TEST

/* --- in a profile ---------------------------------------------------------------------------------------- */

#define PERIOD (10 * MS)

static const char *frame_of(const struct profile *p, const struct profile_sample *s)
{
	struct profile_location l;
	profile_location_get(p, s->locations[0], &l);
	return profile_function_name(p, l.lines[0].function);
}

/* The time below a bracketed frame, and how many there are of "[lost", "[unsampled" and "[throttled". */
static int64_t time_of(const struct profile *p, const char *frame, unsigned *ret_n)
{
	int64_t sum = 0;
	*ret_n = 0;
	for (size_t i = 0; i < profile_samples(p); i++) {
		struct profile_sample s;
		profile_sample_get(p, i, &s);
		const char *is = frame_of(p, &s);
		*ret_n += is[0] == '[' && (strstr(is, "lost") || strstr(is, "unsampled") || strstr(is, "throttled"));
		sum += strcmp(is, frame) ? 0 : s.values[1];
	}
	return sum;
}

static bool has_comment(const struct profile *p, const char *text)
{
	for (size_t i = 0; i < profile_comments(p); i++)
		if (strstr(profile_comment_get(p, i), text))
			return true;
	return false;
}

static const struct {
	const char *what, *uncovered;
	uint64_t lost, throttled;
	uint64_t used;	   /* ms, by the account */
	const char *frame; /* that has what the events have not counted */
	uint64_t missing;  /* ms */
	unsigned n;	   /* of such frames in all */
} profiles[] = {
	{"all was counted", "", 0, 0, 1000, "[unsampled]", 0, 0},
	{"going on a CPU", "", 0, 0, 1600, "[unsampled]", 600, 1},
	{"a CPU came back", "1", 0, 0, 1600, "[lost: cpu 1 not covered]", 600, 1},
	{"several did", "1,3-5", 0, 0, 1600, "[lost: cpu 1,3-5 not covered]", 600, 1},
	{"what was lost is not missing twice", "1", 7, 0, 1600, "[lost: cpu 1 not covered]", 530, 2},
	{"what was throttled is not told apart", "1", 0, 3, 1600, "[lost: cpu 1 not covered]", 600, 1},
	{"throttled alone", "", 0, 3, 1600, "[throttled]", 600, 1},
	{"nothing ran there", "1", 0, 0, 1000, "[lost: cpu 1 not covered]", 0, 0},
	{"next to nothing did", "1", 0, 0, 1010, "[lost: cpu 1 not covered]", 0, 0},
};

START_TEST(what_ran_there_is_in_the_profile)
{
	struct window w = {.t = target, .duration = 1000 * MS};
	struct profile *p;
	uint64_t n_samples;
	unsigned n;
	target->desc.events[0].period = PERIOD;
	fed_comm(target, (uint64_t)(clock_now() - MS), FED_INIT, FED_INIT, "web", true);
	for (unsigned i = 0; i < 100; i++)
		fed_sample(target, fed_events(target, 0), (uint64_t)clock_now(), FED_INIT, FED_INIT,
			&(uint64_t){0x1000}, 1);
	w.tally = target->sampling.tally;
	w.tally.throttled = profiles[_i].throttled;
	w.cpu_used = profiles[_i].used * 1000;
	w.kernel[0] = (struct event_totals){
		.lost = profiles[_i].lost, .lost_weight = profiles[_i].lost * PERIOD, .correct = 1, .had_counter = 1};
	w.counts[0] = target->sampling.counts[0];
	snprintf(w.uncovered, sizeof(w.uncovered), "%s", profiles[_i].uncovered);
	ck_assert_int_eq(profile_build(&w, 0, &p, &n_samples), 0);
	ck_assert_msg(
		time_of(p, profiles[_i].frame, &n) == (int64_t)profiles[_i].missing * MS, "%s", profiles[_i].what);
	ck_assert_msg(n == profiles[_i].n, "%s: %u frames", profiles[_i].what, n);
	int64_t all = profile_total(p, 1), used = (int64_t)profiles[_i].used * MS;
	ck_assert_msg(all > used / 100 * 98 && all < used / 100 * 102, "%s: %" PRId64 " of %" PRId64, profiles[_i].what,
		all, used);
	ck_assert(has_comment(p, "not covered: CPU ") == !!profiles[_i].uncovered[0]);
	ck_assert(has_comment(p, "no clock saw") == (profiles[_i].missing > 0));
	profile_free(p);
}
END_TEST

UNIT_SUITE(cpu_coverage)
{
	Suite *s = suite_create("cpu_coverage");
	TCase *t = tcase_create("cpu_coverage");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, which_are_bare, 0, LENGTH(lists));
	tcase_add_loop_test(t, the_last_cpu_of_what_is_read_counts, 0, LENGTH(long_lists));
	tcase_add_test(t, a_list_that_cannot_be_read_changes_nothing);
	tcase_add_test(t, events_that_are_opened_anew_count);
	tcase_add_test(t, who_does_not_look_knows_of_none);
	tcase_add_loop_test(t, what_ran_there_is_in_the_profile, 0, LENGTH(profiles));
	suite_add_tcase(s, t);
	return s;
}

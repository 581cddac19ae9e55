/* SPDX-License-Identifier: Apache-2.0 */
/* metrics: a strict reading of the exposition format, whatever the names of targets are. */
#include "profiler/web/metrics.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define SERIES_MAX 8192

/* --- the format, as prometheus.io has it: docs/instrumenting/exposition_formats, text-based 0.0.4 */

static struct {
	char *series[SERIES_MAX]; /* with labels */
	size_t n;
	char family[128], type[16];
	char *families[256];
	size_t n_families;
	double last_bucket;
} seen;

static bool is_name(const char *at, size_t len, bool colons)
{
	for (size_t i = 0; i < len; i++)
		if (!(isalpha((unsigned char)at[i]) || at[i] == '_' || (colons && at[i] == ':') ||
			    (i && isdigit((unsigned char)at[i]))))
			return false;
	return len > 0;
}

/* Behind '{': to behind '}', NULL where it is wrong. */
static const char *labels(const char *at, char *le, size_t size)
{
	for (;;) {
		const char *eq = strchr(at, '=');
		if (!eq || !is_name(at, (size_t)(eq - at), false) || eq[1] != '"')
			return NULL;
		const char *end = eq + 2;
		for (; *end && *end != '"'; end++) {
			if (*end == '\\' && !strchr("\\\"n", *++end))
				return NULL;
			if (*end == '\n' || !*end)
				return NULL;
		}
		if (*end != '"')
			return NULL;
		if (!strncmp(at, "le=", 3))
			snprintf(le, size, "%.*s", (int)(end - eq - 2), eq + 2);
		at = end + 1;
		if (*at == '}')
			return at + 1;
		if (*at++ != ',')
			return NULL;
	}
}

static void comment(const char *line)
{
	char name[128], rest[256];
	if (sscanf(line, "# HELP %127s %255[^\n]", name, rest) == 2) {
		ck_assert_msg(is_name(name, strlen(name), true), "%s", line);
		for (size_t i = 0; i < seen.n_families; i++)
			ck_assert_msg(strcmp(seen.families[i], name) != 0, "%s is there twice", name);
		seen.families[seen.n_families++] = strdup(name);
		snprintf(seen.family, sizeof(seen.family), "%s", name);
		seen.type[0] = 0;
		seen.last_bucket = -1;
		return;
	}
	ck_assert_msg(sscanf(line, "# TYPE %127s %15s", name, seen.type) == 2, "%s", line);
	ck_assert_msg(!strcmp(name, seen.family), "TYPE of %s behind HELP of %s", name, seen.family);
	bool counter = !strcmp(seen.type, "counter");
	ck_assert_msg(counter || !strcmp(seen.type, "gauge") || !strcmp(seen.type, "histogram"), "%s", line);
	size_t len = strlen(name);
	ck_assert_msg(counter == (len > 6 && !strcmp(name + len - 6, "_total")), "%s", name);
	ck_assert_msg(!strncmp(name, "pillion_", 8), "%s", name);
}

static void sample(const char *line)
{
	char name[128], le[32] = "", *end;
	size_t len = strcspn(line, "{ "), family = strlen(seen.family);
	ck_assert_msg(is_name(line, len, true) && len < sizeof(name), "%s", line);
	snprintf(name, sizeof(name), "%.*s", (int)len, line);
	ck_assert_msg(!strncmp(name, seen.family, family) && seen.type[0], "%s among %s", name, seen.family);
	ck_assert_msg(!name[family] || !strcmp(seen.type, "histogram"), "%s among %s", name, seen.family);
	const char *at = line + len;
	if (*at == '{')
		at = labels(at + 1, le, sizeof(le));
	ck_assert_msg(at && *at == ' ', "%s", line);
	double value = strtod(at + 1, &end);
	ck_assert_msg(end != at + 1 && !*end && value >= 0, "%s", line);
	if (le[0]) {
		ck_assert_msg(value >= seen.last_bucket, "%s", line);
		seen.last_bucket = value;
	}
	ck_assert_uint_lt(seen.n, SERIES_MAX);
	seen.series[seen.n++] = strndup(line, (size_t)(at - line));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_distinct(void)
{
	size_t i = 1;
	qsort(seen.series, seen.n, sizeof(seen.series[0]), by_text);
	while (i < seen.n && strcmp(seen.series[i - 1], seen.series[i]) != 0)
		i++;
	ck_assert_msg(i >= seen.n, "%s is there twice", seen.series[i]);
}

/* Every line; the text stays whole. */
static void check(const char *text)
{
	ck_assert(text[0] && text[strlen(text) - 1] == '\n');
	char *copy = strdup(text), *rest = copy, *line;
	while ((line = strsep(&rest, "\n")) && rest) {
		ck_assert_msg(line[0], "an empty line");
		line[0] == '#' ? comment(line) : sample(line);
	}
	check_distinct();
	free(copy);
}

static struct target_table listed;
static struct export_state state;
static struct metrics metrics;
static char *text;

static void setup(void)
{
	memset(&seen, 0, sizeof(seen));
	listed = (struct target_table){0};
	state = (struct export_state){.symbolizer = 1, .renewable = 1};
	metrics = (struct metrics){.listed = &listed, .state = &state};
}

static void teardown(void)
{
	for (size_t i = 0; i < seen.n; i++)
		free(seen.series[i]);
	for (size_t i = 0; i < seen.n_families; i++)
		free(seen.families[i]);
	target_table_done(&listed);
	free(text);
	text = NULL;
}

static void add(const char *id, const char *name, const char *pod, uint64_t serial)
{
	static union msg m;
	struct target_row *t = &m.listing.targets[0];
	memset(&m, 0, sizeof(m));
	m.listing.n = 1;
	*t = (struct target_row){.serial = serial,
		.state = LISTED_STARTED,
		.strategy = STRATEGY_PROCESS,
		.n_events = 1,
		.samples = serial,
		.cpu_us = serial % 2 ? LISTED_UNKNOWN : 1500000,
		.cost_us = 7,
		.age_ms = 61007};
	snprintf(t->id, sizeof(t->id), "%s", id);
	snprintf(t->name, sizeof(t->name), "%s", name);
	snprintf(t->pod, sizeof(t->pod), "%s", pod);
	ck_assert_int_eq(target_table_add(&listed, &m.listing), 0);
}

static const char *written(void)
{
	size_t len;
	FILE *out = open_memstream(&text, &len);
	ck_assert_int_eq(metrics_write(&metrics, out), 0);
	fclose(out);
	ck_assert_uint_eq(strlen(text), len);
	return text;
}

#define HAS(part) ck_assert_msg(strstr(text, part), "no %s in %s", part, text)
#define HAS_NOT(part) ck_assert_msg(!strstr(text, part), "%s", part)

START_TEST(a_service_without_targets)
{
	check(written());
	HAS("\npillion_worker_up 1\n");
	HAS("\npillion_targets 0\n");
	HAS("\npillion_hook_duration_seconds_count 0\n");
	HAS("\npillion_hook_duration_seconds_bucket{le=\"+Inf\"} 0\n");
	HAS_NOT("target=");
}
END_TEST

START_TEST(a_worker_that_did_not_answer)
{
	metrics.listed = NULL;
	metrics.state = NULL;
	metrics.written = 5;
	check(written());
	HAS("\npillion_worker_up 0\n");
	HAS("\npillion_profiles_written_total 5\n");
	HAS_NOT("pillion_targets");
	HAS_NOT("pillion_hook");
}
END_TEST

static const struct {
	const char *scenario, *name, *label;
} names[] = {
	{"plain", "web", "name=\"web\""},
	{"a quote", "a\"} 1\npillion_targets 99", "name=\"a\\\"} 1?pillion_targets 99\""},
	{"a backslash at its end", "a\\", "name=\"a\\\\\""},
	{"a newline", "a\nb", "name=\"a?b\""},
	{"an escape", "a\\n\033[2J", "name=\"a\\\\n?[2J\""},
	{"no UTF-8", "a\xff\xfe", "name=\"a??\""},
	{"UTF-8", "caf\xc3\xa9", "name=\"caf\xc3\xa9\""},
	{"none", "", "name=\"\""},
};

START_TEST(names_come_out_of_containers)
{
	add("8f2e", names[_i].name, "", 4);
	check(written());
	HAS(names[_i].label);
	HAS("} 1.500000\n");
	HAS("\npillion_targets 0\n"); /* as the sums have it, whatever a name says */
}
END_TEST

START_TEST(what_is_not_known_is_left_out)
{
	add("8f2e", "web", "", 5);
	check(written());
	HAS_NOT("pillion_target_cpu_seconds_total{");
	HAS("pillion_target_cost_seconds_total{target=\"8f2e\",name=\"web\",pod=\"\",namespace=\"\"} 0.000007\n");
	HAS("pillion_target_age_seconds{target=\"8f2e\",name=\"web\",pod=\"\",namespace=\"\"} 61.007\n");
	HAS("strategy=\"process\",state=\"started\"} 1\n");
}
END_TEST

/* One ends and is here again: the later one counts. */
START_TEST(two_with_the_same_labels_are_one)
{
	add("8f2e", "web", "p", 9);
	add("other", "web", "p", 8);
	add("8f2e", "web", "p", 7);
	check(written());
	HAS("pillion_target_samples_total{target=\"8f2e\",name=\"web\",pod=\"p\",namespace=\"\"} 9\n");
	HAS_NOT("} 7\n");
}
END_TEST

START_TEST(durations_of_hooks)
{
	const struct msg_outcome said[] = {{.outcome = HOOK_ARMED, .strategy = STRATEGY_CGROUP, .us = 1700},
		{.outcome = HOOK_ARMED, .strategy = STRATEGY_CGROUP, .us = 500}, {.outcome = HOOK_UNSAMPLED, .us = 501},
		{.outcome = HOOK_UNPROFILED, .us = UINT32_MAX}, {.outcome = HOOK_REFUSED, .us = 5000000}};
	for (size_t i = 0; i < LENGTH(said); i++)
		hook_stats_add(&state.outcomes, &said[i]);
	check(written());
	HAS("\npillion_hook_starts_total{outcome=\"armed\",strategy=\"cgroup\"} 2\n");
	HAS("\npillion_hook_starts_total{outcome=\"unsampled\",strategy=\"\"} 1\n");
	HAS("\npillion_hook_starts_total{outcome=\"unprofiled\",strategy=\"\"} 1\n");
	HAS("\npillion_hook_starts_total{outcome=\"refused\",strategy=\"\"} 1\n");
	HAS("_bucket{le=\"0.0005\"} 1\n");
	HAS("_bucket{le=\"0.001\"} 2\n");
	HAS("_bucket{le=\"0.0015\"} 2\n");
	HAS("_bucket{le=\"0.002\"} 3\n");
	HAS("_bucket{le=\"5\"} 4\n");
	HAS("_bucket{le=\"+Inf\"} 5\n");
	HAS("_count 5\n");
	HAS("_sum 4299.969996\n");
}
END_TEST

START_TEST(who_has_names)
{
	state = (struct export_state){.symbolizer = _i == 0, .readers = _i == 1, .renewable = _i == 2};
	check(written());
	HAS(_i == 0 ? "\npillion_symbolizer_up 1\n" : "\npillion_symbolizer_up 0\n");
	HAS(_i == 1 ? "\npillion_readers_up 1\n" : "\npillion_readers_up 0\n");
	HAS(_i == 2 ? "\npillion_symbolizer_renewable 1\n" : "\npillion_symbolizer_renewable 0\n");
}
END_TEST

START_TEST(processes_of_ours)
{
	struct process_use found[PROCESS_USAGE_MAX];
	int pipe[2];
	char any;
	ck_assert_int_eq(pipe2(pipe, O_CLOEXEC), 0);
	pid_t top = getpid(), child = child_process_fork_quiet();
	if (child ==
		0) { /* as deep as a reader of files: the supervisor, who forks symbolizers, one of those, the reader */
		child_process_die_with(top);
		for (int depth = 1; depth < 3; depth++) {
			pid_t parent = getpid();
			if (fork() != 0)
				pause();
			child_process_die_with(parent);
		}
		_exit(write(pipe[1], "", 1) != 1 || pause());
	}
	ck_assert_int_eq(read(pipe[0], &any, 1), 1);
	close(pipe[0]);
	close(pipe[1]);
	metrics.processes = found;
	metrics.n_processes = process_usage_look(getpid(), found);
	check(written());
	ck_assert_uint_eq(metrics.n_processes, 1);
	ck_assert_uint_ge(found[0].n, access("/proc/self/task", F_OK) == 0 ? 4 : 1);
	ck_assert_uint_ge(found[0].resident, 100000);
	child_process_wait(child, 0);
}
END_TEST

START_TEST(hundreds_of_targets)
{
	char id[32];
	for (unsigned i = 1; i <= 300; i++) {
		snprintf(id, sizeof(id), "id%u", i);
		add(id, "web", "", i);
	}
	check(written());
	ck_assert_uint_ge(seen.n, 300 * 9);
}
END_TEST

START_TEST(no_room_to_write_to)
{
	FILE *full = fopen("/dev/full", "we");
	setvbuf(full, NULL, _IONBF, 0);
	ck_assert_int_eq(metrics_write(&metrics, full), -EIO);
	fclose(full);
}
END_TEST

UNIT_SUITE(metrics)
{
	Suite *s = suite_create("metrics");
	TCase *t = tcase_create("metrics");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_service_without_targets);
	tcase_add_test(t, a_worker_that_did_not_answer);
	tcase_add_loop_test(t, names_come_out_of_containers, 0, LENGTH(names));
	tcase_add_test(t, what_is_not_known_is_left_out);
	tcase_add_test(t, two_with_the_same_labels_are_one);
	tcase_add_test(t, durations_of_hooks);
	tcase_add_loop_test(t, who_has_names, 0, 4);
	tcase_add_test(t, processes_of_ours);
	tcase_add_test(t, hundreds_of_targets);
	tcase_add_test(t, no_room_to_write_to);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/view/target_table.h"

#include "oci/base/fd.h"
#include "oci/base/json/json_parse.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;
static struct target_table all;
static struct msg_listing page;

static const struct target_row web = {
	.id = "0123456789abcdef0123456789abcdef",
	.name = "web",
	.pod = "shop-0",
	.pod_namespace = "prod",
	.profile = "web/20261121T105152Z-000000-cpu.pb.gz",
	.state = LISTED_STARTED,
	.strategy = STRATEGY_CGROUP,
	.kernel = 1,
	.host_pid = 4242,
	.window_s = 60,
	.n_events = 2,
	.events = {{.kind = 0, .period = 1000000000 / 99}, {.kind = 1, .period = 50}},
	.age_ms = 3 * 60000,
	.window_ms = 2000,
	.samples = 1234,
	.window_samples = 199,
	.lost = 7,
	.lost_shared = 3,
	.throttled = 1,
	.cpu_us = 1500000,
	.cost_us = 20000,
	.naming_us = 5000,
	.memory = 2u << 20,
	.records = 1500,
	.bytes = 3u << 20,
	.capped = 420,
	.lowered = 200,
};

static void begin(void)
{
	fds = fd_count();
	page = (struct msg_listing){.last = 1,
		.sums = {1, 57, 1024, 2, 1u << 19, 9000, 4, 9u << 20, 350000, 900000, 1200000},
		.spool = "/spool",
		.sampling_us = 700000};
}

static void end(void)
{
	target_table_done(&all);
	ck_assert_int_eq(fd_count(), fds);
}

static void add(const struct target_row *t)
{
	page.targets[page.n++] = *t;
}

/* Both, malloc'ed. */
static char *written(bool json, bool full)
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(json ? target_table_json(&all, f) : target_table_write(&all, full, f), 0);
	fclose(f);
	return text;
}

/* The cell of the first target below a title, up to the next two blanks. */
static char *cell(const char *text, const char *title)
{
	static char found[512];
	char row[1024], head[1024];
	ck_assert_int_eq(sscanf(text, "%1023[^\n]\n%1023[^\n]", head, row), 2);
	size_t column = 0, n = 0;
	for (char *save = NULL, *word = strtok_r(head, " ", &save); strcmp(word, title); column++)
		ck_assert_ptr_nonnull(word = strtok_r(NULL, " ", &save));
	char *at = row + strspn(row, " ");
	for (; n < column; n++) {
		at = strstr(at, "  ");
		ck_assert_ptr_nonnull(at);
		at += strspn(at, " ");
	}
	char *stop = strstr(at, "  ");
	snprintf(found, sizeof(found), "%.*s", stop ? (int)(stop - at) : 400, at);
	return found;
}

START_TEST(no_target_is_a_header_and_an_empty_array)
{
	ck_assert_int_eq(target_table_add(&all, &page), 1);
	char *text = written(false, false);
	ck_assert_str_eq(text, "ID  NAME  POD  STATE  STRATEGY  EVENTS  AGE  SAMPLES  PER-S  LOWERED  BYTES  LOST  "
			       "THROTTLED  CPU  COST  "
			       "MEMORY  PROFILE\n");
	free(text);
	text = written(true, false);
	ck_assert_str_eq(text, "[]\n");
	free(text);
}
END_TEST

START_TEST(a_line_for_each_and_one_of_sums)
{
	struct target_row other = {.id = "c2",
		.state = LISTED_ARMED,
		.strategy = STRATEGY_THREADS,
		.n_events = 1,
		.events = {{.kind = 0, .period = 1000000000 / 999}},
		.age_ms = 59000,
		.cpu_us = LISTED_UNKNOWN,
		.memory = 1000};
	add(&web);
	add(&other);
	ck_assert_int_eq(target_table_add(&all, &page), 1);
	char *text = written(false, false);
	ck_assert_str_eq(text,
		"ID            NAME  POD          STATE    STRATEGY      EVENTS                 AGE  SAMPLES  PER-S    "
		"       "
		"LOWERED  BYTES  LOST  THROTTLED    CPU  COST  MEMORY  PROFILE\n"
		"0123456789ab  web   prod/shop-0  started  cgroup        cpu@99,page-faults/50   3m     1234   99.5  "
		"1/8.4 "
		"cap+budget    3MB  7+3?          1  1.50s  20ms     2MB  web/20261121T105152Z-000000-cpu.pb.gz\n"
		"c2            -     -            armed    threads:user  cpu@999                59s        0      -    "
		"   "
		"          -      0     0          0      -     0   1000B  -\n"
		"2 targets, 57 of 1024 descriptors, 2 rings of 512kB, 9000 records, 4 unknown, 9MB of memory, 350ms of "
		"CPU in the worker; 900ms of a budget of 1.20s in the last minute, 700ms of it for sampling; profiles "
		"in /spool\n");
	free(text);
}
END_TEST

static const struct {
	const char *scenario, *title, *shown, *full;
	size_t offset, width;
	uint64_t value; /* of the field; or */
	const char *text;
} cells[] = {
#define NUMBER(field) offsetof(struct target_row, field), sizeof(web.field)
#define TEXT(field) offsetof(struct target_row, field), 0, 0
	{"registered", "STATE", "registered", "registered", NUMBER(state), LISTED_REGISTERED, NULL},
	{"ending", "STATE", "ending", "ending", NUMBER(state), LISTED_ENDING, NULL},
	{"no rate before it has started", "PER-S", "-", "-", NUMBER(state), LISTED_ARMED, NULL},
	{"no window yet", "PER-S", "0.0", "0.0", NUMBER(window_ms), 0, NULL},
	{"by its cap alone", "LOWERED", "1/4.2 cap", "1/4.2 cap", NUMBER(lowered), 100, NULL},
	{"with all others", "LOWERED", "1/2.0 budget", "1/2.0 budget", NUMBER(capped), 100, NULL},
	{"no records", "BYTES", "0", "0", NUMBER(bytes), 0, NULL},
	{"process", "STRATEGY", "process", "process", NUMBER(strategy), STRATEGY_PROCESS, NULL},
	{"user code only", "STRATEGY", "cgroup:user", "cgroup:user", NUMBER(kernel), 0, NULL},
	{"just come", "AGE", "0s", "0s", NUMBER(age_ms), 999, NULL},
	{"nearly two minutes", "AGE", "119s", "119s", NUMBER(age_ms), 119999, NULL},
	{"two minutes", "AGE", "2m", "2m", NUMBER(age_ms), 120000, NULL},
	{"two hours", "AGE", "2h", "2h", NUMBER(age_ms), 7200000, NULL},
	{"three days", "AGE", "3d", "3d", NUMBER(age_ms), 3 * 86400000ull, NULL},
	{"nothing lost in this window", "LOST", "7", "7", NUMBER(lost_shared), 0, NULL},
	{"an unknown CPU time", "CPU", "-", "-", NUMBER(cpu_us), LISTED_UNKNOWN, NULL},
	{"no pod", "POD", "-", "-", TEXT(pod), ""},
	{"a pod without namespace", "POD", "shop-0", "shop-0", TEXT(pod_namespace), ""},
	{"no profile yet", "PROFILE", "-", "-", TEXT(profile), ""},
	{"a profile", "PROFILE", "web/1.pb.gz", "/spool/web/1.pb.gz", TEXT(profile), "web/1.pb.gz"},
	{"a short id", "ID", "c1", "c1", TEXT(id), "c1"},
	{"a long id", "ID", "abcdefghijkl", "abcdefghijklm", TEXT(id), "abcdefghijklm"},
	{"a name as long as fits", "NAME", "abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnopqrstuvwxyz012345",
		TEXT(name), "abcdefghijklmnopqrstuvwxyz012345"},
	{"a longer name", "NAME", "abcdefghijklmnopqrstuvwxyz01234\u2026", "abcdefghijklmnopqrstuvwxyz0123456",
		TEXT(name), "abcdefghijklmnopqrstuvwxyz0123456"},
	{"a longer name of two bytes each", "NAME",
		"a\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
		"bcdefghijklmnopqrst\u00e9\u2026",
		"a\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
		"bcdefghijklmnopqrst\u00e9\u00e9\u00e9",
		TEXT(name),
		"a\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"
		"bcdefghijklmnopqrst\u00e9\u00e9\u00e9"},
	{"a name that a terminal would obey", "NAME", "?[2J?", "?[2J?", TEXT(name), "\033[2J\377"},
};

START_TEST(what_a_service_of_version_2_has_there_is_no_time)
{
	begin();
	page.sampling_us = page.sums.minute_us + 1;
	ck_assert_int_eq(target_table_add(&all, &page), 1);
	ck_assert_uint_eq(all.sampling_us, 0);
	end();
}
END_TEST

START_TEST(one_cell)
{
	struct target_row t = web;
	char *field = (char *)&t + cells[_i].offset;
	if (cells[_i].text)
		strcpy(field, cells[_i].text);
	else
		memcpy(field, &cells[_i].value, cells[_i].width); /* little endian */
	add(&t);
	ck_assert_int_eq(target_table_add(&all, &page), 1);
	for (int full = 0; full < 2; full++) {
		const char *want = full ? cells[_i].full : cells[_i].shown;
		char *text = written(false, full);
		ck_assert_msg(!strcmp(cell(text, cells[_i].title), want), "%s: \"%s\", not \"%s\"", cells[_i].scenario,
			cell(text, cells[_i].title), want);
		free(text);
	}
}
END_TEST

START_TEST(the_keys_of_json)
{
	add(&web);
	target_table_add(&all, &page);
	char *text = written(true, false);
	ck_assert_str_eq(text, "[\n  {\n"
			       "    \"id\": \"0123456789abcdef0123456789abcdef\",\n"
			       "    \"name\": \"web\",\n"
			       "    \"pod\": \"shop-0\",\n"
			       "    \"namespace\": \"prod\",\n"
			       "    \"pid\": 4242,\n"
			       "    \"state\": \"started\",\n"
			       "    \"strategy\": \"cgroup\",\n"
			       "    \"kernel\": true,\n"
			       "    \"events\": [\n      \"cpu@99\",\n      \"page-faults/50\"\n    ],\n"
			       "    \"window_s\": 60,\n"
			       "    \"age_ms\": 180000,\n"
			       "    \"window_ms\": 2000,\n"
			       "    \"samples\": 1234,\n"
			       "    \"window_samples\": 199,\n"
			       "    \"samples_per_second\": 99.5,\n"
			       "    \"lost\": 7,\n"
			       "    \"lost_shared\": 3,\n"
			       "    \"throttled\": 1,\n"
			       "    \"cpu_us\": 1500000,\n"
			       "    \"cost_us\": 20000,\n"
			       "    \"naming_us\": 5000,\n"
			       "    \"memory_bytes\": 2097152,\n"
			       "    \"records\": 1500,\n"
			       "    \"record_bytes\": 3145728,\n"
			       "    \"capped_by\": 4.2,\n"
			       "    \"lowered_by\": 2.0,\n"
			       "    \"profile\": \"/spool/web/20261121T105152Z-000000-cpu.pb.gz\"\n"
			       "  }\n]\n");
	free(text);
}
END_TEST

START_TEST(json_of_what_is_unknown_or_hostile)
{
	struct target_row t = web;
	struct json *doc;
	struct err e = {0};
	t.cpu_us = LISTED_UNKNOWN;
	t.samples = UINT64_MAX;
	strcpy(t.name, "\"},{\"\\\n\377");
	t.profile[0] = 0;
	add(&t);
	target_table_add(&all, &page);
	char *text = written(true, false);
	size_t len = strlen(text);
	ck_assert_msg(json_parse(text + 2, len - 4, &doc, &e) == 0, "%s in %s", e.text, text); /* without [ and ] */
	ck_assert_str_eq(json_text(json_member(doc, "name"), NULL), "\"},{\"\\??");
	ck_assert_str_eq(json_text(json_member(doc, "profile"), NULL), "");
	ck_assert_ptr_null(json_member(doc, "cpu_us"));
	ck_assert_ptr_nonnull(strstr(text, "\"cpu_us\": null"));
	int64_t n;
	ck_assert_int_eq(json_number(json_member(doc, "samples"), &n), 0);
	ck_assert_int_eq(n, INT64_MAX);
	json_free(doc);
	free(text);
}
END_TEST

START_TEST(pages_without_end_are_refused)
{
	page.last = 0;
	for (page.n = 0; page.n < PROTOCOL_LISTED_MAX;)
		add(&web);
	int r = 0;
	for (size_t i = 0; r == 0 && i <= TARGET_TABLE_MAX / PROTOCOL_LISTED_MAX; i++)
		r = target_table_add(&all, &page);
	ck_assert_int_eq(r, -E2BIG);
	ck_assert_uint_le(all.n, TARGET_TABLE_MAX);
}
END_TEST

START_TEST(nobody_takes_it)
{
	add(&web);
	target_table_add(&all, &page);
	for (int json = 0; json < 2; json++) {
		FILE *full = fopen("/dev/full", "we");
		setvbuf(full, NULL, _IONBF, 0);
		ck_assert_int_eq(json ? target_table_json(&all, full) : target_table_write(&all, false, full), -EIO);
		fclose(full);
	}
}
END_TEST

UNIT_SUITE(target_table)
{
	Suite *s = suite_create("target_table");
	TCase *t = tcase_create("target_table");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, no_target_is_a_header_and_an_empty_array);
	tcase_add_test(t, a_line_for_each_and_one_of_sums);
	tcase_add_test(t, what_a_service_of_version_2_has_there_is_no_time);
	tcase_add_loop_test(t, one_cell, 0, LENGTH(cells));
	tcase_add_test(t, the_keys_of_json);
	tcase_add_test(t, json_of_what_is_unknown_or_hostile);
	tcase_add_test(t, pages_without_end_are_refused);
	tcase_add_test(t, nobody_takes_it);
	suite_add_tcase(s, t);
	return s;
}

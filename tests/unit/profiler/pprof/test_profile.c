/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/profile.h"

#include "oci/base/fd.h"
#include "profiler/pprof/profile_merge.h"
#include "tests/unit/support/profile_dump.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void setup(void)
{
	fds = fd_count();
}

static void teardown(void)
{
	ck_assert_int_eq(fd_count(), fds);
}

static struct profile *cpu_profile(void)
{
	struct profile_info info = {.time_ns = 1000,
		.duration_ns = 60,
		.n_types = 2,
		.types = (struct profile_type[]){{"samples", "count"}, {"cpu", "nanoseconds"}},
		.period_type = {"cpu", "nanoseconds"},
		.period = 10};
	struct profile *p;
	ck_assert_int_eq(profile_new(&info, &p), 0);
	return p;
}

/* The name of a location: of the function that the code belongs to. */
static const char *name_of(const struct profile *p, uint32_t location)
{
	struct profile_location l;
	profile_location_get(p, location, &l);
	return profile_function_name(p, l.lines[l.n - 1].function);
}

static uint32_t frame(struct profile *p, const char *name)
{
	int64_t f = profile_function(p, &(struct profile_function){.name = name});
	ck_assert_int_ge(f, 0);
	int64_t l = profile_location(p, PROFILE_NONE, 0, &(struct profile_line){.function = (uint32_t)f}, 1);
	ck_assert_int_ge(l, 0);
	return (uint32_t)l;
}

START_TEST(test_same_id_for_the_same_thing)
{
	struct profile *p = cpu_profile();
	int64_t a = profile_mapping(p, 0x1000, 0x2000, 0, "/bin/a", "beef", PROFILE_HAS_LINE_NUMBERS);
	int64_t b = profile_mapping(p, 0x1000, 0x2000, 0, "/bin/b", "beef", PROFILE_HAS_FUNCTIONS);
	struct profile_function main_a = {.name = "main", .file = "a.c"}, main_b = {.name = "main", .file = "b.c"};
	struct profile_mapping m;
	ck_assert_int_eq(a, 0);
	ck_assert_int_eq(b, 1);
	ck_assert_int_eq(profile_mapping(p, 0x1000, 0x2000, 0, "/bin/a", "beef", PROFILE_HAS_FUNCTIONS), a);
	profile_mapping_get(p, 0, &m);
	ck_assert_uint_eq(m.has, PROFILE_HAS_FUNCTIONS | PROFILE_HAS_LINE_NUMBERS);
	ck_assert_int_eq(profile_mapping(p, 0x1000, 0x2000, 0, "/bin/b", "beef", 0), b);
	profile_mapping_get(p, 1, &m);
	ck_assert_msg(m.has == PROFILE_HAS_FUNCTIONS, "what was said once stays");
	int64_t f = profile_function(p, &main_a);
	ck_assert_int_eq(profile_function(p, &main_a), f);
	ck_assert_int_ne(profile_function(p, &main_b), f);
	int64_t l = profile_location(p, 0, 0x1234, &(struct profile_line){.function = (uint32_t)f}, 1);
	ck_assert_int_eq(profile_location(p, 0, 0x1234, &(struct profile_line){.function = (uint32_t)f}, 1), l);
	ck_assert_int_ne(profile_location(p, 1, 0x1234, &(struct profile_line){.function = (uint32_t)f}, 1), l);
	ck_assert_int_eq(profile_mappings(p), 2);
	ck_assert_int_eq(profile_functions(p), 2);
	ck_assert_int_eq(profile_locations(p), 2);
	profile_free(p);
}
END_TEST

static const struct {
	const char *scenario;
	struct profile_function first, second;
	bool same;
} function_rows[] = {
	{"all alike", {"f", "_Z1fv", "a.c", 3}, {"f", "_Z1fv", "a.c", 3}, true},
	{"another name", {"f", "_Z1fv", "a.c", 3}, {"g", "_Z1fv", "a.c", 3}, false},
	{"another linkage name", {"f", "_Z1fv", "a.c", 3}, {"f", "_Z1fi", "a.c", 3}, false},
	{"another file", {"f", "_Z1fv", "a.c", 3}, {"f", "_Z1fv", "b.c", 3}, false},
	{"another line", {"f", "_Z1fv", "a.c", 3}, {"f", "_Z1fv", "a.c", 4}, false},
	{"a linkage name that is the name", {"f", "f", "a.c", 3}, {"f", "", "a.c", 3}, true},
	{"alike once it is UTF-8", {"f\xff", "f?", "a.c", 3}, {"f?", NULL, "a.c", 3}, true},
};

START_TEST(test_functions)
{
	struct profile *p = cpu_profile();
	struct profile_function f;
	const char *row = function_rows[_i].scenario, *linkage = function_rows[_i].second.system_name;
	int64_t first = profile_function(p, &function_rows[_i].first),
		second = profile_function(p, &function_rows[_i].second);
	ck_assert_msg((first == second) == function_rows[_i].same, "%s", row);
	profile_function_get(p, (uint32_t)second, &f);
	ck_assert_str_eq(f.name, function_rows[_i].second.name);
	ck_assert_msg(!strcmp(f.system_name, linkage ? linkage : ""), "%s: %s", row, f.system_name);
	ck_assert_str_eq(f.file, function_rows[_i].second.file);
	ck_assert_int_eq(f.start_line, function_rows[_i].second.start_line);
	profile_free(p);
}
END_TEST

static const struct {
	const char *scenario;
	uint64_t address;
	struct profile_line lines[3]; /* the first location has {{0, 10}, {1, 20}} at 0x1234 */
	size_t n;
	bool same;
} location_rows[] = {
	{"the same", 0x1234, {{0, 10}, {1, 20}}, 2, true},
	{"another address", 0x1235, {{0, 10}, {1, 20}}, 2, false},
	{"another line", 0x1234, {{0, 10}, {1, 21}}, 2, false},
	{"no line number", 0x1234, {{0, 0}, {1, 20}}, 2, false},
	{"another function", 0x1234, {{1, 10}, {1, 20}}, 2, false},
	{"another order", 0x1234, {{1, 20}, {0, 10}}, 2, false},
	{"one more", 0x1234, {{0, 10}, {1, 20}, {0, 0}}, 3, false},
	{"one less", 0x1234, {{0, 10}}, 1, false},
	{"none", 0x1234, {{0}}, 0, false},
};

START_TEST(test_locations)
{
	struct profile *p = cpu_profile();
	struct profile_location l;
	const char *row = location_rows[_i].scenario;
	profile_mapping(p, 0x1000, 0x2000, 0, "/bin/a", "", 0);
	profile_function(p, &(struct profile_function){.name = "inner"});
	profile_function(p, &(struct profile_function){.name = "outer"});
	int64_t first = profile_location(p, 0, 0x1234, (struct profile_line[]){{0, 10}, {1, 20}}, 2),
		second =
			profile_location(p, 0, location_rows[_i].address, location_rows[_i].lines, location_rows[_i].n);
	ck_assert_int_eq(first, 0);
	ck_assert_msg((first == second) == location_rows[_i].same, "%s", row);
	profile_location_get(p, (uint32_t)second, &l);
	ck_assert_uint_eq(l.mapping, 0);
	ck_assert_uint_eq(l.address, location_rows[_i].address);
	ck_assert_msg(l.n == (location_rows[_i].n ? location_rows[_i].n : 1), "%s: %zu lines", row, l.n);
	ck_assert_mem_eq(l.lines,
		location_rows[_i].n ? location_rows[_i].lines : (struct profile_line[]){{.function = 2}},
		l.n * sizeof(*l.lines));
	profile_free(p);
}
END_TEST

START_TEST(test_of_many_lines_the_innermost_and_the_last_stay)
{
	struct profile *p = cpu_profile();
	struct profile_line lines[PROFILE_LINES_MAX + 2];
	profile_function(p, &(struct profile_function){.name = "f"});
	for (uint32_t i = 0; i < N(lines); i++)
		lines[i] = (struct profile_line){.line = i + 1};
	for (size_t n = PROFILE_LINES_MAX - 1; n <= N(lines); n++) {
		struct profile_location l;
		size_t kept = n < PROFILE_LINES_MAX ? n : PROFILE_LINES_MAX;
		profile_location_get(p, (uint32_t)profile_location(p, PROFILE_NONE, 0, lines, n), &l);
		ck_assert_uint_eq(l.n, kept);
		ck_assert_mem_eq(l.lines, lines, (kept - 1) * sizeof(*lines));
		ck_assert_uint_eq(l.lines[kept - 1].line, n);
	}
	ck_assert_uint_eq(profile_locations(p), 4);
	profile_free(p);
}
END_TEST

static const struct {
	const char *scenario;
	struct profile_label first[3], second[3];
	size_t n_first, n_second, expect;
} label_rows[] = {
	{"no labels", {{0}}, {{0}}, 0, 0, 1},
	{"equal labels", {{"pid", NULL, NULL, 7}}, {{"pid", NULL, NULL, 7}}, 1, 1, 1},
	{"another order is the same set", {{"a", "1", 0, 0}, {"b", "2", 0, 0}}, {{"b", "2", 0, 0}, {"a", "1", 0, 0}}, 2,
		2, 1},
	{"another value", {{"a", "1", 0, 0}}, {{"a", "2", 0, 0}}, 1, 1, 2},
	{"a number is not its text", {{"a", "1", 0, 0}}, {{"a", NULL, NULL, 1}}, 1, 1, 2},
	{"the unit of a number counts", {{"a", NULL, "bytes", 1}}, {{"a", NULL, "ns", 1}}, 1, 1, 2},
	{"of two with one key the first wins", {{"a", "1", 0, 0}, {"a", "2", 0, 0}}, {{"a", "1", 0, 0}}, 2, 1, 1},
	{"an empty text is no label", {{"a", "", 0, 0}}, {{0}}, 1, 0, 1},
	{"with and without", {{"a", "1", 0, 0}}, {{0}}, 1, 0, 2},
};

START_TEST(test_samples_with_equal_stack_and_labels_are_summed)
{
	struct profile *p = cpu_profile();
	uint32_t stack[] = {frame(p, "leaf"), frame(p, "main")};
	struct profile_sample s;
	const char *row = label_rows[_i].scenario;
	ck_assert_int_eq(
		profile_sample(p, stack, 2, (int64_t[]){1, 10}, label_rows[_i].first, label_rows[_i].n_first), 0);
	ck_assert_int_eq(
		profile_sample(p, stack, 2, (int64_t[]){2, 5}, label_rows[_i].second, label_rows[_i].n_second), 0);
	ck_assert_msg(profile_samples(p) == label_rows[_i].expect, "%s", row);
	profile_sample_get(p, 0, &s);
	ck_assert_msg(s.values[1] == (label_rows[_i].expect == 1 ? 15 : 10), "%s", row);
	ck_assert_int_eq(profile_total(p, 0), 3);
	ck_assert_int_eq(s.n, 2);
	ck_assert_str_eq(name_of(p, s.locations[0]), "leaf");
	ck_assert_int_eq(profile_sample(p, stack, 1, (int64_t[]){1, 1}, NULL, 0), 0);
	ck_assert_msg(profile_samples(p) == label_rows[_i].expect + 1, "another stack: %s", row);
	profile_free(p);
}
END_TEST

static const struct {
	const char *scenario, *given, *expect;
} text_rows[] = {
	{"ASCII", "main", "main"},
	{"nothing", "", ""},
	{"all lengths of UTF-8", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
	{"a lone continuation byte",
		"a\x80"
		"b",
		"a?b"},
	{"a sequence cut off at the end", "a\xe2\x82", "a??"},
	{"an overlong slash", "\xc0\xaf", "??"},
	{"a surrogate", "\xed\xa0\x80", "???"},
	{"beyond Unicode", "\xf5\x80\x80\x80", "????"},
	{"Latin-1", "caf\xe9 x", "caf? x"},
};

START_TEST(test_text_is_utf8)
{
	struct profile *p = cpu_profile();
	struct profile_function f;
	profile_function(p, &(struct profile_function){.name = text_rows[_i].given});
	profile_function_get(p, 0, &f);
	ck_assert_msg(!strcmp(f.name, text_rows[_i].expect), "%s: %s", text_rows[_i].scenario, f.name);
	ck_assert_int_ge(profile_string_find(p, text_rows[_i].expect), 0);
	ck_assert_int_eq(profile_string_find(p, "never given"), -ENOENT);
	ck_assert_str_eq(profile_string_get(p, 0), "");
	profile_free(p);
}
END_TEST

START_TEST(test_location_without_function_is_named_by_offset)
{
	struct profile *p = cpu_profile();
	profile_mapping(p, 0x5000, 0x9000, 0x1000, "/usr/lib/libfoo.so", "", 0);
	int64_t in = profile_location(p, 0, 0x5234, NULL, 0), out = profile_location(p, PROFILE_NONE, 7, NULL, 0);
	ck_assert_str_eq(name_of(p, (uint32_t)in), "libfoo.so+0x1234");
	ck_assert_str_eq(name_of(p, (uint32_t)out), "?");
	profile_free(p);
}
END_TEST

START_TEST(test_wrong_arguments)
{
	struct profile *p = cpu_profile(), *none = NULL;
	struct profile_info bad = {.n_types = 0};
	struct profile_label many[PROFILE_LABELS_MAX + 1] = {{0}};
	uint32_t l = frame(p, "f"), beyond = 99;
	struct profile_line good = {.function = 0}, lines[] = {{.function = 0}, {.function = 1}};
	ck_assert_int_eq(profile_new(&bad, &none), -EINVAL);
	ck_assert_ptr_null(none);
	ck_assert_int_eq(profile_location(p, 0, 0, &good, 1), -EINVAL);
	ck_assert_int_eq(profile_location(p, PROFILE_NONE, 0, lines, N(lines)), -EINVAL);
	ck_assert_int_eq(profile_sample(p, &beyond, 1, (int64_t[]){1, 1}, NULL, 0), -EINVAL);
	ck_assert_int_eq(profile_sample(p, &l, 1, (int64_t[]){1, 1}, many, N(many)), -EINVAL);
	ck_assert_int_eq(profile_samples(p), 0);
	ck_assert_ptr_null(profile_free(NULL));
	profile_free(p);
}
END_TEST

/* --- types of two profiles */

static struct profile *one_sample(const char *type, const char *unit, int64_t value)
{
	struct profile *p;
	const struct profile_info info = {
		.n_types = 2, .types = (struct profile_type[]){{"samples", "count"}, {type, unit}}};
	ck_assert_int_eq(profile_new(&info, &p), 0);
	const uint32_t l = frame(p, "f");
	ck_assert_int_eq(profile_sample(p, &l, 1, (int64_t[]){1, value}, NULL, 0), 0);
	return p;
}

static const struct {
	const char *type[2], *unit[2];
	int64_t value[2];
	int expect;
	const char *as;
	int64_t values[2];
} match_rows[] = {
	{{"cpu", "cpu"}, {"nanoseconds", "nanoseconds"}, {5, 7}, 0, "nanoseconds", {5, 7}},
	{{"cpu", "cpu"}, {"milliseconds", "nanoseconds"}, {5, 7}, 0, "nanoseconds", {5000000, 7}},
	{{"cpu", "cpu"}, {"us", "seconds"}, {5, 7}, 0, "us", {5, 7000000}},
	{{"cpu", "cpu"}, {"hours", "minutes"}, {-5, 7}, 0, "minutes", {-300, 7}},
	{{"space", "space"}, {"megabytes", "kilobytes"}, {5, 7}, 0, "kilobytes", {5120, 7}},
	{{"cpu", "cpus"}, {"ms", "ms"}, {5, 7}, 0, "ms", {5, 7}},
	{{"cpu", "cpu"}, {"hours", "ns"}, {INT64_MAX, 7}, 0, "ns", {INT64_MAX, 7}},
	{{"cpu", "cpu"}, {"hours", "ns"}, {INT64_MIN, 7}, 0, "ns", {INT64_MIN, 7}},
	{{"cpu", "wall"}, {"ms", "ms"}, {5, 7}, -EINVAL, "ms", {5, 7}},
	{{"cpu", "cpu"}, {"ms", "bytes"}, {5, 7}, -EINVAL, "ms", {5, 7}},
	{{"cpu", "cpu"}, {"ms", "widgets"}, {5, 7}, -EINVAL, "ms", {5, 7}},
};

START_TEST(test_match_types)
{
	struct profile *p[2];
	for (unsigned i = 0; i < 2; i++)
		p[i] = one_sample(match_rows[_i].type[i], match_rows[_i].unit[i], match_rows[_i].value[i]);
	ck_assert_int_eq(profile_match_types(p[0], p[1]), match_rows[_i].expect);
	ck_assert(profile_same_types(profile_info(p[0]), profile_info(p[1])) == !match_rows[_i].expect);
	ck_assert_str_eq(profile_info(p[0])->types[1].unit, match_rows[_i].as);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(profile_total(p[i], 0), 1);
		ck_assert_int_eq(profile_total(p[i], 1), match_rows[_i].values[i]);
		profile_free(p[i]);
	}
}
END_TEST

START_TEST(test_sums_saturate)
{
	struct profile *p = cpu_profile();
	uint32_t l = frame(p, "f");
	struct profile_sample s;
	for (int i = 0; i < 3; i++)
		profile_sample(p, &l, 1, (int64_t[]){INT64_MAX / 2, INT64_MIN / 2}, NULL, 0);
	profile_sample_get(p, 0, &s);
	ck_assert(s.values[0] == INT64_MAX && s.values[1] == INT64_MIN);
	profile_free(p);
}
END_TEST

START_TEST(test_pointers_stay_when_tables_grow)
{
	struct profile *p = cpu_profile();
	uint32_t first = frame(p, "first");
	const char *kept = name_of(p, first);
	char name[32];
	for (int i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "function_%d", i);
		uint32_t stack[] = {frame(p, name), first};
		struct profile_label l = {.key = "tid", .num = i % 100};
		ck_assert_int_eq(profile_sample(p, stack, 2, (int64_t[]){1, 1}, &l, 1), 0);
	}
	ck_assert_int_eq(profile_samples(p), 100000);
	ck_assert_ptr_eq(name_of(p, first), kept);
	ck_assert_str_eq(name_of(p, 77778), "function_77777");
	ck_assert_int_eq(frame(p, "function_5"), 6);
	profile_free(p);
}
END_TEST

START_TEST(test_each_of_many_mappings_keeps_what_it_has)
{
	struct profile *p = cpu_profile();
	struct profile_mapping m;
	char file[32];
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(file, sizeof(file), "/lib/%u.so", i);
		ck_assert_int_eq(profile_mapping(p, 0x1000, 0x2000, 0, file, "beef", i % 16), i);
	}
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(file, sizeof(file), "/lib/%u.so", i);
		ck_assert_int_eq(profile_mapping(p, 0x1000, 0x2000, 0, file, "beef", 0), i);
		profile_mapping_get(p, i, &m);
		ck_assert_str_eq(m.file, file);
		ck_assert_uint_eq(m.has, i % 16);
	}
	ck_assert_uint_eq(profile_mappings(p), 1000);
	profile_free(p);
}
END_TEST

/* While the strings are locked the profile knows a long text by its pointer. */
START_TEST(test_each_of_many_long_texts_stays_its_own)
{
	static char names[100][600], again[600];
	struct profile *p = cpu_profile();
	profile_lock_strings(p, true);
	for (int twice = 0; twice < 2; twice++)
		for (unsigned i = 0; i < N(names); i++) {
			snprintf(names[i], sizeof(names[i]), "%0*u", (int)sizeof(names[i]) - 1, i);
			ck_assert_int_eq(profile_function(p, &(struct profile_function){.name = names[i]}), i);
			ck_assert_str_eq(profile_function_name(p, i), names[i]);
		}
	memcpy(again, names[77], sizeof(again));
	ck_assert_int_eq(profile_function(p, &(struct profile_function){.name = again}), 77);
	profile_lock_strings(p, false);
	memset(names[77], 'x', sizeof(names[77]) - 1);
	ck_assert_int_eq(profile_function(p, &(struct profile_function){.name = names[77]}), N(names));
	ck_assert_str_eq(profile_function_name(p, 77), again);
	profile_free(p);
}
END_TEST

START_TEST(test_comments_are_all_kept)
{
	struct profile *p = cpu_profile();
	for (int i = 0; i < 40; i++)
		ck_assert_int_eq(profile_comment(p, "lost 3"), 0);
	ck_assert_int_eq(profile_comments(p), 40);
	ck_assert_str_eq(profile_comment_get(p, 39), "lost 3");
	profile_free(p);
}
END_TEST

START_TEST(test_merge)
{
	struct profile *a = cpu_profile(), *b = cpu_profile(), *other;
	struct profile_info heap = {.n_types = 1, .types = (struct profile_type[]){{"inuse_space", "bytes"}}};
	struct err e = {0};
	uint32_t in_a[] = {frame(a, "leaf"), frame(a, "main")};
	frame(b, "shifts the ids");
	uint32_t in_b[] = {frame(b, "leaf"), frame(b, "main")};
	profile_sample(a, in_a, 2, (int64_t[]){1, 10}, NULL, 0);
	profile_sample(b, in_b, 2, (int64_t[]){2, 20}, NULL, 0);
	profile_comment(a, "same");
	profile_comment(b, "same");
	profile_comment(b, "new");
	ck_assert_int_eq(profile_merge_add(a, b, &e), 0);
	ck_assert_int_eq(profile_samples(a), 1);
	ck_assert_int_eq(profile_total(a, 1), 30);
	ck_assert_int_eq(profile_comments(a), 2);
	ck_assert_int_eq(profile_info(a)->duration_ns, 120);
	ck_assert_int_eq(profile_info(a)->time_ns, 1000);
	ck_assert_int_eq(profile_new(&heap, &other), 0);
	ck_assert_int_eq(profile_merge_add(a, other, &e), -EINVAL);
	ck_assert_str_eq(e.text, "its sample types differ from those of the files before it");
	profile_free(a);
	profile_free(b);
	profile_free(other);
}
END_TEST

/* inlined lines, a linkage name, what mappings have; a mapping and a function that nothing needs; labels */
static void fill(struct profile *p)
{
	profile_mapping(p, 0x1000, 0x2000, 0x1000, "/bin/unused", "", PROFILE_HAS_FILENAMES);
	profile_mapping(p, 0x4000, 0x5000, 0, "/bin/app", "beef", PROFILE_HAS_FUNCTIONS | PROFILE_HAS_INLINE_FRAMES);
	profile_function(p, &(struct profile_function){.name = "unused"});
	profile_function(p, &(struct profile_function){"a::b()", "_ZN1a1bEv", "a.cc", 7});
	profile_function(p, &(struct profile_function){.name = "main", .file = "a.cc"});
	profile_location(p, 1, 0x4010, (struct profile_line[]){{1, 8}, {2, 20}}, 2);
	profile_location(p, 1, 0x4010, (struct profile_line[]){{1, 9}, {2, 20}}, 2);
	profile_location(p, PROFILE_NONE, 0, (struct profile_line[]){{2, 0}}, 1);
	struct profile_label label = {.key = "pid", .num = 7};
	profile_sample(p, (uint32_t[]){0, 2}, 2, (int64_t[]){1, 10}, &label, 1);
	profile_sample(p, (uint32_t[]){1, 1, 2}, 3, (int64_t[]){2, 20}, NULL, 0);
}

START_TEST(test_merge_keeps_everything)
{
	struct profile *from = cpu_profile(), *to = cpu_profile(), *other = cpu_profile();
	struct profile_location l;
	struct err e = {0};
	fill(from);
	profile_extend(to, 0, -60); /* durations are summed */
	ck_assert_int_eq(profile_merge_add(to, from, &e), 0);
	char *a = profile_dump(from), *b = profile_dump(to);
	ck_assert_str_eq(a, b);
	uint32_t shifts = frame(other, "shifts the ids");
	profile_mapping(other, 0x4000, 0x5000, 0, "/bin/app", "beef", PROFILE_HAS_LINE_NUMBERS);
	profile_sample(other, &shifts, 1, (int64_t[]){1, 1}, NULL, 0);
	ck_assert_int_eq(profile_merge_add(other, from, &e), 0);
	struct profile_mapping m;
	profile_mapping_get(other, 0, &m);
	ck_assert_uint_eq(m.has, PROFILE_HAS_FUNCTIONS | PROFILE_HAS_INLINE_FRAMES | PROFILE_HAS_LINE_NUMBERS);
	profile_location_get(other, 2, &l);
	ck_assert_uint_eq(l.n, 2);
	ck_assert_uint_eq(l.lines[0].line, 9);
	ck_assert_str_eq(profile_function_name(other, l.lines[0].function), "a::b()");
	ck_assert_str_eq(profile_function_name(other, l.lines[1].function), "main");
	free(a);
	free(b);
	profile_free(from);
	profile_free(to);
	profile_free(other);
}
END_TEST

/* Location 1 and 2 get other lines; nothing is left of what they alone had. */
static int other_lines(void *arg, struct profile *to, uint32_t location, struct profile_line *ret, unsigned *ret_has)
{
	if (location == 0)
		return 0;
	if (arg)
		return -ENOMEM;
	ret[0] = (struct profile_line){(uint32_t)profile_function(to, &(struct profile_function){.name = "new"}), 5};
	*ret_has = PROFILE_HAS_LINE_NUMBERS;
	return 1;
}

START_TEST(test_copy_with_other_lines)
{
	struct profile *from = cpu_profile(), *to;
	struct profile_mapping m;
	struct profile_location l;
	struct err e = {0};
	fill(from);
	ck_assert_int_eq(profile_merge_copy(from, other_lines, NULL, &to, &e), 0);
	ck_assert_uint_eq(profile_samples(to), profile_samples(from));
	ck_assert_int_eq(profile_total(to, 1), profile_total(from, 1));
	ck_assert_int_eq(profile_info(to)->duration_ns, profile_info(from)->duration_ns);
	ck_assert_uint_eq(profile_functions(to), 3);
	ck_assert_int_eq(profile_string_find(to, "unused"), -ENOENT);
	profile_location_get(to, 0, &l);
	ck_assert_uint_eq(l.n, 2);
	ck_assert_str_eq(profile_function_name(to, l.lines[0].function), "a::b()");
	profile_location_get(to, 1, &l);
	ck_assert(l.n == 1 && l.lines[0].line == 5 && l.address == 0x4010 && l.mapping == 1);
	ck_assert_str_eq(profile_function_name(to, l.lines[0].function), "new");
	profile_location_get(to, 2, &l);
	ck_assert_uint_eq(l.mapping, PROFILE_NONE);
	profile_mapping_get(to, 0, &m);
	ck_assert_uint_eq(m.has, PROFILE_HAS_FILENAMES);
	profile_mapping_get(to, 1, &m);
	ck_assert_uint_eq(m.has, PROFILE_HAS_FUNCTIONS | PROFILE_HAS_INLINE_FRAMES | PROFILE_HAS_LINE_NUMBERS);
	profile_free(to);
	ck_assert_int_eq(profile_merge_copy(from, other_lines, &e, &to, &e), -ENOMEM);
	profile_free(from);
}
END_TEST

UNIT_SUITE(profile)
{
	Suite *s = suite_create("profile");
	TCase *t = tcase_create("profile");
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_same_id_for_the_same_thing);
	tcase_add_loop_test(t, test_functions, 0, N(function_rows));
	tcase_add_loop_test(t, test_locations, 0, N(location_rows));
	tcase_add_test(t, test_of_many_lines_the_innermost_and_the_last_stay);
	tcase_add_loop_test(t, test_samples_with_equal_stack_and_labels_are_summed, 0, N(label_rows));
	tcase_add_loop_test(t, test_text_is_utf8, 0, N(text_rows));
	tcase_add_test(t, test_location_without_function_is_named_by_offset);
	tcase_add_test(t, test_wrong_arguments);
	tcase_add_test(t, test_sums_saturate);
	tcase_add_loop_test(t, test_match_types, 0, N(match_rows));
	tcase_add_test(t, test_pointers_stay_when_tables_grow);
	tcase_add_test(t, test_each_of_many_mappings_keeps_what_it_has);
	tcase_add_test(t, test_each_of_many_long_texts_stays_its_own);
	tcase_add_test(t, test_comments_are_all_kept);
	tcase_add_test(t, test_merge);
	tcase_add_test(t, test_merge_keeps_everything);
	tcase_add_test(t, test_copy_with_other_lines);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* report --text and --json of a profile with many sample types: each value stands in its own column. */
#include "profiler/view/call_tree_text.h"

#include "profiler/view/profile_json.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define DEEP 600 /* functions: more than the tree has room for at first */

/* main calls f0, f1, ...; value t of fI is 1000 * t + I, and main has none of its own. */
static struct profile *build(unsigned n_types)
{
	static struct profile_type types[40];
	int64_t values[40];
	struct profile *p;
	char name[16];
	for (unsigned t = 0; t < n_types; t++)
		types[t] = (struct profile_type){t % 2 ? "wall" : "kind", t % 2 ? "milliseconds" : "count"};
	const struct profile_info info = {.n_types = n_types, .types = types};
	ck_assert_int_eq(profile_new(&info, &p), 0);
	const uint32_t root = (uint32_t)profile_named_location(p, PROFILE_NONE, 0, "main");
	for (unsigned i = 0; i < DEEP; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		const uint32_t leaf = (uint32_t)profile_named_location(p, PROFILE_NONE, 0, name);
		for (unsigned t = 0; t < n_types; t++)
			values[t] = 1000 * t + i;
		ck_assert_int_eq(profile_sample(p, (uint32_t[]){leaf, root}, 2, values, NULL, 0), 0);
	}
	return p;
}

static char *written(const struct profile *p, int fn(const struct profile *, FILE *))
{
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	ck_assert_int_eq(fn(p, f), 0);
	fclose(f);
	return text;
}

static const unsigned rows[] = {1, 2, 9, 40};

START_TEST(test_tree)
{
	const unsigned n = rows[_i];
	struct profile *p = build(n);
	char *text = written(p, call_tree_text_write), *line, *rest;
	ck_assert_ptr_nonnull(strtok_r(text, "\n", &rest));
	line = strtok_r(NULL, "\n", &rest);
	ck_assert_msg(strstr(line, "  main") != NULL, "%s", line);
	line = strtok_r(NULL, "\n", &rest); /* the largest: f599 */
	ck_assert_msg(strstr(line, "    f599") != NULL, "%s", line);
	for (unsigned t = 0; t < n; t++) {
		char *end;
		const double value = strtod(line, &end), whole = t % 2 ? (1000 * t + 599) / 1000. : 1000 * t + 599;
		ck_assert_msg(
			t % 2 ? value > whole - 0.01 && value < whole + 0.01 : value == whole, "type %u: %f", t, value);
		line = end + strcspn(end, " ");
		if (t % 2) { /* total and self */
			strtod(line, &end);
			line = end + strcspn(end, " ");
		}
	}
	free(text);
	profile_free(p);
}
END_TEST

START_TEST(test_json)
{
	const unsigned n = rows[_i];
	struct profile *p = build(n);
	char *text = written(p, profile_json_write), *f, *end;
	f = strstr(text, "{\"name\": \"f599\"");
	ck_assert_ptr_nonnull(f);
	f = strstr(f, "\"flat\": [") + strlen("\"flat\": [");
	for (unsigned t = 0; t < n; t++) {
		ck_assert_int_eq(strtoll(f, &end, 10), 1000 * t + 599);
		ck_assert_int_eq(*end, t + 1 < n ? ',' : ']');
		f = end + 1;
	}
	free(text);
	profile_free(p);
}
END_TEST

UNIT_SUITE(many_types)
{
	Suite *s = suite_create("many_types");
	TCase *t = tcase_create("many_types");
	tcase_add_loop_test(t, test_tree, 0, N(rows));
	tcase_add_loop_test(t, test_json, 0, N(rows));
	suite_add_tcase(s, t);
	return s;
}

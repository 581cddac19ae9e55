/* SPDX-License-Identifier: Apache-2.0 */
/* splice: what is added is there, and every other byte is as it was. */
#include "oci/base/json/json_edit.h"

#include "oci/base/json/json_parse.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))
#define PATHS                                                                                                          \
	{                                                                                                              \
		"hooks", "createRuntime", NULL                                                                         \
	}

static const struct {
	const char *scenario, *from, *to; /* to NULL: refused */
} appends[] = {
	{"nothing there", "{}", "{\n\t\"hooks\": {\"createRuntime\": [7]}}"},
	{"behind others", "{\"a\": 1 }", "{\"a\": 1,\n\t\"hooks\": {\"createRuntime\": [7]} }"},
	{"an object that is empty", "{\"hooks\": { } }", "{\"hooks\": {\n\t\t\"createRuntime\": [7] } }"},
	{"an object with another", "{\"hooks\":{\"poststop\":[]}}",
		"{\"hooks\":{\"poststop\":[],\n\t\t\"createRuntime\": [7]}}"},
	{"an empty array", "{\"hooks\":{\"createRuntime\":[ ]}}", "{\"hooks\":{\"createRuntime\":[7 ]}}"},
	{"an array of one", "{\"hooks\":{\"createRuntime\":[{\"path\":\"]\"}\n]}}",
		"{\"hooks\":{\"createRuntime\":[{\"path\":\"]\"},7\n]}}"},
	{"an array in an array", "{\"hooks\":{\"createRuntime\":[[]]}}", "{\"hooks\":{\"createRuntime\":[[],7]}}"},
	{"null", "{\"hooks\":null,\"z\":0}", "{\"hooks\":{\"createRuntime\": [7]},\"z\":0}"},
	{"null below", "{\"hooks\":{\"createRuntime\" : null}}", "{\"hooks\":{\"createRuntime\" : [7]}}"},
	{"numbers of any length, others' duplicates, escapes elsewhere",
		"{\"n\":123456789012345678901234567890.5e-400,\"n\":-0,\"x\":{\"\\u0061\":\"\\\"hooks\\\":\"},"
		"\"hooks\":{}}",
		"{\"n\":123456789012345678901234567890.5e-400,\"n\":-0,\"x\":{\"\\u0061\":\"\\\"hooks\\\":\"},"
		"\"hooks\":{\n\t\t"
		"\"createRuntime\": [7]}}"},
	{"twice", "{\"hooks\":{},\"hooks\":{}}", NULL},
	{"twice below", "{\"hooks\":{\"createRuntime\":[],\"createRuntime\":[]}}", NULL},
	{"with escapes", "{\"\\u0068ooks\":{}}", NULL},
	{"no object", "{\"hooks\":[]}", NULL},
	{"no array", "{\"hooks\":{\"createRuntime\":{}}}", NULL},
};

START_TEST(an_element_is_appended)
{
	static const char *const path[] = PATHS;
	struct json_edit s;
	struct err e = {0};
	ck_assert_int_eq(json_edit_open(&s, appends[_i].from, strlen(appends[_i].from), &e), 0);
	const int r = json_edit_append(&s, path, "7", &e);
	if (!appends[_i].to) {
		ck_assert_int_eq(r, -EINVAL);
		ck_assert_str_ne(e.text, "");
		ck_assert_str_eq(s.text, appends[_i].from);
	} else {
		ck_assert_int_eq(r, 0);
		ck_assert_str_eq(s.text, appends[_i].to);
		ck_assert_uint_eq(s.len, strlen(s.text));
		struct json *doc;
		ck_assert_int_eq(json_parse(s.text, s.len, &doc, &e), 0);
		json_free(doc);
	}
	json_edit_done(&s);
}
END_TEST

static const char *const wrong[] = {"", "[]", "7", "{", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":01}", "{\"a\":1.}",
	"{\"a\":+1}", "{\"a\":tru}", "{\"a\":\"\\x\"}", "{\"a\":\"\\u12g4\"}", "{\"a\":\"\n\"}", "{}x", "{} {}",
	"{\"a\":[1 2]}", "{a:1}", "{\"a\":[}", "{\"a\":\"", "{\"a\":-}", "{\"a\":1e}"};

START_TEST(what_is_no_json_is_not_touched)
{
	struct json_edit s;
	struct err e = {0};
	ck_assert_int_eq(json_edit_open(&s, wrong[_i], strlen(wrong[_i]), &e), -EINVAL);
	ck_assert_str_eq(e.text, "it is no JSON object");
}
END_TEST

START_TEST(depth_has_a_bound_and_a_nul_is_no_end)
{
	char deep[2 * JSON_EDIT_DEPTH + 64] = "{\"a\":";
	struct json_edit s;
	for (int i = 0; i < JSON_EDIT_DEPTH - 1; i++)
		strcat(deep, "[");
	for (int i = 0; i < JSON_EDIT_DEPTH - 1; i++)
		strcat(deep, "]");
	strcat(deep, "}");
	ck_assert_int_eq(json_edit_open(&s, deep, strlen(deep), NULL), 0);
	json_edit_done(&s);
	memmove(deep + 6, deep + 5, strlen(deep) - 4);
	deep[5] = '[';
	strcpy(deep + strlen(deep) - 1, "]}");
	ck_assert_int_eq(json_edit_open(&s, deep, strlen(deep), NULL), -EINVAL);
	ck_assert_int_eq(json_edit_open(&s, "{}\0{}", 5, NULL), -EINVAL);
}
END_TEST

START_TEST(a_value_is_got_and_set)
{
	static const char *const path[] = {"root", "path", NULL}, *const none[] = {"root", "x", NULL};
	const char from[] = " {\"root\" : {\"path\":\"rootfs\", \"readonly\":true}}\n";
	struct json_edit s;
	const char *value;
	size_t len;
	ck_assert_int_eq(json_edit_open(&s, from, sizeof(from) - 1, NULL), 0);
	ck_assert_int_eq(json_edit_get(&s, path, &value, &len, NULL), 0);
	ck_assert_uint_eq(len, 8);
	ck_assert_int_eq(memcmp(value, "\"rootfs\"", 8), 0);
	ck_assert_int_eq(json_edit_get(&s, none, &value, &len, NULL), -ENOENT);
	ck_assert_int_eq(json_edit_set(&s, path, "\"/b/rootfs\"", NULL), 0);
	ck_assert_str_eq(s.text, " {\"root\" : {\"path\":\"/b/rootfs\", \"readonly\":true}}\n");
	ck_assert_int_eq(json_edit_set(&s, none, "1", NULL), 0);
	ck_assert_str_eq(s.text, " {\"root\" : {\"path\":\"/b/rootfs\", \"readonly\":true,\n\t\t\"x\": 1}}\n");
	json_edit_done(&s);
}
END_TEST

/* What a member is in after it was added, and others around it since; and what is there when it was taken out. */
static const struct drop {
	const char *text, *without;
	int r;
} drops[] = {
	{"{\n\t\"r\": {\"p\": 1}\n}\n", "{\n}\n", 0},
	{"{\n\t\"r\": {\"p\": 1}, \"debug\": true}", "{ \"debug\": true}", 0},
	{"{\"debug\": true,\n\t\"r\": {\"p\": 1}}", "{\"debug\": true}", 0},
	{"{\"a\": 1,\n\t\"r\": {\"p\": 1}, \"b\": 2}", "{\"a\": 1, \"b\": 2}", 0},
	{"{\"r\": {\n\t\t\"p\": {\"x\": [1, {}]}, \"n\": 2}}", "{\"r\": { \"n\": 2}}", 0},
	{"{\"r\": {\"n\": 2,\"p\" : \"}\" }}", "{\"r\": {\"n\": 2 }}", 0},
	{"{\"r\":{\"m\":0,\"p\":1,\"n\":2}}", "{\"r\":{\"m\":0,\"n\":2}}", 0},
	{"{\"r\": {\"n\": 2}}", "{\"r\": {\"n\": 2}}", -ENOENT},
	{"{\"r\": {\"p\": null}}", "{\"r\": {\"p\": null}}", -ENOENT},
	{"{\"r\": {\"p\": 1, \"p\": 2}}", "{\"r\": {\"p\": 1, \"p\": 2}}", -EINVAL},
	{"{\"r\": [\"p\"]}", "{\"r\": [\"p\"]}", -EINVAL},
};

START_TEST(a_member_is_taken_out_with_its_comma)
{
	static const char *const path[] = {"r", "p", NULL};
	const struct drop *d = &drops[_i];
	struct json_edit s, again;
	struct err e = {0};
	ck_assert_int_eq(json_edit_open(&s, d->text, strlen(d->text), NULL), 0);
	ck_assert_int_eq(json_edit_drop(&s, path, &e), d->r);
	ck_assert_str_eq(s.text, d->without);
	ck_assert_uint_eq(s.len, strlen(d->without));
	ck_assert_int_eq(json_edit_open(&again, s.text, s.len, NULL), 0);
	json_edit_done(&again);
	json_edit_done(&s);
}
END_TEST

UNIT_SUITE(json_edit)
{
	Suite *s = suite_create("json_edit");
	TCase *t = tcase_create("json_edit");
	tcase_add_loop_test(t, an_element_is_appended, 0, N(appends));
	tcase_add_loop_test(t, what_is_no_json_is_not_touched, 0, N(wrong));
	tcase_add_test(t, depth_has_a_bound_and_a_nul_is_no_end);
	tcase_add_test(t, a_value_is_got_and_set);
	tcase_add_loop_test(t, a_member_is_taken_out_with_its_comma, 0, N(drops));
	suite_add_tcase(s, t);
	return s;
}

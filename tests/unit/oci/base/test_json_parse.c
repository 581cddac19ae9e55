/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/json/json_parse.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `text` ends where its memory ends: whoever reads on is seen by the sanitizer. */
static int parse(const char *text, size_t len, struct json **ret, struct err *e)
{
	char *own = malloc(len + !len);
	memcpy(own, text, len);
	int r = json_parse(own, len, ret, e);
	free(own);
	return r;
}

static struct json *parse_good(const char *text)
{
	struct json *doc = NULL;
	struct err e = {0};
	ck_assert_msg(parse(text, strlen(text), &doc, &e) == 0, "%s: %s", text, e.text);
	return doc;
}

static const struct {
	const char *scenario, *json, *want;
	size_t len;
} strings[] = {
	{"plain", "abc", "abc", 3},
	{"empty", "", "", 0},
	{"every short escape", "\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8},
	{"an escape before the end", "a\\\\", "a\\", 2},
	{"a letter that an escape has, without one", "bfnrt", "bfnrt", 5},
	{"UTF-8 as it is", "\xc3\xa4\xe2\x82\xac", "\xc3\xa4\xe2\x82\xac", 5},
	{"one byte by number", "\\u0041\\u007f", "A\x7f", 2},
	{"two bytes", "\\u00e4\\u07FF", "\xc3\xa4\xdf\xbf", 4},
	{"three bytes", "\\u20ac\\u0800", "\xe2\x82\xac\xe0\xa0\x80", 6},
	{"four bytes: a pair of surrogates", "\\ud83d\\ude00!", "\xf0\x9f\x98\x80!", 5},
	{"the last code point", "\\udbff\\udfff", "\xf4\x8f\xbf\xbf", 4},
	{"half a pair at the end", "\\ud83d", "\xef\xbf\xbd", 3},
	{"half a pair, then another letter", "\\ud83d\\u0041",
		"\xef\xbf\xbd"
		"A",
		4},
	{"half a pair, then another escape", "\\ud83d\\n", "\xef\xbf\xbd\n", 4},
	{"the second half alone", "\\ude00x", "\xef\xbf\xbdx", 4},
	{"a NUL byte", "a\\u0000b", "a\0b", 3},
};

START_TEST(strings_without_their_escapes)
{
	char text[128];
	size_t len = 99;
	snprintf(text, sizeof(text), "{\"k\":\"%s\"}", strings[_i].json);
	struct json *doc = parse_good(text);
	const char *got = json_text(json_member(doc, "k"), &len);
	ck_assert_ptr_nonnull(got);
	ck_assert_msg(len == strings[_i].len && !memcmp(got, strings[_i].want, len + 1), "%s: %zu bytes: %s",
		strings[_i].scenario, len, got);
	json_free(doc);
}
END_TEST

static const struct {
	const char *scenario, *json, *sentence;
} refused[] = {
	{"no value", "{\"a\"}", "byte 1"},
	{"no value behind the colon", "{\"a\":}", "byte 5"},
	{"no name", "{1}", "byte 1"},
	{"a number as a name", "{1:2}", "byte 2"},
	{"an object as a name", "{{}:2}", "byte 3"},
	{"two values", "{\"a\":\"b\" \"c\"}", "byte 9"},
	{"no comma between members", "{\"a\":{} \"b\":1}", "byte 8"},
	{"a name in an array", "{\"a\":[\"b\":1]}", "byte 9"},
	{"a colon behind a number", "{\"a\":1:2}", "byte 6"},
	{"no comma between values", "{\"a\":[1 2]}", "byte 8"},
	{"a comma too many", "{\"a\":[1,,2]}", "byte 8"},
	{"a comma in front", "{,\"a\":1}", "byte 1"},
	{"a comma behind", "{\"a\":1,}", "byte 7"},
	{"a comma behind the last value", "{\"a\":[1,]}", "byte 8"},
	{"a colon too many", "{\"a\"::1}", "byte 5"},
	{"a colon behind an object", "{\"a\":{}:\"x\":1}", "byte 7"},
	{"a chain of names", "{\"a\":\"b\":1}", "byte 5"},
	{"a colon in front", ":{}", "byte 0"},
	{"a string behind a number", "{\"a\":1\"b\"}", "byte 6"},
	{"another document", "{} {}", "byte 3"},
	{"a word behind it", "{} true ", "byte 3"},
	{"a bracket that does not fit", "{\"a\":[}", "byte 6"},
	{"a bracket too many", "{}}", "byte 2"},
	{"an unknown word", "{\"a\":nul}", "byte 5"},
	{"a word in capitals", "{\"a\":True}", "byte 5"},
	{"a zero in front", "{\"a\":012}", "byte 5"},
	{"a plus in front", "{\"a\":+1}", "byte 5"},
	{"a fraction without digits", "{\"a\":1.}", "byte 5"},
	{"an exponent without digits", "{\"a\":1e}", "byte 5"},
	{"a minus alone", "{\"a\":-}", "byte 5"},
	{"an unknown escape", "{\"a\":\"\\x\"}", "byte 5"},
	{"an escape of three digits", "{\"a\":\"\\u12g4\"}", "byte 5"},
	{"single quotes", "{'a':1}", "byte 4"},
	{"a comment", "{/**/}", "byte 1"},
	{"a string alone", "\"a\"", "not an object"},
	{"an array", "[{}]", "not an object"},
	{"open", "{\"a\":{}", "ends in the middle (after 7 bytes)"},
	{"an open string", "{\"a", "ends in the middle (after 3 bytes)"},
	{"an open escape", "{\"a\\", "ends in the middle (after 4 bytes)"},
};

START_TEST(what_is_no_json)
{
	struct json *doc = NULL;
	struct err e = {0};
	const char *text = refused[_i].json;
	ck_assert_msg(parse(text, strlen(text), &doc, &e) == -EINVAL, "%s: taken", refused[_i].scenario);
	ck_assert_ptr_null(doc);
	ck_assert_msg(strstr(e.text, refused[_i].sentence), "%s: %s", refused[_i].scenario, e.text);
}
END_TEST

START_TEST(a_nul_byte_hides_nothing)
{
	static const char text[] = "{\"a\":1}\0{";
	struct json *doc = NULL;
	struct err e = {0};
	ck_assert_int_eq(parse(text, sizeof(text) - 1, &doc, &e), -EINVAL);
	ck_assert_str_eq(e.text, "not JSON: unexpected character at byte 7");
}
END_TEST

static const struct {
	const char *json;
	int code;
	int64_t value;
} numbers[] = {
	{"0", 0, 0},
	{"-7", 0, -7},
	{"9223372036854775807", 0, INT64_MAX},
	{"9223372036854775808", 0, INT64_MAX},
	{"-99999999999999999999", 0, INT64_MIN},
	{"1.0", -EINVAL, 0},
	{"1e3", -EINVAL, 0},
	{"true", -EINVAL, 0},
	{"null", -EINVAL, 0},
	{"\"1\"", -EINVAL, 0},
	{"[1]", -EINVAL, 0},
};

START_TEST(whole_numbers)
{
	char text[64];
	int64_t value = 0;
	snprintf(text, sizeof(text), "{\"k\" : %s }", numbers[_i].json);
	struct json *doc = parse_good(text);
	ck_assert_msg(json_number(json_member(doc, "k"), &value) == numbers[_i].code, "%s", text);
	ck_assert_msg(value == numbers[_i].value, "%s: %lld", text, (long long)value);
	json_free(doc);
}
END_TEST

static int collect(void *arg, const char *key, const struct json *value)
{
	char *said = arg;
	size_t n = strlen(said);
	const char *text = json_text(value, NULL);
	snprintf(said + n, 64 - n, "%s=%s ", key, text ? text : value ? "?" : "null");
	return !strcmp(key, "last");
}

START_TEST(look_ups)
{
	struct json *doc =
		parse_good("{\"o\":{\"a\":\"1\",\"\\u0062\":null,\"a\":\"2\",\"c\":[],\"last\":{},\"d\":\"3\"},"
			   "\"l\":[\"x\",null,{\"y\":\"z\"},[4]],\"n\":null,\"t\":\"s\"}");
	const struct json *o = json_member(doc, "o"), *l = json_member(doc, "l");
	char said[64] = "";
	ck_assert_str_eq(json_text(json_member(o, "a"), NULL), "2");
	ck_assert_ptr_null(json_member(o, "b"));
	ck_assert_ptr_null(json_member(o, "x"));
	ck_assert_ptr_null(json_member(doc, "n"));
	ck_assert_ptr_null(json_member(l, "x"));
	ck_assert_ptr_null(json_member(NULL, "x"));
	ck_assert_str_eq(json_text(json_item(l, 0), NULL), "x");
	ck_assert_ptr_null(json_item(l, 1));
	ck_assert_str_eq(json_text(json_member(json_item(l, 2), "y"), NULL), "z");
	ck_assert_ptr_nonnull(json_item(l, 3));
	ck_assert_ptr_null(json_item(l, 4));
	ck_assert_ptr_null(json_item(o, 0));
	ck_assert_ptr_null(json_text(o, NULL));
	ck_assert(json_is_object(o) && !json_is_object(l) && !json_is_object(NULL));
	ck_assert_int_eq(json_each(o, collect, said), 1);
	ck_assert_str_eq(said, "a=1 b=null a=2 c=? last=? ");
	ck_assert_int_eq(json_each(l, collect, said), 0);
	ck_assert_ptr_null(json_free(doc));
	ck_assert_ptr_null(json_free(NULL));
}
END_TEST

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

UNIT_SUITE(json_parse)
{
	Suite *s = suite_create("json_parse");
	TCase *t = tcase_create("json_parse");
	tcase_add_loop_test(t, strings_without_their_escapes, 0, LENGTH(strings));
	tcase_add_loop_test(t, what_is_no_json, 0, LENGTH(refused));
	tcase_add_test(t, a_nul_byte_hides_nothing);
	tcase_add_loop_test(t, whole_numbers, 0, LENGTH(numbers));
	tcase_add_test(t, look_ups);
	suite_add_tcase(s, t);
	return s;
}

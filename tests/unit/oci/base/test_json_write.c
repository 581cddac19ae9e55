/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/json/json_write.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

/* One of everything. */
static struct jsonout *document(void)
{
	struct jsonout *doc = json_write_object(), *array = json_write_array(), *inner = json_write_object();
	json_write_add(doc, "no element", json_write_array());
	json_write_add(doc, "no member", json_write_object());
	json_write_add_null(doc, "null");
	json_write_add(doc, "a \"key\"\n", json_write_text("a/b \" \\ \b\f\n\r\t \x01\x1f\x7f \xc3\xa9"));
	json_write_add(inner, "true", json_write_bool(true));
	json_write_add(inner, "tenths", json_write_tenths(1.25));
	json_write_add(inner, "share", json_write_share(0.5));
	json_write_add(array, NULL, json_write_number(INT64_MIN));
	json_write_add(array, NULL, inner);
	json_write_add(array, NULL, json_write_array());
	json_write_add(array, NULL, json_write_bool(false));
	ck_assert_int_eq(json_write_add(doc, "array", array), 0);
	return doc;
}

static const struct {
	int (*write)(const struct jsonout *doc, FILE *out);
	const char *text;
} forms[] = {
	{json_write_out, "{\n"
			 "  \"no element\": [],\n"
			 "  \"no member\": {},\n"
			 "  \"null\": null,\n"
			 "  \"a \\\"key\\\"\\n\": \"a/b \\\" \\\\ \\b\\f\\n\\r\\t \\u0001\\u001f\x7f \xc3\xa9\",\n"
			 "  \"array\": [\n"
			 "    -9223372036854775808,\n"
			 "    {\n"
			 "      \"true\": true,\n"
			 "      \"tenths\": 1.2,\n"
			 "      \"share\": 0.500000\n"
			 "    },\n"
			 "    [],\n"
			 "    false\n"
			 "  ]\n"
			 "}\n"},
	{json_write_out_line,
		"{\"no element\":[],\"no member\":{},\"null\":null,"
		"\"a \\\"key\\\"\\n\":\"a/b \\\" \\\\ \\b\\f\\n\\r\\t \\u0001\\u001f\x7f \xc3\xa9\","
		"\"array\":[-9223372036854775808,{\"true\":true,\"tenths\":1.2,\"share\":0.500000},[],false]}\n"},
};

START_TEST(a_document_is_these_bytes)
{
	struct jsonout *doc = document();
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	ck_assert_int_eq(forms[_i].write(doc, out), 0);
	fclose(out);
	ck_assert_str_eq(text, forms[_i].text);
	free(text);
	json_write_free(doc);
}
END_TEST

START_TEST(what_is_not_written_is_an_error)
{
	struct jsonout *doc = document();
	FILE *full = fopen("/dev/full", "w");
	setvbuf(full, NULL, _IONBF, 0);
	ck_assert_int_eq(forms[_i].write(doc, full), -EIO);
	fclose(full);
	ck_assert_int_eq(forms[_i].write(NULL, stdout), -ENOMEM);
	json_write_free(doc);
}
END_TEST

UNIT_SUITE(json_write)
{
	Suite *s = suite_create("json_write");
	TCase *t = tcase_create("all");
	tcase_add_loop_test(t, a_document_is_these_bytes, 0, sizeof(forms) / sizeof(forms[0]));
	tcase_add_loop_test(t, what_is_not_written_is_an_error, 0, sizeof(forms) / sizeof(forms[0]));
	suite_add_tcase(s, t);
	return s;
}

#include "oci/base/json_write.h"

#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

/* One of everything. */
static struct jsonout *document(void)
{
	struct jsonout *doc = jsonout_object(), *array = jsonout_array(), *inner = jsonout_object();
	jsonout_add(doc, "no element", jsonout_array());
	jsonout_add(doc, "no member", jsonout_object());
	jsonout_add_null(doc, "null");
	jsonout_add(doc, "a \"key\"\n", jsonout_text("a/b \" \\ \b\f\n\r\t \x01\x1f\x7f \xc3\xa9"));
	jsonout_add(inner, "true", jsonout_bool(true));
	jsonout_add(inner, "tenths", jsonout_tenths(1.25));
	jsonout_add(inner, "share", jsonout_share(0.5));
	jsonout_add(array, NULL, jsonout_number(INT64_MIN));
	jsonout_add(array, NULL, inner);
	jsonout_add(array, NULL, jsonout_array());
	jsonout_add(array, NULL, jsonout_bool(false));
	ck_assert_int_eq(jsonout_add(doc, "array", array), 0);
	return doc;
}

static const struct {
	int (*write)(const struct jsonout *doc, FILE *out);
	const char *text;
} forms[] = {
	{jsonout_write, "{\n"
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
	{jsonout_write_line,
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
	jsonout_free(doc);
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
	jsonout_free(doc);
}
END_TEST

UNIT_SUITE(jsonout)
{
	Suite *s = suite_create("jsonout");
	TCase *t = tcase_create("all");
	tcase_add_loop_test(t, a_document_is_these_bytes, 0, sizeof(forms) / sizeof(forms[0]));
	tcase_add_loop_test(t, what_is_not_written_is_an_error, 0, sizeof(forms) / sizeof(forms[0]));
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/json/json_write.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>

/* json-c's type is the document; the casts below are the only place that knows. */
static struct json_object *object_of(const struct jsonout *v)
{
	return (struct json_object *)v;
}

struct jsonout *json_write_free(struct jsonout *doc)
{
	json_object_put(object_of(doc));
	return NULL;
}

struct jsonout *json_write_object(void)
{
	return (struct jsonout *)json_object_new_object();
}

struct jsonout *json_write_array(void)
{
	return (struct jsonout *)json_object_new_array();
}

struct jsonout *json_write_text(const char *text)
{
	return (struct jsonout *)json_object_new_string(text);
}

struct jsonout *json_write_number(int64_t value)
{
	return (struct jsonout *)json_object_new_int64(value);
}

static struct jsonout *create_decimal(double value, int n)
{
	char text[64];
	snprintf(text, sizeof(text), "%.*f", n, value);
	return (struct jsonout *)json_object_new_double_s(value, text);
}

struct jsonout *json_write_tenths(double value)
{
	return create_decimal(value, 1);
}

struct jsonout *json_write_share(double value)
{
	return create_decimal(value, 6);
}

struct jsonout *json_write_bool(bool value)
{
	return (struct jsonout *)json_object_new_boolean(value);
}

int json_write_add(struct jsonout *to, const char *key, struct jsonout *value)
{
	int r = -1;
	if (to && value)
		r = key ? json_object_object_add(object_of(to), key, object_of(value))
			: json_object_array_add(object_of(to), object_of(value));
	if (r < 0)
		json_write_free(value);
	return r < 0 ? -ENOMEM : 0;
}

int json_write_add_null(struct jsonout *object, const char *key)
{
	return object && json_object_object_add(object_of(object), key, NULL) == 0 ? 0 : -ENOMEM;
}

/*
 * We write the text ourselves: json-c's differs from version to version, in empty values and in spaces. Members and
 * elements are on lines of their own, except with ONE_LINE; empty values are [] or {}.
 */
static void write_string(const char *text, FILE *out)
{
	static const char *const short_escapes[0x60] = {['\b'] = "\\b",
		['\t'] = "\\t",
		['\n'] = "\\n",
		['\f'] = "\\f",
		['\r'] = "\\r",
		['"'] = "\\\"",
		['\\'] = "\\\\"};
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		if (c < 0x60 && short_escapes[c])
			fputs(short_escapes[c], out);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

#define ONE_LINE (-1) /* as depth */

static void begin_line(int depth, FILE *out)
{
	if (depth != ONE_LINE)
		fprintf(out, "\n%*s", 2 * depth, "");
}

static int increase_depth(int depth)
{
	return depth == ONE_LINE ? ONE_LINE : depth + 1;
}

static void write_value(struct json_object *value, int depth, FILE *out);

static void write_object(struct json_object *object, int depth, FILE *out)
{
	const char *before = "";
	fputc('{', out);
	json_object_object_foreach(object, key, member)
	{
		fputs(before, out);
		begin_line(increase_depth(depth), out);
		write_string(key, out);
		fputs(depth == ONE_LINE ? ":" : ": ", out);
		write_value(member, increase_depth(depth), out);
		before = ",";
	}
	if (*before)
		begin_line(depth, out);
	fputc('}', out);
}

static void write_array(struct json_object *array, int depth, FILE *out)
{
	size_t n = json_object_array_length(array);
	fputc('[', out);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		begin_line(increase_depth(depth), out);
		write_value(json_object_array_get_idx(array, i), increase_depth(depth), out);
	}
	if (n)
		begin_line(depth, out);
	fputc(']', out);
}

static void write_value(struct json_object *value, int depth, FILE *out)
{
	switch (json_object_get_type(value)) {
	case json_type_object:
		write_object(value, depth, out);
		break;
	case json_type_array:
		write_array(value, depth, out);
		break;
	case json_type_string:
		write_string(json_object_get_string(value), out);
		break;
	case json_type_int:
		fprintf(out, "%" PRId64, json_object_get_int64(value));
		break;
	case json_type_boolean:
		fputs(json_object_get_boolean(value) ? "true" : "false", out);
		break;
	case json_type_double:
		fputs(json_object_get_userdata(value), out); /* create_decimal()'s text */
		break;
	case json_type_null:
		fputs("null", out);
		break;
	}
}

static int write_line(const struct jsonout *doc, int depth, FILE *out)
{
	if (!doc)
		return -ENOMEM;
	write_value(object_of(doc), depth, out);
	fputc('\n', out);
	return ferror(out) ? -EIO : 0;
}

int json_write_out(const struct jsonout *doc, FILE *out)
{
	return write_line(doc, 0, out);
}

int json_write_out_line(const struct jsonout *doc, FILE *out)
{
	return write_line(doc, ONE_LINE, out);
}

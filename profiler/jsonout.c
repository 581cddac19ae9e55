#include "profiler/jsonout.h"

#include <errno.h>
#include <json-c/json.h>

/* json-c's type is the document; the casts below are the only place that knows. */
static struct json_object *object_of(const struct jsonout *v)
{
	return (struct json_object *)v;
}

struct jsonout *jsonout_free(struct jsonout *doc)
{
	json_object_put(object_of(doc));
	return NULL;
}

struct jsonout *jsonout_object(void)
{
	return (struct jsonout *)json_object_new_object();
}

struct jsonout *jsonout_array(void)
{
	return (struct jsonout *)json_object_new_array();
}

struct jsonout *jsonout_text(const char *text)
{
	return (struct jsonout *)json_object_new_string(text);
}

struct jsonout *jsonout_number(int64_t value)
{
	return (struct jsonout *)json_object_new_int64(value);
}

static struct jsonout *decimals(double value, int n)
{
	char text[64];
	snprintf(text, sizeof(text), "%.*f", n, value);
	return (struct jsonout *)json_object_new_double_s(value, text);
}

struct jsonout *jsonout_tenths(double value)
{
	return decimals(value, 1);
}

struct jsonout *jsonout_share(double value)
{
	return decimals(value, 6);
}

struct jsonout *jsonout_bool(bool value)
{
	return (struct jsonout *)json_object_new_boolean(value);
}

int jsonout_add(struct jsonout *to, const char *key, struct jsonout *value)
{
	int r = -1;
	if (to && value)
		r = key ? json_object_object_add(object_of(to), key, object_of(value))
			: json_object_array_add(object_of(to), object_of(value));
	if (r < 0)
		jsonout_free(value);
	return r < 0 ? -ENOMEM : 0;
}

int jsonout_add_null(struct jsonout *object, const char *key)
{
	return object && json_object_object_add(object_of(object), key, NULL) == 0 ? 0 : -ENOMEM;
}

static int write_as(const struct jsonout *doc, int how, FILE *out)
{
	const char *text = doc ? json_object_to_json_string_ext(object_of(doc), how) : NULL;
	return !text ? -ENOMEM : fputs(text, out) < 0 || fputc('\n', out) < 0 ? -EIO : 0;
}

int jsonout_write(const struct jsonout *doc, FILE *out)
{
	int how = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
	return write_as(doc, how, out);
}

int jsonout_write_line(const struct jsonout *doc, FILE *out)
{
	return write_as(doc, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, out);
}

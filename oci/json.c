#include "oci/json.h"

#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <string.h>

/* json-c's type is the document; the casts below are the only place that knows. */
static struct json_object *object_of(const struct json *v)
{
	return (struct json_object *)v;
}

static const struct json *value_of(const struct json_object *o)
{
	return (const struct json *)o;
}

/* Values are set apart by one of , : [ { outside of strings; counted before a byte is spent on them. */
static size_t count_values(const char *text, size_t len)
{
	size_t n = 1;
	bool quoted = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];
		if (quoted && c == '\\')
			i++;
		else if (c == '"')
			quoted = !quoted;
		else if (!quoted)
			n += c == ',' || c == ':' || c == '[' || c == '{';
	}
	return n;
}

static int explain(enum json_tokener_error code, size_t at, struct err *e)
{
	switch (code) {
	case json_tokener_continue:
		return err_say(e, -EINVAL, "JSON ends in the middle (after %zu bytes)", at);
	case json_tokener_error_depth:
		return err_say(e, -EINVAL, "JSON is nested deeper than %d", JSON_DEPTH);
	default:
		return err_say(e, -EINVAL, "not JSON: %s at byte %zu", json_tokener_error_desc(code), at);
	}
}

static int check_document(struct json_object *doc, enum json_tokener_error code, size_t at, struct err *e)
{
	if (code != json_tokener_success)
		return explain(code, at, e);
	/* json-c 0.16 says "success" without a value for the text `null` and when malloc failed: both mean no document
	 */
	if (!json_object_is_type(doc, json_type_object))
		return err_say(e, -EINVAL, "JSON is not an object");
	return 0;
}

int json_parse(const char *text, size_t len, struct json **ret, struct err *e)
{
	if (len == 0)
		return err_say(e, -EINVAL, "empty");
	/* a value takes two bytes at least, so an ordinary document is not even counted */
	if (len > INT_MAX || (len / 2 >= JSON_VALUES && count_values(text, len) > JSON_VALUES))
		return err_say(e, -EINVAL, "JSON has more than %u values", JSON_VALUES);

	/* json-c counts what is inside the innermost level as one more */
	struct json_tokener *tok = json_tokener_new_ex(JSON_DEPTH + 1);
	if (!tok)
		return err_set(e, -ENOMEM, "JSON");
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT);
	struct json_object *doc = json_tokener_parse_ex(tok, text, (int)len);
	int r = check_document(doc, json_tokener_get_error(tok), json_tokener_get_parse_end(tok), e);
	json_tokener_free(tok);
	if (r < 0) {
		json_object_put(doc);
		return r;
	}
	*ret = (struct json *)doc;
	return 0;
}

/* --- skimming: each function returns where it stopped, `len` when that is nowhere */

static size_t skip_space(const char *text, size_t len, size_t at)
{
	while (at < len && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r'))
		at++;
	return at;
}

static size_t skip_string(const char *text, size_t len, size_t at)
{
	for (at++; at < len; at++)
		if (text[at] == '\\')
			at++;
		else if (text[at] == '"')
			return at + 1;
	return len;
}

/* At the comma or bracket behind a member's value. */
static size_t skip_value(const char *text, size_t len, size_t at)
{
	size_t depth = 0;

	while (at < len) {
		char c = text[at];
		bool closes = c == ']' || c == '}';
		if (!depth && (closes || c == ','))
			return at;
		depth = depth + (c == '[' || c == '{') - closes;
		at = c == '"' ? skip_string(text, len, at) : at + 1;
	}
	return len;
}

/* An escape may spell any name. */
static bool is_kept(const char *const keep[], const char *key, size_t len)
{
	for (; *keep; keep++)
		if (strlen(*keep) == len && !memcmp(*keep, key, len))
			return true;
	return memchr(key, '\\', len) != NULL;
}

void json_skim(char *text, size_t len, const char *const keep[])
{
	size_t at = skip_space(text, len, 0);

	while (at < len && (text[at] == '{' || text[at] == ',')) {
		size_t key = skip_space(text, len, at + 1);
		if (key >= len || text[key] != '"')
			return;
		size_t end = skip_string(text, len, key), colon = skip_space(text, len, end);
		if (colon >= len || text[colon] != ':')
			return;
		size_t value = skip_space(text, len, colon + 1);
		at = skip_value(text, len, value);
		if (at >= len)
			return; /* the parser says what is wrong */
		if ((text[value] == '{' || text[value] == '[') && !is_kept(keep, text + key + 1, end - key - 2)) {
			memset(text + value, ' ', at - value);
			text[value] = '0';
		}
	}
}

struct json *json_free(struct json *doc)
{
	json_object_put(object_of(doc));
	return NULL;
}

const struct json *json_member(const struct json *object, const char *key)
{
	struct json_object *found = NULL;

	if (!json_is_object(object))
		return NULL;
	json_object_object_get_ex(object_of(object), key, &found);
	return value_of(found);
}

const struct json *json_item(const struct json *array, size_t i)
{
	if (!json_object_is_type(object_of(array), json_type_array))
		return NULL;
	return value_of(json_object_array_get_idx(object_of(array), i));
}

bool json_is_object(const struct json *v)
{
	return json_object_is_type(object_of(v), json_type_object);
}

const char *json_text(const struct json *v, size_t *ret_len)
{
	if (!json_object_is_type(object_of(v), json_type_string))
		return NULL;
	if (ret_len)
		*ret_len = (size_t)json_object_get_string_len(object_of(v));
	return json_object_get_string(object_of(v));
}

int json_number(const struct json *v, int64_t *ret)
{
	if (!json_object_is_type(object_of(v), json_type_int))
		return -EINVAL;
	*ret = json_object_get_int64(object_of(v));
	return 0;
}

int json_each(const struct json *object, json_fn *fn, void *arg)
{
	if (!json_is_object(object))
		return 0;
	json_object_object_foreach(object_of(object), key, value)
	{
		int r = fn(arg, key, value_of(value));
		if (r)
			return r;
	}
	return 0;
}

/* --- writing */

struct json *json_new_object(void)
{
	return (struct json *)json_object_new_object();
}

struct json *json_new_array(void)
{
	return (struct json *)json_object_new_array();
}

struct json *json_new_text(const char *text)
{
	return (struct json *)json_object_new_string(text);
}

struct json *json_new_number(int64_t value)
{
	return (struct json *)json_object_new_int64(value);
}

struct json *json_new_tenths(double value)
{
	char text[64];
	snprintf(text, sizeof(text), "%.1f", value);
	return (struct json *)json_object_new_double_s(value, text);
}

struct json *json_new_bool(bool value)
{
	return (struct json *)json_object_new_boolean(value);
}

int json_add(struct json *to, const char *key, struct json *value)
{
	int r = -1;
	if (to && value)
		r = key ? json_object_object_add(object_of(to), key, object_of(value))
			: json_object_array_add(object_of(to), object_of(value));
	if (r < 0)
		json_free(value);
	return r < 0 ? -ENOMEM : 0;
}

int json_add_null(struct json *object, const char *key)
{
	return object && json_object_object_add(object_of(object), key, NULL) == 0 ? 0 : -ENOMEM;
}

static int write_as(const struct json *doc, int how, FILE *out)
{
	const char *text = doc ? json_object_to_json_string_ext(object_of(doc), how) : NULL;
	return !text ? -ENOMEM : fputs(text, out) < 0 || fputc('\n', out) < 0 ? -EIO : 0;
}

int json_write(const struct json *doc, FILE *out)
{
	int how = JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE;
	return write_as(doc, how, out);
}

int json_write_line(const struct json *doc, FILE *out)
{
	return write_as(doc, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE, out);
}

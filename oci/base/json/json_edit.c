/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/json/json_edit.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Where a value is, or where it would be. */
struct place {
	size_t at, end; /* the value's bytes; absent: both are the place for a new member, after the last one */
	size_t key;	/* where its member begins; absent: unused */
	unsigned depth; /* keys of the path that were found */
	bool first;	/* absent: the object has no member yet */
	bool is_null;	/* the missing rest of the path replaces it */
};

/* --- the grammar: each takes a position and returns the one after, 0 if it is no JSON ----------------------------- */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(const char *t, size_t at)
{
	while (is_space(t[at]))
		at++;
	return at;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static size_t skip_string(const char *t, size_t at)
{
	if (t[at] != '"')
		return 0;
	for (at++; t[at] != '"'; at++) {
		if ((unsigned char)t[at] < ' ') /* the NUL after the text, too */
			return 0;
		if (t[at] != '\\')
			continue;
		at++;
		if (t[at] == 'u') {
			for (unsigned i = 1; i <= 4; i++)
				if (!is_hex(t[at + i]))
					return 0;
			at += 4;
		} else if (!t[at] || !strchr("\"\\/bfnrt", t[at])) {
			return 0;
		}
	}
	return at + 1;
}

static size_t skip_digits(const char *t, size_t at)
{
	const size_t from = at;
	while (t[at] >= '0' && t[at] <= '9')
		at++;
	return at > from ? at : 0;
}

static size_t skip_number(const char *t, size_t at)
{
	at += t[at] == '-';
	const bool zero = t[at] == '0';
	size_t end = skip_digits(t, at);
	if (!end || (zero && end > at + 1))
		return 0;
	if (t[end] == '.' && !(end = skip_digits(t, end + 1)))
		return 0;
	if (t[end] == 'e' || t[end] == 'E') {
		end++;
		end += t[end] == '+' || t[end] == '-';
		end = skip_digits(t, end);
	}
	return end;
}

static size_t skip_word(const char *t, size_t at, const char *word)
{
	return strncmp(t + at, word, strlen(word)) == 0 ? at + strlen(word) : 0;
}

static size_t skip_value(const char *t, size_t at, unsigned depth);

/* Skips `"key":` up to the value. */
static size_t skip_key(const char *t, size_t at)
{
	size_t end = skip_string(t, at);
	if (!end)
		return 0;
	end = skip_space(t, end);
	return t[end] == ':' ? skip_space(t, end + 1) : 0;
}

/* Skips an object or array, from after its opening bracket. */
static size_t skip_members(const char *t, size_t at, char close, unsigned depth)
{
	at = skip_space(t, at);
	if (t[at] == close)
		return at + 1;
	for (;; at = skip_space(t, at + 1)) {
		if (close == '}' && !(at = skip_key(t, at)))
			return 0;
		if (!(at = skip_value(t, at, depth)))
			return 0;
		at = skip_space(t, at);
		if (t[at] == close)
			return at + 1;
		if (t[at] != ',')
			return 0;
	}
}

static size_t skip_value(const char *t, size_t at, unsigned depth)
{
	switch (t[at]) {
	case '{':
		return depth < JSON_EDIT_DEPTH ? skip_members(t, at + 1, '}', depth + 1) : 0;
	case '[':
		return depth < JSON_EDIT_DEPTH ? skip_members(t, at + 1, ']', depth + 1) : 0;
	case '"':
		return skip_string(t, at);
	case 't':
		return skip_word(t, at, "true");
	case 'f':
		return skip_word(t, at, "false");
	case 'n':
		return skip_word(t, at, "null");
	default:
		return skip_number(t, at);
	}
}

int json_edit_open(struct json_edit *s, const char *text, size_t len, struct err *e)
{
	*s = (struct json_edit){.text = malloc(len + 1), .len = len};
	if (!s->text)
		return err_set(e, -ENOMEM, "no memory");
	memcpy(s->text, text, len);
	s->text[len] = 0;
	const size_t at = skip_space(s->text, 0), end = s->text[at] == '{' ? skip_value(s->text, at, 0) : 0;
	if (end && skip_space(s->text, end) == len)
		return 0;
	json_edit_done(s);
	return err_say(e, -EINVAL, "it is no JSON object");
}

void json_edit_done(struct json_edit *s)
{
	free(s->text);
	*s = (struct json_edit){0};
}

/* --- a place, in a text that is known to be JSON ---------------------------------------------------------------- */

static bool is_key(const char *t, size_t at, size_t end, const char *key)
{
	return end - at == strlen(key) + 2 && !memcmp(t + at + 1, key, strlen(key));
}

/* Finds the member `key` of the object with its bracket at `at`. */
static int find_member(const char *t, size_t at, const char *key, struct place *ret, struct err *e)
{
	bool found = false;
	size_t behind = at + 1;
	ret->first = true;
	for (at = skip_space(t, at + 1); t[at] != '}'; at = skip_space(t, at)) {
		const size_t key_end = skip_string(t, at), value = skip_key(t, at), end = skip_value(t, value, 0);
		if (memchr(t + at, '\\', key_end - at))
			return err_say(e, -EINVAL, "a key beside '%s' is written with escapes", key);
		if (is_key(t, at, key_end, key)) {
			if (found)
				return err_say(e, -EINVAL, "'%s' stands there twice", key);
			found = true;
			ret->key = at;
			ret->at = value;
			ret->end = end;
		}
		ret->first = false;
		behind = end;
		at = skip_space(t, end);
		at += t[at] == ',';
	}
	if (!found)
		ret->at = ret->end = behind;
	return found ? 0 : -ENOENT;
}

static int find_path(const struct json_edit *s, const char *const path[], struct place *ret, struct err *e)
{
	*ret = (struct place){.at = skip_space(s->text, 0)};
	for (; path[ret->depth]; ret->depth++) {
		if (s->text[ret->at] != '{')
			return err_say(e, -EINVAL, "'%s' is no object", ret->depth ? path[ret->depth - 1] : "it");
		int r = find_member(s->text, ret->at, path[ret->depth], ret, e);
		if (r < 0)
			return r;
		if (s->text[ret->at] == 'n') {
			ret->is_null = true;
			ret->depth++;
			return -ENOENT;
		}
	}
	return 0;
}

int json_edit_get(const struct json_edit *s, const char *const path[], const char **ret, size_t *ret_len, struct err *e)
{
	struct place p;
	int r = find_path(s, path, &p, e);
	if (r == 0) {
		*ret = s->text + p.at;
		*ret_len = p.end - p.at;
	}
	return r;
}

/* --- changes ---------------------------------------------------------------------------------------------------- */

static int replace_text(struct json_edit *s, size_t at, size_t end, const char *with, struct err *e)
{
	const size_t n = strlen(with), len = s->len - (end - at) + n;
	char *text = malloc(len + 1);
	if (!text)
		return err_set(e, -ENOMEM, "no memory");
	memcpy(text, s->text, at);
	memcpy(text + at, with, n);
	memcpy(text + at + n, s->text + end, s->len - end + 1);
	free(s->text);
	s->text = text;
	s->len = len;
	return 0;
}

/*
 * Returns the missing rest of the path: `{"b": {"c": json}}`; inside an object without the outer braces, and on a line
 * of its own, because people read it.
 */
static char *format_missing_path(const struct place *p, const char *const path[], const char *json)
{
	unsigned keys = 0;
	size_t size = strlen(json) + JSON_EDIT_PATH + 4;
	for (; path[p->depth + keys]; keys++)
		size += strlen(path[p->depth + keys]) + 6;
	char *text = malloc(size), *to = text;
	if (!text)
		return NULL;
	if (!p->is_null) {
		to = stpcpy(to, p->first ? "\n" : ",\n");
		for (unsigned i = 0; i <= p->depth; i++)
			*to++ = '\t';
	}
	for (unsigned i = 0; i < keys; i++) {
		if (i || p->is_null)
			*to++ = '{';
		*to++ = '"';
		to = stpcpy(to, path[p->depth + i]);
		to = stpcpy(to, "\": ");
	}
	to = stpcpy(to, json);
	for (unsigned i = p->is_null ? 0 : 1; i < keys; i++)
		*to++ = '}';
	*to = 0;
	return text;
}

static int add_missing(
	struct json_edit *s, const struct place *p, const char *const path[], const char *json, struct err *e)
{
	char *text = format_missing_path(p, path, json);
	int r = text ? replace_text(s, p->at, p->end, text, e) : err_set(e, -ENOMEM, "no memory");
	free(text);
	return r;
}

int json_edit_set(struct json_edit *s, const char *const path[], const char *json, struct err *e)
{
	struct place p;
	int r = find_path(s, path, &p, e);
	return r == -ENOENT ? add_missing(s, &p, path, json, e) : r < 0 ? r : replace_text(s, p.at, p.end, json, e);
}

/* Appends to an existing array: before its closing bracket, after its last element if there is one. */
static int append_to(struct json_edit *s, const struct place *p, const char *json, struct err *e)
{
	size_t last = p->end - 1; /* the bracket */
	while (is_space(s->text[last - 1]))
		last--;
	const bool none = s->text[last - 1] == '[' && last - 1 == p->at;
	char *text = malloc(strlen(json) + 2);
	if (!text)
		return err_set(e, -ENOMEM, "no memory");
	stpcpy(stpcpy(text, none ? "" : ","), json);
	int r = replace_text(s, last, last, text, e);
	free(text);
	return r;
}

int json_edit_append(struct json_edit *s, const char *const path[], const char *json, struct err *e)
{
	struct place p;
	int r = find_path(s, path, &p, e);
	if (r == 0 && s->text[p.at] != '[')
		return err_say(e, -EINVAL, "'%s' is no array", path[p.depth - 1]);
	if (r == 0)
		return append_to(s, &p, json, e);
	if (r != -ENOENT)
		return r;
	char *array = malloc(strlen(json) + 3);
	if (!array)
		return err_set(e, -ENOMEM, "no memory");
	stpcpy(stpcpy(stpcpy(array, "["), json), "]");
	r = add_missing(s, &p, path, array, e);
	free(array);
	return r;
}

/* Cuts the member from its key at `key` to its value's end at `end` out of its object. */
static int cut_member(struct json_edit *s, size_t key, size_t end, struct err *e)
{
	while (is_space(s->text[key - 1]))
		key--;
	const size_t next = skip_space(s->text, end);
	if (s->text[key - 1] == ',')
		key--;
	else if (s->text[next] == ',') /* it was the first of several */
		end = next + 1;
	return replace_text(s, key, end, "", e);
}

static bool is_empty_object(const char *t, size_t at)
{
	return t[at] == '{' && t[skip_space(t, at + 1)] == '}';
}

int json_edit_drop(struct json_edit *s, const char *const path[], struct err *e)
{
	const char *way[JSON_EDIT_PATH + 1] = {0};
	struct place p;
	unsigned n = 0;
	for (; path[n] && n < JSON_EDIT_PATH; n++)
		way[n] = path[n];
	int r = find_path(s, way, &p, e);
	while (r == 0 && n) {
		r = cut_member(s, p.key, p.end, e);
		way[--n] = NULL;
		if (r < 0 || !n)
			break;
		r = find_path(s, way, &p, e);
		if (r == 0 && !is_empty_object(s->text, p.at))
			break;
	}
	return r;
}

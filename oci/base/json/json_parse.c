/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/json/json_parse.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

enum kind { OBJECT = JSMN_OBJECT, ARRAY = JSMN_ARRAY, STRING = JSMN_STRING, PRIMITIVE = JSMN_PRIMITIVE };

/* One of jsmn's tokens; a document's tokens lie in a row, and its text follows the last. */
struct json {
	enum kind kind;
	const char *key;  /* of a member */
	const char *text; /* of a string or primitive: without its escapes, NUL-terminated */
	size_t len;
	struct json *first, *last; /* child */
	struct json *next;	   /* sibling */
};

/* --- strings ------------------------------------------------------------------------------------------------ */

static char *put_utf8(char *to, uint32_t c)
{
	static const uint8_t lead[] = {0x00, 0xc0, 0xe0, 0xf0};
	unsigned more = (c > 0x7f) + (c > 0x7ff) + (c > 0xffff);
	*to++ = (char)(lead[more] | c >> 6 * more);
	while (more-- > 0)
		*to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
	return to;
}

static uint32_t parse_hex4(const char *s)
{
	char digits[5] = {s[0], s[1], s[2], s[3]};
	return (uint32_t)strtoul(digits, NULL, 16);
}

/* Takes the digits after "\u". Half of a surrogate pair alone becomes U+FFFD, as RFC 8259, section 8.2, allows. */
static const char *take_u(const char *from, const char *end, char **to)
{
	uint32_t c = parse_hex4(from);
	from += 4;
	bool high = c >= 0xd800 && c < 0xdc00, pair = high && end - from >= 6 && from[0] == '\\' && from[1] == 'u';
	uint32_t low = pair ? parse_hex4(from + 2) : 0;
	if (low >= 0xdc00 && low < 0xe000) {
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
		from += 6;
	} else if (c >= 0xd800 && c < 0xe000) {
		c = 0xfffd;
	}
	*to = put_utf8(*to, c);
	return from;
}

/* In place: no escape is shorter than its character. jsmn has checked each. */
static size_t unescape_string(char *text, const char *end)
{
	static const char escapes[] = "b\bf\fn\nr\rt\t";
	const char *from = text;
	char *to = text;
	while (from < end) {
		char c = *from++;
		if (c == '\\' && from < end) {
			c = *from++;
			if (c == 'u' && end - from >= 4) {
				from = take_u(from, end, &to);
				continue;
			}
			const char *escape = strchr(escapes, c);
			c = escape ? escape[1] : c;
		}
		*to++ = c;
	}
	*to = 0;
	return (size_t)(to - text);
}

/* --- primitives --------------------------------------------------------------------------------------------- */

static const char *skip_digits(const char *s)
{
	return s + strspn(s, "0123456789");
}

/* RFC 8259, section 6 */
static bool is_number(const char *s)
{
	s += *s == '-';
	const char *end = skip_digits(s);
	if (end == s || (*s == '0' && end > s + 1))
		return false;
	if (*end == '.') {
		s = end + 1;
		end = skip_digits(s);
		if (end == s)
			return false;
	}
	if (*end == 'e' || *end == 'E') {
		s = end + 1;
		s += *s == '+' || *s == '-';
		end = skip_digits(s);
	}
	return end > s && !*end;
}

static bool is_primitive(const char *s)
{
	return is_number(s) || !strcmp(s, "null") || !strcmp(s, "true") || !strcmp(s, "false");
}

/* --- structure ---------------------------------------------------------------------------------------------- */

/* Returns the position after a string; `len`: it has no end. */
static size_t skip_string(const char *text, size_t len, size_t at)
{
	for (at++; at < len; at++)
		if (text[at] == '\\')
			at++;
		else if (text[at] == '"')
			return at + 1;
	return len;
}

static int set_syntax_error(size_t at, struct err *e)
{
	return err_say(e, -EINVAL, "not JSON: unexpected character at byte %zu", at);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Does a value or name end with the last character: '"', a bracket, or '0' for any primitive? */
static bool is_end(char last)
{
	return last == '"' || last == '}' || last == ']' || last == '0';
}

/*
 * Checks brackets, commas and colons, of which jsmn accepts nearly any order. At a closing bracket, jsmn searches all
 * enclosing ones for the opening one, so their number is limited. Returns the number of tokens, or -EINVAL.
 */
static int64_t check_structure(const char *text, size_t len, struct err *e)
{
	char open[JSON_DEPTH], last = 0;
	unsigned depth = 0;
	int64_t tokens = 0;
	for (size_t i = 0; i < len; i++) {
		const char c = text[i];
		bool good = true;
		if (is_space(c))
			continue;
		if (c == '{' || c == '[') {
			if (depth == JSON_DEPTH)
				return err_say(e, -EINVAL, "JSON is nested deeper than %d", JSON_DEPTH);
			open[depth++] = c;
			good = !is_end(last);
			tokens++;
		} else if (c == '}' || c == ']') {
			good = depth && open[--depth] == (c == '}' ? '{' : '[') && last != ',' && last != ':';
		} else if (c == ',') {
			good = is_end(last);
		} else if (c == ':') {
			good = last == '"' && depth && open[depth - 1] == '{';
		} else {
			const bool goes_on = c != '"' && last == '0' && !is_space(text[i - 1]); /* a primitive */
			good = goes_on || !is_end(last);
			tokens += !goes_on;
		}
		if (!good)
			return set_syntax_error(i, e);
		if (c == '"')
			i = skip_string(text, len, i) - 1;
		last = strchr("{}[],:\"", c) && c ? c : '0';
	}
	return tokens;
}

/* --- a document --------------------------------------------------------------------------------------------- */

static int tokenize_text(const char *text, size_t len, jsmntok_t **ret, struct err *e)
{
	jsmn_parser p;
	int64_t n = check_structure(text, len, e);
	if (n < 0)
		return (int)n;
	if (n > JSON_VALUES)
		return err_say(e, -EINVAL, "JSON has more than %u values", JSON_VALUES);
	jsmntok_t *tokens = calloc((size_t)n + 1, sizeof(*tokens)); /* for NULL jsmn would only count */
	if (!tokens)
		return err_set(e, -ENOMEM, "JSON");
	jsmn_init(&p);
	int found = jsmn_parse(&p, text, len, tokens, (unsigned)n + 1);
	if (found == JSMN_ERROR_PART || found == 0)
		found = err_say(e, -EINVAL, "JSON ends in the middle (after %zu bytes)", len);
	else if (found < 0 || p.pos != len) /* a NUL byte ends it */
		found = set_syntax_error(p.pos, e);
	if (found < 0)
		free(tokens);
	else
		*ret = tokens;
	return found;
}

static void append_child(struct json *to, struct json *v)
{
	*(to->last ? &to->last->next : &to->first) = v;
	to->last = v;
}

static int put_text(struct json *v, const jsmntok_t *t, char *text)
{
	text[t->end] = 0;
	v->text = text + t->start;
	v->len = v->kind == STRING ? unescape_string(text + t->start, text + t->end) : (size_t)(t->end - t->start);
	return v->kind == STRING || is_primitive(v->text) ? 0 : -EINVAL;
}

/*
 * jsmn gives each token's parent, but accepts names without a value and values without a name: we refuse them.
 */
static int link_value(struct json *values, const jsmntok_t *tokens, int i)
{
	struct json *v = &values[i];
	const jsmntok_t *t = &tokens[i], *in = i ? &tokens[t->parent] : NULL;
	if (i == 0 || t->parent < 0)
		return i == 0 && t->parent < 0 ? 0 : -EINVAL;
	if (in->type == JSMN_OBJECT) /* the name of the next value */
		return v->kind == STRING && t->size == 1 ? 0 : -EINVAL;
	if (v->kind == STRING && t->size != 0)
		return -EINVAL;
	if (in->type == JSMN_STRING && in->parent >= 0 && tokens[in->parent].type == JSMN_OBJECT) {
		v->key = values[t->parent].text;
		in = &tokens[in->parent];
	} else if (in->type != JSMN_ARRAY) {
		return -EINVAL;
	}
	append_child(&values[in - tokens], v);
	return 0;
}

static int build_tree(struct json *values, const jsmntok_t *tokens, int n, char *text, struct err *e)
{
	if (tokens[0].type != JSMN_OBJECT)
		return err_say(e, -EINVAL, "JSON is not an object");
	for (int i = 0; i < n; i++) {
		struct json *v = &values[i];
		v->kind = (enum kind)tokens[i].type;
		bool open = v->kind == OBJECT || v->kind == ARRAY;
		if (link_value(values, tokens, i) < 0 || (!open && put_text(v, &tokens[i], text) < 0))
			return set_syntax_error((size_t)tokens[i].start - (v->kind == STRING), e);
	}
	return 0;
}

int json_parse(const char *text, size_t len, struct json **ret, struct err *e)
{
	if (len == 0)
		return err_say(e, -EINVAL, "empty");
	if (len >= INT_MAX)
		return err_say(e, -EINVAL, "JSON is longer than %d bytes", INT_MAX);
	jsmntok_t *tokens = NULL;
	int n = tokenize_text(text, len, &tokens, e);
	if (n < 0)
		return n;
	struct json *values = calloc(1, (size_t)n * sizeof(*values) + len + 1);
	char *own = values ? (char *)&values[n] : NULL;
	if (own)
		memcpy(own, text, len);
	int r = own ? build_tree(values, tokens, n, own, e) : err_set(e, -ENOMEM, "JSON");
	free(tokens);
	if (r < 0) {
		free(values);
		return r;
	}
	*ret = values;
	return 0;
}

struct json *json_free(struct json *doc)
{
	free(doc);
	return NULL;
}

/* --- skimming: each function returns the position where it stopped, `len` if it found no end */

static size_t skip_space(const char *text, size_t len, size_t at)
{
	while (at < len && is_space(text[at]))
		at++;
	return at;
}

/* Stops at the comma or bracket after a member's value. */
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

/* Keeps a key with an escape, too: it may spell any name. */
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
			return; /* the parser reports the error */
		if ((text[value] == '{' || text[value] == '[') && !is_kept(keep, text + key + 1, end - key - 2)) {
			memset(text + value, ' ', at - value);
			text[value] = '0';
		}
	}
}

/* --- look-ups ----------------------------------------------------------------------------------------------- */

static const struct json *unless_null(const struct json *v)
{
	return v && v->kind == PRIMITIVE && *v->text == 'n' ? NULL : v;
}

bool json_is_object(const struct json *v)
{
	return v && v->kind == OBJECT;
}

const struct json *json_member(const struct json *object, const char *key)
{
	const struct json *found = NULL;

	if (!json_is_object(object))
		return NULL;
	for (const struct json *v = object->first; v; v = v->next)
		if (!strcmp(v->key, key))
			found = v;
	return unless_null(found);
}

const struct json *json_item(const struct json *array, size_t i)
{
	if (!array || array->kind != ARRAY)
		return NULL;
	const struct json *v = array->first;
	while (v && i-- > 0)
		v = v->next;
	return unless_null(v);
}

const char *json_text(const struct json *v, size_t *ret_len)
{
	if (!v || v->kind != STRING)
		return NULL;
	if (ret_len)
		*ret_len = v->len;
	return v->text;
}

int json_number(const struct json *v, int64_t *ret)
{
	if (!v || v->kind != PRIMITIVE || *skip_digits(v->text + (*v->text == '-')))
		return -EINVAL;
	*ret = strtoll(v->text, NULL, 10);
	return 0;
}

int json_each(const struct json *object, json_fn *fn, void *arg)
{
	if (!json_is_object(object))
		return 0;
	for (const struct json *v = object->first; v; v = v->next) {
		int r = fn(arg, v->key, unless_null(v));
		if (r)
			return r;
	}
	return 0;
}

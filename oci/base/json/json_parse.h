/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_parse - reads JSON that may be hostile: bounded parse, then typed look-ups that return NULL for absent values.
 *
 * The only file that knows jsmn. A look-up takes NULL and gives NULL, so a path is a chain and absence
 * anywhere in it shows once, at its end:
 *
 *	const char *path = json_text(json_member(json_member(doc, "root"), "path"), NULL);
 *
 * All returned values are borrowed and live until json_free of the document. If a key is twice in an
 * object, the last one counts.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH 32	   /* nested objects and arrays */
#define JSON_VALUES 65536u /* in one document, names among them: 76 bytes each */

struct json;

/*
 * Parses one document with an object at its top. 0, -EINVAL with a sentence (empty, truncated, malformed, too deep, too
 * many values, not an object), -ENOMEM.
 */
int json_parse(const char *text, size_t len, struct json **ret, struct err *e);
/*
 * Before json_parse: blanks the objects and arrays among the members of the top-level object, except those in `keep`
 * (ended by NULL). A config.json is nine tenths seccomp rules, and a container's start waits for the parser.
 * Blanked values are no longer checked, except that brackets and strings end; offsets in messages stay true.
 */
void json_skim(char *text, size_t len, const char *const keep[]);
struct json *json_free(struct json *doc);

const struct json *json_member(const struct json *object, const char *key); /* NULL: absent, null, no object */
const struct json *json_item(const struct json *array, size_t i);
bool json_is_object(const struct json *v);

/* NULL: it is no string. The text ends with NUL, but may hold others: compare `*ret_len` if that matters. */
const char *json_text(const struct json *v, size_t *ret_len);
/* 0, or -EINVAL: it is no whole number; beyond int64_t it saturates. */
int json_number(const struct json *v, int64_t *ret);

/* Calls `fn` for each member of an object, until it returns non-zero; returns that, or 0. */
typedef int json_fn(void *arg, const char *key, const struct json *value);
int json_each(const struct json *object, json_fn *fn, void *arg);

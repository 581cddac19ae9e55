/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_edit - changes a JSON text and leaves every other byte of it as it was: numbers of any length, unknown members,
 * duplicate keys, white space, the order of all. For config.json, of which a wrapper must lose nothing.
 *
 * The text is checked as a whole (RFC 8259) before any change. An unclear path is refused: a key that is there twice,
 * or is written with escapes, or a value of another kind. Depth at most JSON_EDIT_DEPTH. No recursion beyond that, no
 * memory but the text.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define JSON_EDIT_DEPTH 64
#define JSON_EDIT_PATH 8 /* keys */

struct json_edit {
	char *text; /* NUL-terminated */
	size_t len;
};

/* Copies the text. 0, -EINVAL with a sentence (no JSON object), -ENOMEM. */
int json_edit_open(struct json_edit *s, const char *text, size_t len, struct err *e);
void json_edit_done(struct json_edit *s);

/*
 * Finds the bytes of the value at `path` (keys from the top, ended by NULL): in s->text, valid until the next change.
 * 0; -ENOENT: it, or an object on the way, is absent or null; -EINVAL with a sentence: unclear.
 */
int json_edit_get(
	const struct json_edit *s, const char *const path[], const char **ret, size_t *ret_len, struct err *e);

/* Puts `json` as the value there, or as the last element of the array there. Makes absent or null parts of the path. */
int json_edit_set(struct json_edit *s, const char *const path[], const char *json, struct err *e);
int json_edit_append(struct json_edit *s, const char *const path[], const char *json, struct err *e);

/*
 * Removes the member at `path`, with its comma and the space before it, and each object on the way that has no other
 * member. 0; -ENOENT: it is absent or null; -EINVAL with a sentence: unclear.
 */
int json_edit_drop(struct json_edit *s, const char *const path[], struct err *e);

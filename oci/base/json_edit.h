/*
 * json_edit - change a JSON text and leave every other byte of it as it was: numbers of any length, members that nobody
 * knows, duplicate keys, white space, the order of all. For config.json, of which a wrapper must lose nothing.
 *
 * The text is checked as a whole (RFC 8259) before anything is changed. What is unclear on the way to a place is
 * refused: a key that stands there twice, or is written with escapes, or a value of another kind. Depth at most
 * SPLICE_DEPTH. No recursion beyond that, no memory but the text.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define SPLICE_DEPTH 64
#define SPLICE_PATH 8 /* keys */

struct splice {
	char *text; /* NUL behind it */
	size_t len;
};

/* A copy of the text. 0, -EINVAL with a sentence (no JSON object), -ENOMEM. */
int splice_open(struct splice *s, const char *text, size_t len, struct err *e);
void splice_done(struct splice *s);

/*
 * The bytes of the value at `path` (keys from the top, ended by NULL), within s->text until the next change.
 * 0; -ENOENT: it, or an object on the way, is absent or null; -EINVAL with a sentence: unclear.
 */
int splice_get(const struct splice *s, const char *const path[], const char **ret, size_t *ret_len, struct err *e);

/* `json` becomes the value there, or the last element of the array there. What is absent or null on the way is made. */
int splice_set(struct splice *s, const char *const path[], const char *json, struct err *e);
int splice_append(struct splice *s, const char *const path[], const char *json, struct err *e);

/*
 * The member at `path` goes, with its comma and the space before it, and so does each object on the way that has
 * nothing else in it. 0; -ENOENT: it is absent or null; -EINVAL with a sentence: unclear.
 */
int splice_drop(struct splice *s, const char *const path[], struct err *e);

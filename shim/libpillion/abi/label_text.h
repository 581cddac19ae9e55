/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label_text - a set of labels as text: "key=value\n" for each, ordered by key, so that equal sets are equal texts. The
 * program makes it in its process; a profiler reads it, and trusts none of it.
 *
 * A key is [A-Za-z_][A-Za-z0-9_.-]*, a value UTF-8 (RFC 3629) without control characters.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define LABEL_KEY_MAX 63
#define LABEL_VALUE_MAX 127
#define LABEL_COUNT_MAX 8
#define LABEL_TEXT_MAX (LABEL_COUNT_MAX * (LABEL_KEY_MAX + LABEL_VALUE_MAX + 2))

/* Reads the label at text[*at] and moves *at behind it; false: there is none, or it is malformed. */
struct label_part {
	const char *key, *value;
	size_t key_len, value_len;
};
bool label_next(const char *text, size_t size, size_t *at, struct label_part *ret);
bool label_is_set(const char *text, size_t size); /* the whole text is valid labels, as above */
/*
 * Writes `text` with this label, or without it (value NULL), into ret, of LABEL_TEXT_MAX bytes. Returns its size.
 * -EINVAL: the key or value is not valid; -E2BIG: more than LABEL_COUNT_MAX labels.
 */
long label_change(const char *text, size_t size, const char *key, const char *value, char *ret);

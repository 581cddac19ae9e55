/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err - why something failed, as a sentence for a person.
 *
 * Every function returns 0 (or a count, or an fd) or a negative errno. Where a person will read the
 * failure, the last argument is a `struct err`: the callee writes the sentence, callers put their own
 * context in front. A NULL err is fine everywhere.
 *
 *	if (fd < 0)
 *		return err_set(e, -errno, "cannot open %s", path);	-> "cannot open x: No such file or directory"
 *	return err_wrap(e, r, "container %s", id);			-> "container c1: cannot open x: ..."
 */
#pragma once

#include <stddef.h>

struct err {
	int code; /* negative errno, 0 = no error */
	char text[320];
};

/* Write a sentence and append the text of the errno; returns code. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Write a sentence that needs no errno text behind it; returns code. */
int err_say(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Put context in front of what is there; returns code. */
int err_wrap(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The sentence without control characters, which could move a terminal's cursor. */
const char *err_clean(char buf[static sizeof(((struct err *)0)->text)], const struct err *e);
/* A stranger's text for a sentence: printable, and cut to 48 bytes. */
#define ERR_SHOWN 52
const char *err_shown(const char *text, size_t len, char buf[static ERR_SHOWN]);

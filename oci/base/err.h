/* SPDX-License-Identifier: Apache-2.0 */
/*
 * err - a sentence for a person that tells why a call failed.
 *
 * Every function returns 0 (or a count, or an fd) or a negative errno. If a person will read the
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

/* Writes a sentence and appends the text of the errno; returns code. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Writes a sentence that needs no errno text after it; returns code. */
int err_say(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Puts context in front of the sentence; returns code. */
int err_wrap(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Copies the sentence without control characters, which could move a terminal's cursor. */
const char *err_clean(char buf[static sizeof(((struct err *)0)->text)], const struct err *e);
/* Copies an untrusted text for a sentence: printable, and cut to 48 bytes. */
#define ERR_SHOWN 52
const char *err_shown(const char *text, size_t len, char buf[static ERR_SHOWN]);

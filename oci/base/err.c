/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdbool.h>
#include <string.h>

static int set_error(struct err *e, int code, bool errno_text, const char *fmt, va_list ap)
{
	if (!e)
		return code;
	e->code = code;
	int n = vsnprintf(e->text, sizeof(e->text), fmt, ap);
	if (errno_text && n >= 0 && (size_t)n < sizeof(e->text))
		snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %s", strerror(-code));
	return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	set_error(e, code, true, fmt, ap);
	va_end(ap);
	return code;
}

int err_say(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	set_error(e, code, false, fmt, ap);
	va_end(ap);
	return code;
}

int err_wrap(struct err *e, int code, const char *fmt, ...)
{
	if (!e)
		return code;
	char old[sizeof(e->text)];
	memcpy(old, e->text, sizeof(old));
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof(e->text))
		snprintf(e->text + n, sizeof(e->text) - (size_t)n, ": %.*s", (int)(sizeof(e->text) - (size_t)n), old);
	e->code = code;
	return code;
}

const char *err_shown(const char *text, size_t len, char buf[static ERR_SHOWN])
{
	size_t n = len > 48 ? 48 : len;

	for (size_t i = 0; i < n; i++)
		buf[i] = text[i] < 0x20 || text[i] > 0x7e ? '?' : text[i];
	snprintf(buf + n, 4, "%s", len > 48 ? "..." : "");
	return buf;
}

const char *err_clean(char buf[static sizeof(((struct err *)0)->text)], const struct err *e)
{
	snprintf(buf, sizeof(e->text), "%s", e->text);
	for (char *c = buf; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	return buf;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/text_writer.h"

#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <string.h>

void text_flush(struct text_writer *o)
{
	for (size_t at = 0; at < o->used && !o->error;) {
		long n = sys_call(write, o->fd, o->buf + at, o->used - at);
		if (n > 0)
			at += (size_t)n;
		else if (n != -EINTR)
			o->error = n ? (int)n : -EIO;
	}
	o->used = 0;
}

static void put_memory(struct text_writer *o, const char *bytes, size_t n)
{
	if (o->error || n >= o->size - o->at) {
		o->error = -ENOSPC;
		return;
	}
	memcpy(o->memory + o->at, bytes, n);
	o->at += n;
	o->memory[o->at] = 0;
}

static void append_bytes(struct text_writer *o, const char *bytes, size_t n)
{
	if (o->memory) {
		put_memory(o, bytes, n);
		return;
	}
	while (n) {
		size_t part = sizeof(o->buf) - o->used;
		if (part > n)
			part = n;
		memcpy(o->buf + o->used, bytes, part);
		o->used += part;
		bytes += part;
		n -= part;
		if (o->used == sizeof(o->buf))
			text_flush(o);
	}
}

void text_put(struct text_writer *o, const char *text)
{
	append_bytes(o, text, strlen(text));
}

size_t text_decimal(char *text, size_t at, uint64_t n)
{
	char digits[TEXT_DECIMAL_MAX];
	size_t k = sizeof(digits);
	do
		digits[--k] = (char)('0' + n % 10);
	while (n /= 10);
	memcpy(text + at, digits + k, sizeof(digits) - k);
	return at + sizeof(digits) - k;
}

void text_put_decimal(struct text_writer *o, uint64_t n)
{
	char digits[TEXT_DECIMAL_MAX];
	append_bytes(o, digits, text_decimal(digits, 0, n));
}

void text_put_hex(struct text_writer *o, uint64_t n, int digits)
{
	for (int i = 15; i >= 0; i--)
		if (i < digits || n >> (i * 4))
			append_bytes(o, &"0123456789abcdef"[n >> (i * 4) & 15], 1);
}

uint64_t text_hex(const char *text)
{
	uint64_t n = 0;
	for (;; text++)
		if (*text >= '0' && *text <= '9')
			n = n << 4 | (uint64_t)(*text - '0');
		else if (*text >= 'a' && *text <= 'f')
			n = n << 4 | (uint64_t)(*text - 'a' + 10);
		else
			return n;
}

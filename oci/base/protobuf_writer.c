/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/protobuf_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARINT_MAX 10 /* bytes */
#define ROOM_MIN 256

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2 }; /* wire types */

static bool grow_buffer(struct protobuf_writer *w, size_t len)
{
	if (w->failed || len <= w->room - w->len)
		return !w->failed;
	size_t room = w->room < ROOM_MIN ? ROOM_MIN : w->room * 2;
	while (room - w->len < len)
		room *= 2;
	uint8_t *bytes = realloc(w->bytes, room);
	if (!bytes) {
		w->failed = true;
		return false;
	}
	w->bytes = bytes;
	w->room = room;
	return true;
}

void protobuf_writer_put(struct protobuf_writer *w, const void *bytes, size_t len)
{
	if (!grow_buffer(w, len) || !len)
		return;
	memcpy(w->bytes + w->len, bytes, len);
	w->len += len;
}

void protobuf_writer_print(struct protobuf_writer *w, const char *fmt, ...)
{
	char *text;
	va_list ap;
	va_start(ap, fmt);
	const int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (n < 0) {
		w->failed = true;
		return;
	}
	protobuf_writer_put(w, text, (size_t)n);
	free(text);
}

void protobuf_writer_varint(struct protobuf_writer *w, uint64_t value)
{
	if (!grow_buffer(w, VARINT_MAX))
		return;
	for (; value >= 0x80; value >>= 7)
		w->bytes[w->len++] = (uint8_t)value | 0x80;
	w->bytes[w->len++] = (uint8_t)value;
}

static void write_tag(struct protobuf_writer *w, unsigned field, unsigned type)
{
	protobuf_writer_varint(w, (uint64_t)field << 3 | type);
}

void protobuf_writer_number(struct protobuf_writer *w, unsigned field, uint64_t value)
{
	if (!value)
		return;
	write_tag(w, field, VARINT);
	protobuf_writer_varint(w, value);
}

void protobuf_writer_fixed64(struct protobuf_writer *w, unsigned field, uint64_t value)
{
	uint8_t bytes[8];
	if (!value)
		return;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	write_tag(w, field, FIXED64);
	protobuf_writer_put(w, bytes, sizeof(bytes));
}

void protobuf_writer_bytes(struct protobuf_writer *w, unsigned field, const void *d, size_t n)
{
	write_tag(w, field, LENGTH);
	protobuf_writer_varint(w, n);
	protobuf_writer_put(w, d, n);
}

void protobuf_writer_text(struct protobuf_writer *w, unsigned field, const char *text)
{
	if (text[0])
		protobuf_writer_bytes(w, field, text, strlen(text));
}

void protobuf_writer_message(struct protobuf_writer *w, unsigned field, const struct protobuf_writer *message)
{
	protobuf_writer_bytes(w, field, message->bytes, message->len);
	w->failed |= message->failed;
}

void protobuf_writer_clear(struct protobuf_writer *w)
{
	w->len = 0;
}

void protobuf_writer_done(struct protobuf_writer *w)
{
	free(w->bytes);
	*w = (struct protobuf_writer){0};
}

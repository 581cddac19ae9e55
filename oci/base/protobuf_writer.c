#include "oci/base/protobuf_writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARINT_MAX 10 /* bytes */
#define ROOM_MIN 256

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2 }; /* wire types */

static bool grow(struct wire *w, size_t len)
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

void wire_put(struct wire *w, const void *bytes, size_t len)
{
	if (!grow(w, len) || !len)
		return;
	memcpy(w->bytes + w->len, bytes, len);
	w->len += len;
}

void wire_print(struct wire *w, const char *fmt, ...)
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
	wire_put(w, text, (size_t)n);
	free(text);
}

void wire_varint(struct wire *w, uint64_t value)
{
	if (!grow(w, VARINT_MAX))
		return;
	for (; value >= 0x80; value >>= 7)
		w->bytes[w->len++] = (uint8_t)value | 0x80;
	w->bytes[w->len++] = (uint8_t)value;
}

static void key(struct wire *w, unsigned field, unsigned type)
{
	wire_varint(w, (uint64_t)field << 3 | type);
}

void wire_number(struct wire *w, unsigned field, uint64_t value)
{
	if (!value)
		return;
	key(w, field, VARINT);
	wire_varint(w, value);
}

void wire_fixed64(struct wire *w, unsigned field, uint64_t value)
{
	uint8_t bytes[8];
	if (!value)
		return;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	key(w, field, FIXED64);
	wire_put(w, bytes, sizeof(bytes));
}

void wire_bytes(struct wire *w, unsigned field, const void *d, size_t n)
{
	key(w, field, LENGTH);
	wire_varint(w, n);
	wire_put(w, d, n);
}

void wire_text(struct wire *w, unsigned field, const char *text)
{
	if (text[0])
		wire_bytes(w, field, text, strlen(text));
}

void wire_message(struct wire *w, unsigned field, const struct wire *message)
{
	wire_bytes(w, field, message->bytes, message->len);
	w->failed |= message->failed;
}

void wire_clear(struct wire *w)
{
	w->len = 0;
}

void wire_done(struct wire *w)
{
	free(w->bytes);
	*w = (struct wire){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/protobuf.h"

#include "oci/base/array.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARINT_MAX 10 /* bytes */
#define ROOM_FIRST 256

struct pb pb_of(const void *bytes, size_t len)
{
	static const uint8_t nothing;
	return (struct pb){.at = len ? bytes : &nothing, .end = len ? (const uint8_t *)bytes + len : &nothing};
}

static bool mark_malformed(struct pb *m)
{
	m->bad = true;
	m->at = m->end;
	return false;
}

static bool read_varint(struct pb *m, uint64_t *ret)
{
	uint64_t value = 0;
	for (unsigned i = 0; i < VARINT_MAX && m->at < m->end; i++) {
		uint8_t byte = *m->at++;
		value |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (byte < 0x80) {
			*ret = value;
			return true;
		}
	}
	return mark_malformed(m);
}

/* Little-endian. */
static bool read_fixed(struct pb *m, size_t size, uint64_t *ret)
{
	if ((size_t)(m->end - m->at) < size)
		return mark_malformed(m);
	*ret = 0;
	for (size_t i = 0; i < size; i++)
		*ret |= (uint64_t)m->at[i] << 8 * i;
	m->at += size;
	return true;
}

static bool read_length_delimited(struct pb *m, struct pb_field *f)
{
	uint64_t len;
	if (!read_varint(m, &len))
		return false;
	if (len > (size_t)(m->end - m->at))
		return mark_malformed(m);
	f->data = (const char *)m->at;
	f->len = (size_t)len;
	m->at += len;
	return true;
}

bool pb_next(struct pb *m, struct pb_field *ret)
{
	uint64_t key;
	if (m->at == m->end || !read_varint(m, &key))
		return false;
	*ret = (struct pb_field){.number = (uint32_t)(key >> 3), .type = (enum pb_type)(key & 7)};
	if (key >> 3 == 0 || key >> 32)
		return mark_malformed(m);
	switch (ret->type) {
	case PB_VARINT:
		return read_varint(m, &ret->value);
	case PB_FIXED64:
		return read_fixed(m, 8, &ret->value);
	case PB_BYTES:
		return read_length_delimited(m, ret);
	case PB_FIXED32:
		return read_fixed(m, 4, &ret->value);
	default:
		return mark_malformed(m);
	}
}

bool pb_is(const struct pb_field *f, uint32_t number)
{
	return f->number == number && f->type == PB_BYTES;
}

struct pb pb_inside(const struct pb_field *f)
{
	return pb_of(f->data, f->len);
}

int pb_pair(const struct pb_field *f, struct pb_field *ret_key, struct pb_field *ret_value)
{
	struct pb m = pb_inside(f);
	struct pb_field in;
	*ret_key = *ret_value = (struct pb_field){.type = PB_BYTES, .data = ""};
	while (pb_next(&m, &in))
		if (pb_is(&in, 1))
			*ret_key = in;
		else if (pb_is(&in, 2))
			*ret_value = in;
	return m.bad ? -EBADMSG : 0;
}

bool pb_equals(const struct pb_field *f, const char *text)
{
	return f->len == strlen(text) && !memcmp(f->data, text, f->len);
}

/* --- writing ------------------------------------------------------------------------------------------------ */

struct protobuf_writer protobuf_writer_fixed(void *buffer, size_t size)
{
	return (struct protobuf_writer){.bytes = buffer, .room = size, .fixed = true};
}

static bool reserve_bytes(struct protobuf_writer *w, size_t len)
{
	if (!w->failed && len > w->room - w->len)
		w->failed = w->fixed || array_reserve(&w->bytes, &w->room, w->len + len, 1, ROOM_FIRST) < 0;
	return !w->failed;
}

void protobuf_writer_put(struct protobuf_writer *w, const void *bytes, size_t len)
{
	if (!reserve_bytes(w, len) || !len)
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
	if (!reserve_bytes(w, (size_t)(70 - __builtin_clzll(value | 1)) / 7)) /* 7 bits in each byte */
		return;
	for (; value >= 0x80; value >>= 7)
		w->bytes[w->len++] = (uint8_t)value | 0x80;
	w->bytes[w->len++] = (uint8_t)value;
}

static void write_tag(struct protobuf_writer *w, unsigned field, enum pb_type type)
{
	protobuf_writer_varint(w, (uint64_t)field << 3 | type);
}

void protobuf_writer_number(struct protobuf_writer *w, unsigned field, uint64_t value)
{
	if (!value)
		return;
	write_tag(w, field, PB_VARINT);
	protobuf_writer_varint(w, value);
}

void protobuf_writer_fixed64(struct protobuf_writer *w, unsigned field, uint64_t value)
{
	uint8_t bytes[8];
	if (!value)
		return;
	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
	write_tag(w, field, PB_FIXED64);
	protobuf_writer_put(w, bytes, sizeof(bytes));
}

void protobuf_writer_bytes(struct protobuf_writer *w, unsigned field, const void *d, size_t n)
{
	write_tag(w, field, PB_BYTES);
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

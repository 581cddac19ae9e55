/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/protobuf.h"

#include <errno.h>
#include <string.h>

#define VARINT_MAX 10 /* bytes */

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

static void append_bytes(struct pb_out *o, const void *data, size_t len)
{
	if (o->full || len > o->size - o->len) {
		o->full = true;
		return;
	}
	if (len)
		memcpy(o->buf + o->len, data, len);
	o->len += len;
}

static void put_varint(struct pb_out *o, uint64_t value)
{
	uint8_t text[VARINT_MAX];
	size_t n = 0;
	for (; value >= 0x80; value >>= 7)
		text[n++] = (uint8_t)value | 0x80;
	text[n++] = (uint8_t)value;
	append_bytes(o, text, n);
}

void pb_put_number(struct pb_out *o, uint32_t number, uint64_t value)
{
	put_varint(o, (uint64_t)number << 3 | PB_VARINT);
	put_varint(o, value);
}

void pb_put_bytes(struct pb_out *o, uint32_t number, const void *data, size_t len)
{
	put_varint(o, (uint64_t)number << 3 | PB_BYTES);
	put_varint(o, len);
	append_bytes(o, data, len);
}

void pb_put_text(struct pb_out *o, uint32_t number, const char *text)
{
	pb_put_bytes(o, number, text, strlen(text));
}

void pb_put_message(struct pb_out *o, uint32_t number, const struct pb_out *message)
{
	pb_put_bytes(o, number, message->buf, message->len);
	o->full = o->full || message->full;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf - the wire format of protocol buffers (protobuf.dev, "Encoding"), as far as a few small messages need it.
 *
 * Reading walks bytes in place, allocates nothing and follows no length beyond the end: a malformed message sets `bad`
 * and ends there. The caller interprets the fields and skips unknown ones. Groups are malformed: no peer sends them.
 *
 *	struct pb m = pb_of(bytes, len);
 *	struct pb_field f;
 *	while (pb_next(&m, &f))
 *		if (f.number == 1) ...
 *
 * Writing appends to a buffer of fixed size; a field that does not fit sets `full`, and the rest is not written.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pb_type { PB_VARINT = 0, PB_FIXED64 = 1, PB_BYTES = 2, PB_FIXED32 = 5 };

struct pb {
	const uint8_t *at, *end;
	bool bad;
};

struct pb_field {
	uint32_t number;
	enum pb_type type;
	uint64_t value;	  /* of a number */
	const char *data; /* of PB_BYTES: borrowed, and not terminated */
	size_t len;
};

struct pb pb_of(const void *bytes, size_t len);
bool pb_next(struct pb *m, struct pb_field *ret); /* false: at its end, or bad */
/* Is the field a string or message of that number? */
bool pb_is(const struct pb_field *f, uint32_t number);
struct pb pb_inside(const struct pb_field *f);
/* Reads a pair of map<string, string>. A missing key or value is "". 0, -EBADMSG */
int pb_pair(const struct pb_field *f, struct pb_field *ret_key, struct pb_field *ret_value);
bool pb_equals(const struct pb_field *f, const char *text);

struct pb_out {
	uint8_t *buf;
	size_t size, len;
	bool full;
};

void pb_put_number(struct pb_out *o, uint32_t number, uint64_t value);
void pb_put_bytes(struct pb_out *o, uint32_t number, const void *data, size_t len);
void pb_put_text(struct pb_out *o, uint32_t number, const char *text);
void pb_put_message(struct pb_out *o, uint32_t number, const struct pb_out *message); /* full if `message` is */

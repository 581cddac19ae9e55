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
 * Writing appends to memory that grows, or to a caller's buffer of fixed size. Out of memory or room sets `failed`, and
 * nothing is written from then on: the caller checks once, at the end. A message inside another one is written on its
 * own first, and then put there: its length precedes it.
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

struct protobuf_writer { /* all zero: empty, and it grows */
	uint8_t *bytes;
	size_t len, room;
	bool fixed, failed;
};

struct protobuf_writer protobuf_writer_fixed(void *buffer, size_t size); /* the caller's buffer */
void protobuf_writer_put(struct protobuf_writer *w, const void *bytes, size_t len);
void protobuf_writer_print(struct protobuf_writer *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void protobuf_writer_varint(struct protobuf_writer *w, uint64_t value); /* alone: an element of a packed field */
void protobuf_writer_number(
	struct protobuf_writer *w, unsigned field, uint64_t value); /* 0 is not written: it is the default */
void protobuf_writer_fixed64(struct protobuf_writer *w, unsigned field, uint64_t value); /* the same */
void protobuf_writer_bytes(
	struct protobuf_writer *w, unsigned field, const void *d, size_t n);		/* written also when n is 0 */
void protobuf_writer_text(struct protobuf_writer *w, unsigned field, const char *text); /* "" is not written */
void protobuf_writer_message(struct protobuf_writer *w, unsigned field, const struct protobuf_writer *message);

void protobuf_writer_clear(struct protobuf_writer *w); /* empties it, keeps its memory and `failed` */
void protobuf_writer_done(struct protobuf_writer *w);  /* of one that grows */

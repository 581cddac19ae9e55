/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf_writer - appends protocol buffers and other bytes of a message to memory that grows. oci/base/protobuf.h
 * writes to a fixed size; messages here are megabytes, of a size that is not known before.
 *
 * Out of memory sets `failed`, and nothing is written from then on: the caller checks once, at the end. A message
 * inside another one is written on its own first, and then put there: its length precedes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct protobuf_writer { /* all zero: empty */
	uint8_t *bytes;
	size_t len, room;
	bool failed;
};

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
void protobuf_writer_done(struct protobuf_writer *w);

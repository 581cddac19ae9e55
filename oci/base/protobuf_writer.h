/*
 * protobuf_writer - protocol buffers and other bytes of a message, written one behind the other into memory that grows. What
 * oci/base/protobuf.h writes has a fixed size; messages here are megabytes, and nobody knows how many before.
 *
 * Out of memory sets `failed`, and nothing is written from then on: who writes asks once, at the end. A message inside
 * of another one is written on its own first, and then put there: its length stands before it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire { /* all zero: empty */
	uint8_t *bytes;
	size_t len, room;
	bool failed;
};

void wire_put(struct wire *w, const void *bytes, size_t len);
void wire_print(struct wire *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void wire_varint(struct wire *w, uint64_t value);			  /* alone: an element of a packed field */
void wire_number(struct wire *w, unsigned field, uint64_t value);	  /* 0 is not written: it is the default */
void wire_fixed64(struct wire *w, unsigned field, uint64_t value);	  /* the same */
void wire_bytes(struct wire *w, unsigned field, const void *d, size_t n); /* written also when n is 0 */
void wire_text(struct wire *w, unsigned field, const char *text);	  /* "" is not written */
void wire_message(struct wire *w, unsigned field, const struct wire *message);

void wire_clear(struct wire *w); /* empty, with its memory; what failed stays so */
void wire_done(struct wire *w);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_said - what a runtime says over the Node Resource Interface, for tests: its frames, and containers as it tells of
 * them.
 */
#pragma once

#include "oci/base/protobuf.h"

#include "tests/unit/support/pages.h"

#include <string.h>

static inline void said_head(struct protobuf_writer *o, uint32_t a, uint32_t b)
{
	for (int i = 0; i < 8; i++)
		o->bytes[o->len++] = (uint8_t)((i < 4 ? a : b) >> 8 * (3 - i % 4));
}

/* A ttrpc message in one mux frame. */
static inline void said_frame(struct protobuf_writer *o, uint32_t connection, uint32_t stream, uint8_t type,
	const struct protobuf_writer *body)
{
	said_head(o, connection, (uint32_t)body->len + 10);
	said_head(o, (uint32_t)body->len, stream);
	o->bytes[o->len++] = type;
	o->bytes[o->len++] = 0;
	memcpy(o->bytes + o->len, body->bytes, body->len);
	o->len += body->len;
}

static inline void said_call(
	struct protobuf_writer *o, uint32_t stream, const char *method, const void *payload, size_t len)
{
	enum { BODY = 1 << 20 };
	static uint8_t *buf;
	if (!buf)
		buf = pages_new(BODY);
	struct protobuf_writer body = protobuf_writer_fixed(buf, BODY);
	protobuf_writer_text(&body, 1, "nri.pkg.api.v1alpha1.Plugin");
	protobuf_writer_text(&body, 2, method);
	protobuf_writer_bytes(&body, 3, payload, len);
	said_frame(o, 1, stream, 1, &body);
}

static inline void said_pair(struct protobuf_writer *o, uint32_t number, const char *key, const char *value, size_t len)
{
	static uint8_t buf[1 << 16];
	struct protobuf_writer pair = protobuf_writer_fixed(buf, sizeof(buf));
	protobuf_writer_text(&pair, 1, key);
	protobuf_writer_bytes(&pair, 2, value, len);
	protobuf_writer_message(o, number, &pair);
}

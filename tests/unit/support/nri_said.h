/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri_said - what a runtime says over the Node Resource Interface, for tests: its frames, and containers as it tells of
 * them.
 */
#pragma once

#include "oci/base/protobuf.h"

#include "tests/unit/support/pages.h"

#include <string.h>

static inline void said_head(struct pb_out *o, uint32_t a, uint32_t b)
{
	for (int i = 0; i < 8; i++)
		o->buf[o->len++] = (uint8_t)((i < 4 ? a : b) >> 8 * (3 - i % 4));
}

/* A ttrpc message in one mux frame. */
static inline void said_frame(
	struct pb_out *o, uint32_t connection, uint32_t stream, uint8_t type, const struct pb_out *body)
{
	said_head(o, connection, (uint32_t)body->len + 10);
	said_head(o, (uint32_t)body->len, stream);
	o->buf[o->len++] = type;
	o->buf[o->len++] = 0;
	memcpy(o->buf + o->len, body->buf, body->len);
	o->len += body->len;
}

static inline void said_call(struct pb_out *o, uint32_t stream, const char *method, const void *payload, size_t len)
{
	enum { BODY = 1 << 20 };
	static uint8_t *buf;
	if (!buf)
		buf = pages_new(BODY);
	struct pb_out body = {.buf = buf, .size = BODY};
	pb_put_text(&body, 1, "nri.pkg.api.v1alpha1.Plugin");
	pb_put_text(&body, 2, method);
	pb_put_bytes(&body, 3, payload, len);
	said_frame(o, 1, stream, 1, &body);
}

static inline void said_pair(struct pb_out *o, uint32_t number, const char *key, const char *value, size_t len)
{
	static uint8_t buf[1 << 16];
	struct pb_out pair = {.buf = buf, .size = sizeof(buf)};
	pb_put_text(&pair, 1, key);
	pb_put_bytes(&pair, 2, value, len);
	pb_put_message(o, number, &pair);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/nri_ttrpc.h"

#include "tests/unit/support/nri_said.h"
#include "tests/unit/support/pages.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* What was heard, as text: "4:5:hello" is call 4 on stream 5. */
static char heard[4096];

static void hear(void *arg, enum nri_call call, uint32_t stream, const void *payload, size_t len)
{
	size_t at = strlen(heard);
	snprintf(heard + at, sizeof(heard) - at, "%d:%u:%.*s ", (int)call, stream, len < 64 ? (int)len : 64,
		(const char *)payload);
}

static struct nri *begin(void)
{
	struct nri *n;
	heard[0] = 0;
	ck_assert_int_eq(nri_new(hear, NULL, &n), 0);
	return n;
}

enum { BUF = 8 << 20 };
static uint8_t *buf;

static struct protobuf_writer conversation(void)
{
	buf = pages_new(BUF);
	struct protobuf_writer o = protobuf_writer_fixed(buf, BUF);
	uint8_t no[64];
	struct protobuf_writer status = protobuf_writer_fixed(no, sizeof(no)),
			       answer = protobuf_writer_fixed(no + 32, 32);
	said_frame(&o, 2, 1, 2, &answer); /* registered: an answer without anything */
	said_call(&o, 1, "Configure", "c", 1);
	said_call(&o, 3, "Synchronize", "", 0);
	said_frame(&o, 9, 1, 1, &answer); /* of a connection that we do not know */
	said_call(&o, 5, "StartContainer", "hello", 5);
	said_call(&o, 7, "Dance", "", 0);
	protobuf_writer_number(&status, 1, 5);
	protobuf_writer_text(&status, 2, "no!");
	protobuf_writer_message(&answer, 1, &status);
	said_frame(&o, 2, 1, 2, &answer);
	return o;
}
#define HEARD "7:0: 1:1:c 2:3: 5:5:hello 0:7: 7:0:no! "

START_TEST(in_pieces)
{
	struct protobuf_writer o = conversation();
	size_t size = (size_t)_i;
	struct nri *n = begin();
	for (size_t at = 0; at < o.len; at += size)
		ck_assert_int_eq(nri_feed(n, o.bytes + at, o.len - at < size ? o.len - at : size, NULL), 0);
	ck_assert_str_eq(heard, HEARD);
	ck_assert_ptr_null(nri_free(n));
}
END_TEST

/* A message over as many mux frames as it has bytes, those of another connection between them. */
START_TEST(a_message_in_many_frames)
{
	struct protobuf_writer whole = conversation();
	struct protobuf_writer o = protobuf_writer_fixed(pages_new(1 << 20), 1 << 20);
	struct nri *n = begin();
	for (size_t at = 0; at < whole.len;) {
		uint32_t connection = whole.bytes[at + 3],
			 len = (uint32_t)whole.bytes[at + 6] << 8 | whole.bytes[at + 7];
		for (at += 8; len; len--, at++) {
			said_head(&o, connection, 1);
			o.bytes[o.len++] = whole.bytes[at];
			said_head(&o, 77, 0);
		}
	}
	ck_assert_int_eq(nri_feed(n, o.bytes, o.len, NULL), 0);
	ck_assert_str_eq(heard, HEARD);
	nri_free(n);
}
END_TEST

static const struct refused {
	const char *scenario, *bytes;
	size_t len;
	int code;
	const char *sentence;
} refused[] = {
	{"a message of 4 MiB and a byte", "\0\0\0\1\0\0\0\x10\0\x40\0\1\0\0\0\1\1\0", 18, -EMSGSIZE, "4194305 bytes"},
	{"a message of 4 GiB", "\0\0\0\1\0\0\0\x10\xff\xff\xff\xff\0\0\0\1\1\0", 18, -EMSGSIZE, "4294967295 bytes"},
	{"a frame of 4 GiB", "\0\0\0\1\xff\xff\xff\xff", 8, -EMSGSIZE, "4294967295 bytes"},
	{"a frame of 4 GiB of a connection that is none of ours", "\0\0\0\7\xff\xff\xff\xff", 8, -EMSGSIZE,
		"4294967295 bytes"},
	{"a request that is no message", "\0\0\0\1\0\0\0\x0b\0\0\0\1\0\0\0\1\1\0\xff", 19, -EBADMSG,
		"request is no message"},
	{"an answer that is no message", "\0\0\0\2\0\0\0\x0b\0\0\0\1\0\0\0\1\2\0\xff", 19, -EBADMSG,
		"answer is no message"},
};

START_TEST(refusing)
{
	const struct refused *c = &refused[_i];
	struct nri *n = begin();
	struct err e = {0};
	ck_assert_msg(nri_feed(n, c->bytes, c->len, &e) == c->code, "%s: %s", c->scenario, e.text);
	ck_assert_msg(strstr(e.text, c->sentence), "%s: %s", c->scenario, e.text);
	ck_assert_str_eq(heard, "");
	nri_free(n);
}
END_TEST

/* Types and connections that do not go together are not for us: "\3" is data of a stream. */
START_TEST(what_is_left_alone)
{
	static const uint8_t types[][2] = {{1, 0}, {1, 2}, {1, 3}, {1, 255}, {2, 1}, {2, 3}};
	buf = pages_new(BUF);
	struct protobuf_writer o = protobuf_writer_fixed(buf, BUF), nothing = {0};
	struct nri *n = begin();
	nothing.bytes = buf + 4096;
	for (size_t i = 0; i < LENGTH(types); i++)
		said_frame(&o, types[i][0], 1, types[i][1], &nothing);
	ck_assert_int_eq(nri_feed(n, o.bytes, o.len, NULL), 0);
	ck_assert_str_eq(heard, "");
	nri_free(n);
}
END_TEST

START_TEST(the_largest_message)
{
	struct protobuf_writer o = protobuf_writer_fixed(pages_new(NRI_MESSAGE_MAX + 64), NRI_MESSAGE_MAX + 64);
	struct nri *n = begin();
	said_head(&o, 1, NRI_MESSAGE_MAX + 10);
	said_head(&o, NRI_MESSAGE_MAX, 5);
	o.bytes[o.len++] = 1;
	o.bytes[o.len++] = 0;
	protobuf_writer_text(&o, 1, "nri.pkg.api.v1alpha1.Plugin");
	protobuf_writer_text(&o, 2, "StartContainer");
	size_t rest = NRI_MESSAGE_MAX + 18 - o.len;
	memset(o.bytes + o.len, 'x', rest);
	o.bytes[o.len] = 3 << 3 | 2;
	rest -= 5; /* its key and its length, of four bytes */
	for (int i = 0; i < 4; i++)
		o.bytes[o.len + 1 + (size_t)i] = (uint8_t)(rest >> 7 * i & 0x7f) | (i < 3 ? 0x80 : 0);
	o.len = NRI_MESSAGE_MAX + 18;
	ck_assert_int_eq(nri_feed(n, o.bytes, o.len, NULL), 0);
	ck_assert(!strncmp(heard, "5:5:xxxx", 8));
	nri_free(n);
}
END_TEST

/* What we say is what a runtime would read: by our own reader, and the registration byte for byte. */
START_TEST(saying)
{
	static const char registration[] = "\0\0\0\2\0\0\0\x4f\0\0\0\x45\0\0\0\1\1\0"
					   "\x0a\x1cnri.pkg.api.v1alpha1.Runtime\x12\x0eRegisterPlugin\x1a\x15"
					   "\x0a\x07pillion\x12\x02"
					   "50\x1a\x06v0.6.1";
	struct nri *n = begin();
	size_t len;
	ck_assert_int_eq(nri_register(n, "pillion", "50"), 0);
	const uint8_t *at = nri_unsent(n, &len);
	ck_assert_int_eq(len, sizeof(registration) - 1);
	ck_assert_int_eq(memcmp(at, registration, len), 0);
	nri_sent(n, len - 1);
	nri_unsent(n, &len);
	ck_assert_int_eq(len, 1);
	nri_sent(n, 1);
	ck_assert_int_eq(nri_answer(n, 5, "abc", 3), 0);
	ck_assert_int_eq(nri_answer(n, 7, NULL, 0), 0);
	at = nri_unsent(n, &len);
	ck_assert_int_eq(len, 18 + 5 + 18);
	ck_assert_int_eq(memcmp(at,
				 "\0\0\0\1\0\0\0\x0f\0\0\0\5\0\0\0\5\2\0\x12\3"
				 "abc\0\0\0\1\0\0\0\x0a\0\0\0\0\0\0\0\7\2\0",
				 len),
		0);
	nri_sent(n, len);
	ck_assert_int_eq(nri_unimplemented(n, 9), 0);
	at = nri_unsent(n, &len);
	ck_assert(len > 22 && at[15] == 9 && !memcmp(at + 18, "\x0a\x1e\x08\x0c", 4));
	nri_free(n);
}
END_TEST

START_TEST(nobody_reads)
{
	struct nri *n = begin();
	for (size_t i = 0; i <= NRI_UNSENT_MAX / 18; i++) {
		ck_assert(!nri_full(n));
		nri_answer(n, 1, NULL, 0);
	}
	ck_assert(nri_full(n));
	nri_sent(n, 36);
	ck_assert(!nri_full(n));
	nri_free(n);
}
END_TEST

UNIT_SUITE(nri_ttrpc)
{
	Suite *s = suite_create("nri_ttrpc");
	TCase *t = tcase_create("nri_ttrpc");
	tcase_set_timeout(t, 30);
	tcase_add_loop_test(t, in_pieces, 1, 80);
	tcase_add_test(t, a_message_in_many_frames);
	tcase_add_loop_test(t, refusing, 0, LENGTH(refused));
	tcase_add_test(t, what_is_left_alone);
	tcase_add_test(t, the_largest_message);
	tcase_add_test(t, saying);
	tcase_add_test(t, nobody_reads);
	suite_add_tcase(s, t);
	return s;
}

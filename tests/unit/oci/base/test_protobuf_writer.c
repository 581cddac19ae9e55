/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/protobuf_writer.h"

#include "oci/base/fd.h"
#include "oci/base/protobuf.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

static void put_number(struct protobuf_writer *w)
{
	protobuf_writer_number(w, 1, 150);
}

static void put_nothing(struct protobuf_writer *w)
{
	protobuf_writer_number(w, 1, 0);
	protobuf_writer_fixed64(w, 2, 0);
	protobuf_writer_text(w, 3, "");
}

static void put_negative(struct protobuf_writer *w)
{
	protobuf_writer_number(w, 2, (uint64_t)-1);
}

static void put_fixed(struct protobuf_writer *w)
{
	protobuf_writer_fixed64(w, 3, 0x0102030405060708);
}

static void put_text(struct protobuf_writer *w)
{
	protobuf_writer_text(w, 2, "testing");
}

static void put_empty(struct protobuf_writer *w)
{
	protobuf_writer_bytes(w, 5, NULL, 0);
}

static void put_inner(struct protobuf_writer *w)
{
	struct protobuf_writer inner = {0};
	put_number(&inner);
	protobuf_writer_message(w, 3, &inner);
	protobuf_writer_done(&inner);
}

static void put_packed(struct protobuf_writer *w)
{
	struct protobuf_writer list = {0};
	protobuf_writer_varint(&list, 3);
	protobuf_writer_varint(&list, 270);
	protobuf_writer_varint(&list, 86942);
	protobuf_writer_message(w, 6, &list);
	protobuf_writer_clear(&list);
	protobuf_writer_message(w, 6, &list);
	protobuf_writer_done(&list);
}

static void put_print(struct protobuf_writer *w)
{
	protobuf_writer_print(w, "%s=%d", "a", 7);
	protobuf_writer_put(w, "", 0);
}

/* As the pages of protocol buffers have them ("Encoding"). */
static const struct {
	const char *scenario;
	void (*put)(struct protobuf_writer *w);
	const char *bytes;
	size_t len;
} rows[] = {
	{"a number", put_number, "\x08\x96\x01", 3},
	{"what is the default is not there", put_nothing, "", 0},
	{"a number below 0 is ten bytes", put_negative, "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},
	{"eight bytes, the lowest first", put_fixed, "\x19\x08\x07\x06\x05\x04\x03\x02\x01", 9},
	{"a text", put_text, "\x12\x07testing", 9},
	{"a message of nothing", put_empty, "\x2a\x00", 2},
	{"a message in one", put_inner, "\x1a\x03\x08\x96\x01", 5},
	{"numbers behind each other, and none", put_packed, "\x32\x06\x03\x8e\x02\x9e\xa7\x05\x32\x00", 10},
	{"plain bytes", put_print, "a=7", 3},
};

START_TEST(test_rows)
{
	struct protobuf_writer w = {0};
	rows[_i].put(&w);
	ck_assert(!w.failed);
	ck_assert_msg(w.len == rows[_i].len && !memcmp(w.len ? w.bytes : (uint8_t *)"", rows[_i].bytes, w.len), "%s",
		rows[_i].scenario);
	protobuf_writer_done(&w);
}
END_TEST

START_TEST(test_grows)
{
	struct protobuf_writer w = {0}, out = {0};
	struct pb_field f;
	char text[1000];
	const int fds = fd_count();
	memset(text, 'x', sizeof(text));
	for (unsigned i = 0; i < 1000; i++) {
		protobuf_writer_bytes(&w, 1, text, i);
		protobuf_writer_number(&w, 2, i);
	}
	protobuf_writer_message(&out, 7, &w);
	struct pb m = pb_of(out.bytes, out.len);
	ck_assert(pb_next(&m, &f) && pb_is(&f, 7) && !pb_next(&m, &(struct pb_field){0}));
	struct pb in = pb_inside(&f);
	for (unsigned i = 0; i < 1000; i++) {
		ck_assert(pb_next(&in, &f) && pb_is(&f, 1));
		ck_assert_uint_eq(f.len, i);
		ck_assert(!i || (pb_next(&in, &f) && f.value == i));
	}
	ck_assert(!pb_next(&in, &f) && !in.bad);
	protobuf_writer_clear(&w);
	ck_assert_uint_eq(w.len, 0);
	ck_assert_ptr_nonnull(w.bytes);
	protobuf_writer_done(&w);
	protobuf_writer_done(&out);
	ck_assert_ptr_null(w.bytes);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* What failed stays failed, and so does what it is put into. */
START_TEST(test_failed)
{
	struct protobuf_writer w = {.failed = true}, out = {0};
	protobuf_writer_number(&w, 1, 5);
	protobuf_writer_text(&w, 2, "text");
	protobuf_writer_print(&w, "%d", 5);
	protobuf_writer_clear(&w);
	ck_assert_uint_eq(w.len, 0);
	protobuf_writer_message(&out, 1, &w);
	ck_assert(out.failed);
	protobuf_writer_done(&w);
	protobuf_writer_done(&out);
}
END_TEST

UNIT_SUITE(protobuf_writer)
{
	Suite *s = suite_create("protobuf_writer");
	TCase *t = tcase_create("protobuf_writer");
	tcase_add_loop_test(t, test_rows, 0, N(rows));
	tcase_add_test(t, test_grows);
	tcase_add_test(t, test_failed);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/protobuf.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static const struct reading {
	const char *scenario, *bytes;
	size_t len;
	int fields; /* before its end */
	bool bad;
} readings[] = {
	{"nothing", "", 0, 0, false},
	{"a number", "\x08\x96\x01", 3, 1, false},
	{"a string", "\x12\x02hi", 4, 1, false},
	{"an empty string at the end", "\x12\x00", 2, 1, false},
	{"fixed sizes",
		"\x09"
		"12345678"
		"\x15"
		"1234",
		14, 2, false},
	{"a key that does not end", "\x88", 1, 0, true},
	{"a number that does not end", "\x08\x96", 2, 0, true},
	{"a number of eleven bytes", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, 0, true},
	{"a string longer than what is there", "\x12\x03hi", 4, 0, true},
	{"a string of 2^63 bytes", "\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, 0, true},
	{"eight bytes of which seven are there",
		"\x09"
		"1234567",
		8, 0, true},
	{"a group", "\x0b\x0c", 2, 0, true},
	{"field 0", "\x00\x01", 2, 0, true},
	{"a field number beyond 32 bits", "\x80\x80\x80\x80\x80\x80\x01\x01", 8, 0, true},
	{"something good before it", "\x08\x01\x12\x09x", 5, 1, true},
};

START_TEST(read_all)
{
	const struct reading *c = &readings[_i];
	char *own = malloc(c->len ? c->len : 1); /* ends where the message does */
	struct pb_field f;
	int n = 0;
	memcpy(own, c->bytes, c->len);
	struct pb m = pb_of(own, c->len);
	while (pb_next(&m, &f))
		n++;
	ck_assert_msg(n == c->fields && m.bad == c->bad, "%s: %d fields, bad %d", c->scenario, n, m.bad);
	ck_assert(!pb_next(&m, &f));
	free(own);
}
END_TEST

START_TEST(what_is_written_is_read)
{
	static const uint64_t numbers[] = {1, 127, 128, 300, UINT32_MAX, UINT64_MAX};
	uint8_t inner[16], buf[128];
	struct protobuf_writer i = protobuf_writer_fixed(inner, sizeof(inner)),
			       o = protobuf_writer_fixed(buf, sizeof(buf));
	struct pb_field f, key, value;
	for (size_t n = 0; n < LENGTH(numbers); n++)
		protobuf_writer_number(&o, 100 + (uint32_t)n, numbers[n]);
	protobuf_writer_text(&i, 1, "key");
	protobuf_writer_bytes(&i, 2, "a\0b", 3);
	protobuf_writer_message(&o, 7, &i);
	ck_assert(!o.failed);
	struct pb m = pb_of(o.bytes, o.len);
	for (size_t n = 0; n < LENGTH(numbers); n++) {
		ck_assert(pb_next(&m, &f));
		ck_assert(f.number == 100 + n && f.type == PB_VARINT && f.value == numbers[n]);
	}
	ck_assert(pb_next(&m, &f) && pb_is(&f, 7));
	ck_assert_int_eq(pb_pair(&f, &key, &value), 0);
	ck_assert(pb_equals(&key, "key"));
	ck_assert(value.len == 3 && !memcmp(value.data, "a\0b", 3) && !pb_equals(&value, "a"));
	ck_assert(!pb_next(&m, &f) && !m.bad);
}
END_TEST

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

START_TEST(written_bytes)
{
	struct protobuf_writer w = {0};
	rows[_i].put(&w);
	ck_assert(!w.failed);
	ck_assert_msg(w.len == rows[_i].len && !memcmp(w.len ? w.bytes : (uint8_t *)"", rows[_i].bytes, w.len), "%s",
		rows[_i].scenario);
	protobuf_writer_done(&w);
}
END_TEST

START_TEST(a_writer_grows)
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
START_TEST(what_failed_stays_failed)
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

START_TEST(what_does_not_fit)
{
	uint8_t buf[8] = {0};
	struct protobuf_writer o = protobuf_writer_fixed(buf, 7), small = protobuf_writer_fixed(buf, 0);
	protobuf_writer_text(&o, 1, "12345");
	ck_assert(!o.failed && o.len == 7);
	protobuf_writer_number(&o, 1, 1);
	protobuf_writer_text(&o, 1, "");
	ck_assert(o.failed && o.len == 7 && buf[7] == 0);
	o = protobuf_writer_fixed(buf, 3);
	protobuf_writer_number(&o, 1, 128);
	ck_assert(!o.failed && o.len == 3);
	protobuf_writer_number(&small, 1, 1);
	o = protobuf_writer_fixed(buf, 8);
	protobuf_writer_message(&o, 1, &small); /* what is not whole makes what it is in not whole */
	ck_assert(o.failed);
}
END_TEST

UNIT_SUITE(protobuf)
{
	Suite *s = suite_create("protobuf");
	TCase *t = tcase_create("protobuf");
	tcase_add_loop_test(t, read_all, 0, LENGTH(readings));
	tcase_add_test(t, what_is_written_is_read);
	tcase_add_loop_test(t, written_bytes, 0, LENGTH(rows));
	tcase_add_test(t, a_writer_grows);
	tcase_add_test(t, what_failed_stays_failed);
	tcase_add_test(t, what_does_not_fit);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/protobuf.h"

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
	static const uint64_t numbers[] = {0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX};
	uint8_t inner[16], buf[128];
	struct pb_out i = {.buf = inner, .size = sizeof(inner)}, o = {.buf = buf, .size = sizeof(buf)};
	struct pb_field f, key, value;
	for (size_t n = 0; n < LENGTH(numbers); n++)
		pb_put_number(&o, 100 + (uint32_t)n, numbers[n]);
	pb_put_text(&i, 1, "key");
	pb_put_bytes(&i, 2, "a\0b", 3);
	pb_put_message(&o, 7, &i);
	ck_assert(!o.full);
	struct pb m = pb_of(o.buf, o.len);
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

START_TEST(what_does_not_fit)
{
	uint8_t buf[8] = {0};
	struct pb_out o = {.buf = buf, .size = 7}, small = {.buf = buf, .size = 0};
	pb_put_text(&o, 1, "12345");
	ck_assert(!o.full && o.len == 7);
	pb_put_number(&o, 1, 1);
	pb_put_text(&o, 1, "");
	ck_assert(o.full && o.len == 7 && buf[7] == 0);
	pb_put_number(&small, 1, 1);
	o = (struct pb_out){.buf = buf, .size = 8};
	pb_put_message(&o, 1, &small); /* what is not whole makes what it is in not whole */
	ck_assert(o.full);
}
END_TEST

UNIT_SUITE(protobuf)
{
	Suite *s = suite_create("protobuf");
	TCase *t = tcase_create("protobuf");
	tcase_add_loop_test(t, read_all, 0, LENGTH(readings));
	tcase_add_test(t, what_is_written_is_read);
	tcase_add_test(t, what_does_not_fit);
	suite_add_tcase(s, t);
	return s;
}

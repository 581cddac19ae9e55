/* SPDX-License-Identifier: Apache-2.0 */
/* debugdata: what liblzma packed comes out again; cut, damaged, not xz, and bombs do not. */
#include "profiler/elf/minidebuginfo.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint8_t *pack(const uint8_t *data, size_t size, uint32_t preset, size_t *ret)
{
	size_t room = lzma_stream_buffer_bound(size);
	uint8_t *out = malloc(room);
	*ret = 0;
	ck_assert_int_eq(lzma_easy_buffer_encode(preset, LZMA_CHECK_CRC64, NULL, data, size, out, ret, room), LZMA_OK);
	return out;
}

static int unpack(const uint8_t *packed, size_t size, uint8_t **ret, size_t *ret_size, struct err *e)
{
	struct elf_memory m = {packed, size};
	*ret = NULL;
	return minidebuginfo_unpack(elf_source_memory(&m), 0, size, ret, ret_size, e);
}

/* Text, and then zeros. */
static uint8_t *text(size_t size, size_t zeros)
{
	uint8_t *data = calloc(1, size + zeros + 1);
	uint64_t state = 1;
	for (size_t i = 0; i < size; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		data[i] = "etaoinshrdlu_:<>"[state >> 60];
	}
	return data;
}

static const size_t sizes[] = {0, 1, 1000, 65535, 65536, 65537, 1 << 20, (1 << 20) + 1, 2500000};

START_TEST(as_it_was)
{
	size_t n = sizes[_i], packed_size, size;
	uint8_t *data = text(n, 0), *packed = pack(data, n, 0, &packed_size), *out;
	struct err e = {0};
	ck_assert_msg(unpack(packed, packed_size, &out, &size, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(size, n);
	ck_assert(!n || !memcmp(out, data, n));
	free(out);
	free(packed);
	free(data);
}
END_TEST

START_TEST(cut_or_damaged)
{
	enum { SIZE = 3000 };
	size_t packed_size, size;
	uint8_t *data = text(SIZE, 0), *packed = pack(data, SIZE, 0, &packed_size), *out;
	for (size_t n = 0; n < packed_size; n++) {
		uint8_t *exact = malloc(n ? n : 1);
		memcpy(exact, packed, n);
		ck_assert_int_eq(unpack(exact, n, &out, &size, NULL), -EBADMSG);
		free(exact);
		packed[n] ^= 0x10;
		int r = unpack(packed, packed_size, &out, &size, NULL);
		ck_assert_msg(r == -EBADMSG || r == -EFBIG, "byte %zu: %d", n, r);
		packed[n] ^= 0x10;
	}
	free(packed);
	free(data);
}
END_TEST

START_TEST(not_xz)
{
	struct err e = {0};
	size_t size;
	uint8_t *out;
	ck_assert_int_eq(unpack((const uint8_t *)"\177ELF, as it is", 15, &out, &size, &e), -EBADMSG);
	ck_assert_str_eq(e.text, ".gnu_debugdata: not xz, or damaged");
}
END_TEST

/* An honest ratio above the file's size; a ratio beyond belief; and what would come to more than the limit. */
static const struct {
	const char *name;
	size_t zeros, noise;
	uint32_t preset;
	int expect;
} bombs[] = {
	{"a mebibyte of zeros", MINIDEBUGINFO_SMALL, 0, 0, 0},
	{"one byte more", MINIDEBUGINFO_SMALL + 1, 0, 0, -EFBIG},
	{"64 MiB of zeros", MINIDEBUGINFO_MAX, 0, 0, -EFBIG},
	{"zeros and enough noise", 20 << 20, 2 << 20, 0, 0},
	{"zeros and too little noise", 60 << 20, 1 << 20, 0, -EFBIG},
	{"more than the limit", 63 << 20, 6 << 20, 0, -EFBIG},
	{"a dictionary of 64 MiB", 1000, 0, 9, -EFBIG},
};

START_TEST(bomb)
{
	size_t n = bombs[_i].zeros + bombs[_i].noise, packed_size, size;
	uint8_t *data = text(bombs[_i].noise, bombs[_i].zeros), *out;
	uint8_t *packed = pack(data, n, bombs[_i].preset, &packed_size);
	struct err e = {0};
	int r = unpack(packed, packed_size, &out, &size, &e);
	ck_assert_msg(r == bombs[_i].expect, "%s: %d (%s), %zu packed", bombs[_i].name, r, e.text, packed_size);
	free(out);
	free(packed);
	free(data);
}
END_TEST

START_TEST(beyond_the_file)
{
	static const uint8_t magic[] = {0xfd, '7', 'z', 'X', 'Z', 0};
	struct elf_memory m = {magic, sizeof(magic)};
	size_t size;
	uint8_t *out;
	ck_assert_int_eq(minidebuginfo_unpack(elf_source_memory(&m), 0, 1ull << 60, &out, &size, NULL), -EBADMSG);
	ck_assert_int_eq(minidebuginfo_unpack(elf_source_memory(&m), UINT64_MAX, 100, &out, &size, NULL), -EBADMSG);
}
END_TEST

UNIT_SUITE(minidebuginfo)
{
	Suite *s = suite_create("minidebuginfo");
	TCase *t = tcase_create("minidebuginfo");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, as_it_was, 0, COUNT(sizes));
	tcase_add_test(t, cut_or_damaged);
	tcase_add_test(t, not_xz);
	tcase_add_loop_test(t, bomb, 0, COUNT(bombs));
	tcase_add_test(t, beyond_the_file);
	suite_add_tcase(s, t);
	return s;
}

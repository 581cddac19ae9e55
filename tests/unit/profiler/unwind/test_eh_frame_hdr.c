/* SPDX-License-Identifier: Apache-2.0 */
/* cfi: which frame descriptions are found, and which are not let through to the evaluator. */
#include "profiler/unwind/eh_frame_hdr.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BASE 0x1000u  /* .eh_frame_hdr */
#define FRAME 0x1100u /* .eh_frame */
#define CODE 0x5000u

/* A table of one entry, one CIE ("zR", pc-relative), one FDE with the row's instructions. */
struct image {
	uint8_t hdr[20], frame[256];
	size_t frame_size;
};

struct text {
	size_t len;
	const char *bytes;
};
#define TEXT(s)                                                                                                        \
	{                                                                                                              \
		sizeof(s) - 1, s                                                                                       \
	}

static void put(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, 4);
}

static void build(struct image *im, struct text cie, struct text instructions)
{
	memset(im, 0, sizeof(*im));
	memcpy(im->hdr, "\1\x1b\3\x3b", 4);
	put(im->hdr + 8, 1);
	put(im->hdr + 12, CODE - BASE);
	uint8_t *f = im->frame;
	put(f, (uint32_t)(4 + cie.len));
	memcpy(f + 8, cie.bytes, cie.len);
	uint32_t fde = (uint32_t)(8 + cie.len);
	put(im->hdr + 16, FRAME + fde - BASE);
	put(f + fde, (uint32_t)(4 + 4 + 4 + 1 + instructions.len));
	put(f + fde + 4, fde + 4);
	put(f + fde + 8, CODE - (FRAME + fde + 8));
	put(f + fde + 12, 0x100);
	memcpy(f + fde + 17, instructions.bytes, instructions.len);
	im->frame_size = fde + 17 + instructions.len;
}

static int find(struct image *im, size_t hdr_size, size_t frame_size, uint64_t vaddr, uint64_t *entry)
{
	struct elf *f = calloc(1, sizeof(*f));
	/* heap copies of the exact size, so that a sanitizer sees a byte too many */
	f->eh_frame_hdr = (struct elf_section){BASE, hdr_size, malloc(hdr_size + !hdr_size)};
	f->eh_frame = (struct elf_section){FRAME, frame_size, malloc(frame_size + !frame_size)};
	memcpy(f->eh_frame_hdr.data, im->hdr, hdr_size);
	memcpy(f->eh_frame.data, im->frame, frame_size);
	int r = eh_frame_hdr_find(f, vaddr, entry);
	free(f->eh_frame_hdr.data);
	free(f->eh_frame.data);
	free(f);
	return r;
}

#define CIE_PLAIN "\1zR\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"

#define EIGHT(s) s s s s s s s s
#define REMEMBERED EIGHT(EIGHT("\n")) "\n"
#define RESTORED EIGHT("\n\v\n\v\n\v")

static const struct {
	const char *name;
	struct text cie, instructions;
	int expect;
} rows[] = {
	{"push, push", TEXT(CIE_PLAIN), TEXT("A\x0e\x10\x86\2C\x0d\6"), 0},
	{"no instructions", TEXT(CIE_PLAIN), TEXT(""), 0},
	{"the PLT: rsp + 8 + ((rip & 15) >= 11) << 3", TEXT(CIE_PLAIN),
		TEXT("\x0f\x0b\x77\x08\x80\0\x3f\x1a\x3b\x2a\x33\x24\x22"), 0},
	{"a personality and a language area", TEXT("\1zPLR\0\1\x78\x10\7\x9b\1\2\3\4\x1b\x1b\x0c\7\10\x90\1"),
		TEXT("A"), 0},
	{"a signal frame", TEXT("\1zRS\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), TEXT("A"), 0},
	{"version 3", TEXT("\3zR\0\1\x78\x10\1\x1b\x0c\7\10\x90\1"), TEXT("A"), 0},
	{"a state remembered and restored again and again", TEXT(CIE_PLAIN), TEXT(RESTORED RESTORED RESTORED), 0},
	{"more states remembered than anybody needs", TEXT(CIE_PLAIN), TEXT(REMEMBERED), -EBADMSG},
	{"a state restored that nobody remembered", TEXT(CIE_PLAIN), TEXT("\n\v\v"), -EBADMSG},
	{"an expression that divides", TEXT(CIE_PLAIN), TEXT("\x0f\3\x31\x31\x1b"), -EBADMSG},
	{"an expression that takes a remainder", TEXT(CIE_PLAIN), TEXT("\x0f\3\x31\x31\x1d"), -EBADMSG},
	{"an expression that jumps back to itself", TEXT(CIE_PLAIN), TEXT("\x0f\3\x2f\xfd\xff"), -EBADMSG},
	{"an expression that branches", TEXT(CIE_PLAIN), TEXT("\x16\x10\4\x31\x28\xfc\xff"), -EBADMSG},
	{"an expression in the CIE that divides", TEXT("\1zR\0\1\x78\x10\1\x1b\x0f\3\x31\x31\x1b"), TEXT("A"),
		-EBADMSG},
	{"an expression longer than its section", TEXT(CIE_PLAIN), TEXT("\x0f\x20\x31"), -EBADMSG},
	{"an expression of a length that wraps", TEXT(CIE_PLAIN), TEXT("\x0f\xf0\xff\xff\xff\xff\xff\xff\xff\xff\1"),
		-EBADMSG},
	{"an operand of an expression cut off", TEXT(CIE_PLAIN), TEXT("\x0f\2\x77\x80\1"), -EBADMSG},
	{"an unknown instruction", TEXT(CIE_PLAIN), TEXT("\x3c"), -EBADMSG},
	{"an instruction cut off", TEXT(CIE_PLAIN), TEXT("\x0c\7"), -EBADMSG},
	{"a frame address in register 99", TEXT(CIE_PLAIN), TEXT("\x0c\x63\1"), -EBADMSG},
	{"a number that does not end", TEXT(CIE_PLAIN), TEXT("\x0e\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		-EBADMSG},
	{"an unknown letter in the augmentation", TEXT("\1zX\0\1\x78\x10\1\x1b"), TEXT("A"), -EBADMSG},
	{"an augmentation that does not end", TEXT("\1zRRRRRRRRRR"), TEXT("A"), -EBADMSG},
	{"a version of the future", TEXT("\7zR\0\1\x78\x10\1\x1b"), TEXT("A"), -EBADMSG},
	{"addresses to be read from memory", TEXT("\1zR\0\1\x78\x10\1\x9b"), TEXT("A"), -EBADMSG},
};

START_TEST(what_is_let_through)
{
	struct image im;
	uint64_t entry = 0;
	int fds = fd_count();
	build(&im, rows[_i].cie, rows[_i].instructions);
	int r = find(&im, sizeof(im.hdr), im.frame_size, CODE, &entry);
	ck_assert_msg(r == rows[_i].expect, "%s: %d", rows[_i].name, r);
	ck_assert_uint_eq(entry, r ? 0 : BASE + 12);
	/* cut anywhere: never a byte beyond, and found only when whole */
	for (size_t n = 0; n < im.frame_size; n++)
		ck_assert_msg(find(&im, sizeof(im.hdr), n, CODE, &entry) < 0, "%s cut at %zu", rows[_i].name, n);
	for (size_t n = 0; n < sizeof(im.hdr); n++)
		ck_assert_int_lt(find(&im, n, im.frame_size, CODE, &entry), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(the_search)
{
	struct image im;
	uint64_t entry;
	int fds = fd_count();
	build(&im, rows[0].cie, rows[0].instructions);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE - 1, &entry), -ENOENT);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE + 0xff, &entry), 0);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE + 0x100, &entry), -ENOENT);
	ck_assert_int_eq(find(&im, 20, im.frame_size, UINT64_MAX, &entry), -ENOENT);
	struct elf *bare = calloc(1, sizeof(*bare));
	ck_assert_int_eq(eh_frame_hdr_find(bare, CODE, &entry), -ENOENT);
	free(bare);
	put(im.hdr + 8, UINT32_MAX);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE, &entry), 0); /* a count beyond the section is cut */
	put(im.hdr + 16, UINT32_MAX);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE, &entry), -EBADMSG); /* below .eh_frame */
	put(im.hdr + 16, 0x7fffffff);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE, &entry), -EBADMSG); /* above */
	put(im.hdr + 16, FRAME - BASE);
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE, &entry), -EBADMSG); /* a CIE is no FDE */
	im.hdr[3] = 0x1b;
	ck_assert_int_eq(find(&im, 20, im.frame_size, CODE, &entry), -ENOENT); /* not sorted by datarel sdata4 */
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(where_a_function_begins_and_ends)
{
	struct image im;
	uint64_t start = 0, end = 0;
	build(&im, rows[0].cie, rows[0].instructions);
	struct elf f = {.eh_frame_hdr = {BASE, sizeof(im.hdr), im.hdr}, .eh_frame = {FRAME, im.frame_size, im.frame}};
	ck_assert_int_eq(eh_frame_hdr_last(&f, CODE - 1, &start, &end), -ENOENT);
	ck_assert_uint_eq(start, 0);
	for (uint64_t vaddr = CODE; vaddr < CODE + 0x200; vaddr += 0x40) { /* also behind its end */
		ck_assert_int_eq(eh_frame_hdr_last(&f, vaddr, &start, &end), 0);
		ck_assert_uint_eq(start, CODE);
		ck_assert_uint_eq(end, CODE + 0x100);
	}
	f.eh_frame.size = 20; /* the entry is cut off: nothing says where its code ends */
	ck_assert_int_eq(eh_frame_hdr_last(&f, CODE, &start, &end), -EBADMSG);
}
END_TEST

UNIT_SUITE(eh_frame_hdr)
{
	Suite *suite = suite_create("eh_frame_hdr");
	TCase *t = tcase_create("eh_frame_hdr");
	tcase_add_loop_test(t, what_is_let_through, 0, sizeof(rows) / sizeof(*rows));
	tcase_add_test(t, the_search);
	tcase_add_test(t, where_a_function_begins_and_ends);
	suite_add_tcase(suite, t);
	return suite;
}

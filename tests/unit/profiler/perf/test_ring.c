/* SPDX-License-Identifier: Apache-2.0 */
/* A memfd of the buffer's shape plays the kernel. */
#include "profiler/perf/ring.h"

#include "oci/base/fd.h"
#include "tests/unit/support/no_memory.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define PAGES 2

static int fds;
static size_t size; /* of the data */

static struct kernel {
	int fd;
	struct perf_event_mmap_page *page;
	uint8_t *data;
	uint64_t head;
} k;

static struct ring *ring;

static void start_at(uint64_t position)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size = PAGES * page;
	k.fd = memfd_create("ring", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(k.fd, (off_t)(page + size)), 0);
	k.page = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, k.fd, 0);
	ck_assert_ptr_ne(k.page, MAP_FAILED);
	k.data = (uint8_t *)k.page + page;
	k.head = k.page->data_head = k.page->data_tail = position;
	ck_assert_int_eq(ring_open(k.fd, PAGES, &ring), 0);
}

static void begin(void)
{
	fds = fd_count();
}

static void end(void)
{
	ring = ring_close(ring);
	ck_assert_ptr_null(ring);
	if (k.page)
		munmap(k.page, (size_t)sysconf(_SC_PAGESIZE) + size);
	k.fd = fd_close(k.fd);
	ck_assert_int_eq(fd_count(), fds);
}

/* As the kernel copies: byte by byte around the end. */
static void copy_in(uint64_t at, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		k.data[(at + i) % size] = ((const uint8_t *)bytes)[i];
}

/* A record of n bytes, its body counting up from `seed`. */
static const uint8_t *make(uint16_t n, uint8_t seed)
{
	static uint8_t bytes[65536];
	struct perf_event_header h = {.type = PERF_RECORD_SAMPLE, .misc = seed, .size = n};
	memcpy(bytes, &h, sizeof(h));
	for (size_t i = sizeof(h); i < n; i++)
		bytes[i] = (uint8_t)(seed + i);
	return bytes;
}

/* Written, not yet published. */
static void add(uint16_t n, uint8_t seed)
{
	copy_in(k.head, make(n, seed), n);
	k.head += n;
}

static void publish(void)
{
	__atomic_store_n(&k.page->data_head, k.head, __ATOMIC_RELEASE);
}

static void expect(uint16_t n, uint8_t seed)
{
	const struct perf_event_header *h = ring_peek(ring);
	ck_assert_ptr_nonnull(h);
	ck_assert_uint_eq(h->size, n);
	ck_assert_int_eq(memcmp(h, make(n, seed), n), 0);
	ck_assert_ptr_eq(ring_peek(ring), h); /* still there */
}

START_TEST(empty_until_published_and_until_looked)
{
	start_at(0);
	ck_assert_ptr_null(ring_peek(ring));
	ring_look(ring);
	ck_assert_ptr_null(ring_peek(ring));
	add(40, 1);
	ring_look(ring);
	ck_assert_ptr_null(ring_peek(ring));
	publish();
	ck_assert_ptr_null(ring_peek(ring));
	ring_look(ring);
	expect(40, 1);
	ck_assert_uint_eq(k.page->data_tail, 0); /* its room is not given back before it was taken */
	ring_take(ring);
	ck_assert_uint_eq(k.page->data_tail, 40);
	ck_assert_ptr_null(ring_peek(ring));
	ck_assert_uint_eq(ring_bytes(ring), 40);
	ck_assert_uint_eq(ring_damaged(ring), 0);
}
END_TEST

/* Begin so many bytes before the end of the buffer; positions grow for ever, and around 64 bits. */
static const uint64_t starts[] = {8, 16, 24, 40, 48, 64};
static const uint64_t rounds[] = {0, 1, 1000000, UINT64_MAX / 8192};

START_TEST(a_record_across_the_end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t round = rounds[(size_t)_i / LENGTH(starts)], before = starts[(size_t)_i % LENGTH(starts)];

	start_at(round * PAGES * page + PAGES * page - before);
	add(16, 1);
	add(40, 2);
	add(24, 3);
	publish();
	ring_look(ring);
	expect(16, 1);
	ring_take(ring);
	expect(40, 2);
	ring_take(ring);
	expect(24, 3);
	ring_take(ring);
	ck_assert_ptr_null(ring_peek(ring));
	ck_assert_uint_eq(k.page->data_tail, k.head);
	ck_assert_uint_eq(ring_damaged(ring), 0);
}
END_TEST

START_TEST(many_times_around)
{
	start_at(0);
	for (unsigned i = 0; i < 2000; i++) {
		uint16_t n = (uint16_t)(8 + i * 56 % 4000 / 8 * 8);
		add(n, (uint8_t)i);
		publish();
		ring_look(ring);
		expect(n, (uint8_t)i);
		ring_take(ring);
	}
	ck_assert_uint_eq(ring_bytes(ring), k.head);
	ck_assert_uint_eq(ring_damaged(ring), 0);
}
END_TEST

START_TEST(full_to_the_last_byte)
{
	start_at(PAGES * 4096 * 3 - 64);
	for (size_t i = 0; i < size / 64; i++)
		add(64, (uint8_t)i);
	publish();
	ring_look(ring);
	for (size_t i = 0; i < size / 64; i++) {
		expect(64, (uint8_t)i);
		ring_take(ring);
	}
	ck_assert_ptr_null(ring_peek(ring));
	add((uint16_t)(size - 8), 9); /* as large as the buffer, nearly, and across its end */
	publish();
	ring_look(ring);
	expect((uint16_t)(size - 8), 9);
	ring_take(ring);
	ck_assert_uint_eq(ring_damaged(ring), 0);
}
END_TEST

/* One good record, then one of such a size, then a good one; head so many bytes further than it should be. */
static const struct {
	const char *scenario;
	int size;
	int64_t further;
} broken[] = {
	{"size 0", 0, 0},
	{"smaller than its header", 4, 0},
	{"a size that leaves the next header across the end", 44, 0},
	{"beyond the head", 4096, 0},
	{"8 bytes beyond the head", 40 + 24 + 8, 0},
	{"larger than the buffer", 65528, 0},
	{"the largest", 65535, 0},
	{"the head is half a header behind", 40, -(40 + 24 - 4)},
	{"the writer overtook the reader", 40, 1 << 20},
	{"the head is far away", 40, INT64_MAX},
	{"the head went back", 40, -(40 + 24 + 48 + 1000)},
};

START_TEST(what_cannot_be_is_skipped_up_to_the_head)
{
	start_at(PAGES * 4096 - 48);
	add(48, 1);
	struct perf_event_header h = {.type = PERF_RECORD_SAMPLE, .size = (uint16_t)broken[_i].size};
	copy_in(k.head, &h, sizeof(h));
	k.head += 40;
	add(24, 3);
	k.head += (uint64_t)broken[_i].further;
	publish();
	ring_look(ring);
	if (broken[_i].further <= 0 && broken[_i].further > -200) {
		expect(48, 1);
		ring_take(ring);
	}
	ck_assert_msg(!ring_peek(ring), "%s", broken[_i].scenario);
	ck_assert_uint_eq(ring_damaged(ring), 1);
	ck_assert_uint_eq(k.page->data_tail, k.head);
	ck_assert_ptr_null(ring_peek(ring));
	ck_assert_uint_eq(ring_damaged(ring), 1);
	/* and on it goes */
	k.head = (k.head + 7) / 8 * 8;
	k.page->data_head = k.head;
	ring_look(ring);
	while (ring_peek(ring))
		ring_take(ring);
	add(32, 4);
	publish();
	ring_look(ring);
	expect(32, 4);
	ring_take(ring);
}
END_TEST

/* The memory is shared: a size that changes after the check must not be believed, nor a tail somebody else moves. */
START_TEST(the_tail_is_ours)
{
	start_at(0);
	add(40, 1);
	add(40, 2);
	publish();
	ring_look(ring);
	expect(40, 1);
	k.page->data_tail = 12345;
	ring_take(ring);
	ck_assert_uint_eq(k.page->data_tail, 40);
	expect(40, 2);
	ck_assert_ptr_nonnull(ring_peek(ring));
	((struct perf_event_header *)(k.data + 40))->size = 8;
	ring_take(ring);
	ck_assert_uint_eq(ring_bytes(ring), 80);
}
END_TEST

START_TEST(what_cannot_be_mapped)
{
	struct ring *r = NULL;
	start_at(0);
	ck_assert_int_eq(ring_open(-1, PAGES, &r), -EBADF);
	ck_assert_int_lt(ring_open(0, SIZE_MAX / 8192, &r), 0);
	ck_assert_ptr_null(r);
	ck_assert_ptr_null(ring_close(NULL));
}
END_TEST

static void open_without_memory(const void *arg)
{
	struct ring *r = NULL;
	take_memory(0);
	MUST(ring_open(-1, 1, &r) == -ENOMEM && !r);
}

START_TEST(without_memory_there_is_no_ring)
{
	if (memory_can_end())
		ck_assert_int_eq(in_child(open_without_memory, NULL), 0);
}
END_TEST

UNIT_SUITE(ring)
{
	Suite *s = suite_create("ring");
	TCase *t = tcase_create("ring"), *memory = tcase_create("memory");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, empty_until_published_and_until_looked);
	tcase_add_loop_test(t, a_record_across_the_end, 0, LENGTH(starts) * LENGTH(rounds));
	tcase_add_test(t, many_times_around);
	tcase_add_test(t, full_to_the_last_byte);
	tcase_add_loop_test(t, what_cannot_be_is_skipped_up_to_the_head, 0, LENGTH(broken));
	tcase_add_test(t, the_tail_is_ours);
	tcase_add_test(t, what_cannot_be_mapped);
	suite_add_tcase(s, t);
	tcase_add_test(memory, without_memory_there_is_no_ring);
	suite_add_tcase(s, memory);
	return s;
}

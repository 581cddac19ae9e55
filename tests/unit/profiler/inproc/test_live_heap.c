/* SPDX-License-Identifier: Apache-2.0 */
/* inuse: by the slots of an area what is in use, and where; over windows, many that come and go, and a journal. */
#include "profiler/inproc/live_heap.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEAN 1000

static struct shm area;
static struct shm_reader inbox;
static struct live_heap u;
static struct aggregate *a;
static void *mapped;

static void begin(void)
{
	int fd = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fd, SHM_SIZE), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	mapped = mmap(NULL, SHM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(mapped, MAP_FAILED);
	shm_on(mapped, &area);
	*area.head = (struct shm_head){.magic = SHM_MAGIC, .version = SHM_VERSION, .pid = 1};
	ck_assert_int_eq(shm_reader_open(fd, &inbox), 0);
	ck_assert_int_eq(aggregate_new(&a), 0);
}

static void end(void)
{
	live_heap_done(&u);
	aggregate_free(a);
	shm_reader_close(&inbox);
	munmap(mapped, SHM_SIZE);
}

static int64_t place(uint64_t address)
{
	const struct stack_frame f = {.kind = FRAME_KERNEL, .vaddr = address};
	return aggregate_put(a, &f, 1);
}

static void slot(uint32_t i, uint64_t id, uint64_t bytes)
{
	area.slots[i] = (struct shm_slot){.at = id ? 0x1000 + i : 0, .id = id, .bytes = bytes};
	area.head->slots = i + 1 > area.head->slots ? i + 1 : area.head->slots;
}

/* Bytes at a place; 0: of unknown ones */
static uint64_t bytes_at(uint64_t address)
{
	uint64_t sum = 0;
	struct aggregate_sample s;
	for (size_t i = 0; i < aggregate_samples(a); i++) {
		aggregate_sample(a, i, &s);
		const struct stack_frame *f = aggregate_frame(a, s.frames[0]);
		if (address ? f->kind == FRAME_KERNEL && f->vaddr == address : f->kind == FRAME_SPECIAL)
			sum += s.weight;
	}
	return sum;
}

static uint64_t worth(uint64_t bytes)
{
	return live_heap_scaled(live_heap_stands_for(bytes, MEAN), bytes);
}

START_TEST(what_one_stands_for)
{
	static const struct {
		uint64_t bytes;
		double by;
	} rows[] = {{1, 1000.5}, {1000, 1.58198}, {10000, 1.0000454}, {1ull << 40, 1}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		ck_assert_double_eq_tol(live_heap_stands_for(rows[i].bytes, MEAN), rows[i].by, rows[i].by * 1e-4);
	ck_assert_double_eq(live_heap_stands_for(0, MEAN), 0);
	ck_assert_uint_eq(live_heap_parts(1.5), 1536);
	ck_assert_uint_eq(live_heap_scaled(1e9, UINT64_MAX), 1ull << 60);
}
END_TEST

START_TEST(in_use_freed_and_lost)
{
	live_heap_add(&u, &inbox, 7, 500, place(0x10));
	live_heap_add(&u, &inbox, 5, 800, place(0x20));
	slot(0, 7, 500);
	slot(1, 9, 300); /* whose sample never came */
	live_heap_count(&u, &inbox, MEAN, a);
	ck_assert_uint_eq(bytes_at(0x10), worth(500));
	ck_assert_uint_eq(bytes_at(0x20), 0);
	ck_assert_uint_eq(bytes_at(0), worth(300));
	ck_assert_uint_eq(u.n, 1);
}
END_TEST

START_TEST(the_next_window)
{
	struct aggregate *next;
	ck_assert_int_eq(aggregate_new(&next), 0);
	place(0x99);
	live_heap_add(&u, &inbox, 1, 500, place(0x10));
	live_heap_add(&u, &inbox, 2, 500, place(0x20));
	slot(0, 1, 500);
	live_heap_count(&u, &inbox, MEAN, a);
	live_heap_move(&u, a, next);
	aggregate_free(a);
	a = next;
	ck_assert_uint_eq(bytes_at(0x10), 0);
	live_heap_count(&u, &inbox, MEAN, a);
	ck_assert_uint_eq(bytes_at(0x10), worth(500));
	live_heap_move(&u, a, a); /* no memory for another one: it is about to be cleared */
	ck_assert_uint_eq(u.n, 0);
}
END_TEST

/* A million that are freed at once take no memory for it. */
START_TEST(come_and_go)
{
	const int64_t at = place(0x10);
	slot(0, 3, 500);
	for (uint64_t id = 1; id <= 1000000; id++)
		live_heap_add(&u, &inbox, id, 500, at);
	ck_assert_uint_le(u.room, 131072);
	live_heap_count(&u, &inbox, MEAN, a);
	ck_assert_uint_eq(u.n, 1);
	ck_assert_uint_eq(bytes_at(0x10), worth(500));
}
END_TEST

/* A full list is sorted out if at least half of it may have been freed; one allocation is still in use. */
static const struct {
	size_t n_used, then;
} full_lists[] = {{32768, 2}, {32769, 65537}};

START_TEST(a_full_list)
{
	const int64_t at = place(0x10);
	slot(0, 3, 500);
	for (uint64_t id = 1; id <= 65536; id++)
		live_heap_add(&u, &inbox, id, 500, at);
	ck_assert_uint_eq(u.room, u.n);
	u.n_used = full_lists[_i].n_used;
	live_heap_add(&u, &inbox, 65537, 500, at);
	ck_assert_uint_eq(u.n, full_lists[_i].then);
}
END_TEST

START_TEST(nobody_knows_what_was_freed)
{
	live_heap_add(&u, NULL, 1, 500, place(0x10));
	live_heap_add(&u, NULL, 2, 500, place(0x10));
	live_heap_count(&u, NULL, MEAN, a);
	ck_assert_uint_eq(bytes_at(0x10), 2 * worth(500));
	ck_assert_uint_eq(u.n, 2);
}
END_TEST

START_TEST(as_many_as_there_may_be)
{
	const int64_t at = place(0x10);
	struct live_heap full = {.n = 4u << 20, .room = 4u << 20}; /* what one more would be written to is not there */
	live_heap_add(&full, NULL, 1, 500, at);
	ck_assert_uint_eq(full.n, 4u << 20);
}
END_TEST

START_TEST(a_journal_has_all_of_them)
{
	const int files[2] = {memfd_create("journal", MFD_CLOEXEC), memfd_create("journal", MFD_CLOEXEC)};
	struct journal *j;
	struct live_heap back = {0};
	struct journal_reader all, s;
	uint32_t type;
	uint8_t *bytes;
	size_t size;
	int64_t seen;
	live_heap_add(&u, NULL, 1, 500, place(0x10));
	live_heap_add(&u, NULL, 2, 700, place(0x20));
	u.anew = true;
	ck_assert_int_eq(journal_open_take(dup(files[0]), dup(files[1]), &j), 0);
	journal_snapshot(j);
	journal_begin(j, 1);
	live_heap_save(&u, j);
	journal_end(j);
	ck_assert(journal_snapshot_done(j, 1));
	journal_close(j);
	ck_assert_int_eq(journal_open_take(files[0], files[1], &j), 0);
	ck_assert_int_eq(journal_read(j, &bytes, &size, &seen), 0);
	all = (struct journal_reader){.at = bytes, .end = bytes + size};
	ck_assert(saved_next(&all, &type, &s));
	live_heap_load(&back, &s, a);
	ck_assert(!s.bad);
	ck_assert_uint_eq(back.n, 2);
	live_heap_count(&back, NULL, MEAN, a);
	ck_assert_uint_eq(bytes_at(0x10), worth(500));
	ck_assert_uint_eq(bytes_at(0x20), worth(700));
	live_heap_done(&back);
	free(bytes);
	journal_close(j);
}
END_TEST

UNIT_SUITE(live_heap)
{
	Suite *s = suite_create("live_heap");
	TCase *c = tcase_create("live_heap");
	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, what_one_stands_for);
	tcase_add_test(c, in_use_freed_and_lost);
	tcase_add_test(c, the_next_window);
	tcase_add_test(c, come_and_go);
	tcase_add_loop_test(c, a_full_list, 0, sizeof(full_lists) / sizeof(full_lists[0]));
	tcase_add_test(c, nobody_knows_what_was_freed);
	tcase_add_test(c, as_many_as_there_may_be);
	tcase_add_test(c, a_journal_has_all_of_them);
	suite_add_tcase(s, c);
	return s;
}

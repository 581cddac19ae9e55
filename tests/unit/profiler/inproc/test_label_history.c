/* SPDX-License-Identifier: Apache-2.0 */
/* labelled: which labels a thread had when, by changes that its process tells of; none of it is trusted. */
#include "profiler/inproc/label_history.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct shm area;
static struct label_history labels;
static void *mapped;
static int memory;

static void begin(void)
{
	memory = memfd_create("area", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(memory, SHM_SIZE), 0);
	mapped = mmap(NULL, SHM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	ck_assert_ptr_ne(mapped, MAP_FAILED);
	shm_on(mapped, &area);
	memset(&labels, 0, sizeof(labels));
}

static void end(void)
{
	label_history_done(&labels);
	munmap(mapped, SHM_SIZE);
	fd_close(memory);
}

static void name(uint32_t set, const char *text)
{
	memcpy(area.sets[set - 1].text, text, strlen(text));
	area.sets[set - 1].size = (uint32_t)strlen(text);
}

static void change(uint32_t tid, uint64_t time, uint32_t set)
{
	const uint64_t n = area.head->changes++;
	area.changes[n % SHM_CHANGES] = (struct shm_change){n + 1, time, tid, set};
}

static struct label_history_limits limits = {.changes = UINT64_MAX, .threads = 65536};

static int read_until(uint64_t settled, uint64_t now)
{
	limits.settled = settled;
	limits.now = now;
	return label_history_read(&labels, memory, &limits);
}

#define AT(tid, time) label_history_at(&labels, memory, tid, time)

START_TEST(by_thread_and_time)
{
	name(1, "kind=a\n");
	name(2, "kind=b\n");
	change(7, 100, 1);
	change(8, 110, 2);
	change(7, 120, 2);
	change(7, 130, 0);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(7, 99), "");
	ck_assert_str_eq(AT(7, 100), "kind=a\n");
	ck_assert_str_eq(AT(7, 119), "kind=a\n");
	ck_assert_str_eq(AT(7, 120), "kind=b\n");
	ck_assert_str_eq(AT(7, 130), "");
	ck_assert_str_eq(AT(8, 500), "kind=b\n");
	ck_assert_str_eq(AT(9, 500), "");
}
END_TEST

START_TEST(what_is_old_is_one_moment)
{
	name(1, "kind=a\n");
	name(2, "kind=b\n");
	for (uint64_t i = 0; i < 20ull * SHM_CHANGES; i++) {
		change(7, 10 * i, 1 + i % 2);
		if (i % 100 == 99)
			ck_assert_int_eq(read_until(10 * i, UINT64_MAX), 0);
	}
	ck_assert_uint_eq(labels.lost, 0);
	ck_assert_str_eq(AT(7, UINT64_MAX), (20ull * SHM_CHANGES - 1) % 2 ? "kind=b\n" : "kind=a\n");
	ck_assert_uint_lt(pair_table_memory(&labels.tids), 4096);
}
END_TEST

START_TEST(more_than_there_is_room_for)
{
	name(1, "kind=a\n");
	change(7, 1, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	for (unsigned i = 0; i < SHM_CHANGES + 5; i++)
		change(8, 10 + i, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_uint_eq(labels.lost, 5);
	ck_assert_str_eq(AT(7, 100), ""); /* it may have had another one */
	ck_assert_str_eq(AT(8, 100), "kind=a\n");
}
END_TEST

START_TEST(whoever_comes_late_has_what_is_there)
{
	name(1, "kind=a\n");
	for (unsigned i = 0; i < 3 * SHM_CHANGES; i++)
		change(8, 10 + i, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_uint_eq(labels.lost, 0);
	ck_assert_str_eq(AT(8, UINT64_MAX), "kind=a\n");
}
END_TEST

START_TEST(one_that_is_not_there_yet)
{
	name(1, "kind=a\n");
	change(7, 100, 1);
	change(8, 100, 1);
	area.changes[0].number = 0;
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(8, 100), "");
	area.changes[0].number = 1;
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(7, 100), "kind=a\n");
	ck_assert_str_eq(AT(8, 100), "kind=a\n");
}
END_TEST

START_TEST(one_that_never_comes)
{
	name(1, "kind=a\n");
	change(7, 100, 1);
	change(8, 100, 1);
	area.changes[0].number = 0;
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(8, 100), "kind=a\n");
	ck_assert_uint_eq(labels.lost, 1);
}
END_TEST

START_TEST(a_thread_that_ended)
{
	name(1, "kind=a\n");
	change(7, 100, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	label_history_ended(&labels, 7, 200);
	label_history_ended(&labels, 9, 200);
	ck_assert_str_eq(AT(7, 150), "kind=a\n");
	ck_assert_str_eq(AT(7, 200), "");
	ck_assert_uint_eq(labels.tids.count, 1);
}
END_TEST

START_TEST(sets_that_are_none)
{
	name(1, "kind=\x01\n");
	name(2, "kind");
	name(3, "kind=a\n");
	area.sets[2].size = UINT32_MAX;
	for (uint32_t i = 1; i < 5; i++)
		change(i, 1, i);
	change(5, 1, SHM_SETS + 1);
	change(6, 1, UINT32_MAX);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	for (uint32_t i = 1; i < 7; i++)
		ck_assert_str_eq(AT(i, 1), "");
	ck_assert_str_eq(label_history_of(&labels, memory, UINT64_MAX), "");
	name(4, "kind=late\n"); /* it was not there yet, and may still come */
	ck_assert_str_eq(AT(4, 1), "kind=late\n");
}
END_TEST

START_TEST(times_that_go_back)
{
	name(1, "kind=a\n");
	name(2, "kind=b\n");
	change(7, 100, 1);
	change(7, 50, 2);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(7, 60), "");
	ck_assert_str_eq(AT(7, 100), "kind=b\n");
}
END_TEST

START_TEST(times_that_are_still_to_come)
{
	name(1, "kind=a\n");
	name(2, "kind=b\n");
	change(7, UINT64_MAX, 1);
	ck_assert_int_eq(read_until(0, 100), 0);
	change(7, 150, 2);
	ck_assert_int_eq(read_until(100, 200), 0);
	ck_assert_str_eq(AT(7, 100), "kind=a\n");
	ck_assert_str_eq(AT(7, 150), "kind=b\n");
}
END_TEST

START_TEST(more_than_may_be_read)
{
	name(1, "kind=a\n");
	limits.changes = 100;
	for (unsigned i = 0; i < 101; i++)
		change(8, 10 + i, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(8, 1000), "");
	ck_assert_uint_eq(limits.changes, 100);
	for (unsigned i = 0; i < 60; i++)
		change(8, 200 + i, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(8, 1000), "kind=a\n");
	ck_assert_uint_eq(limits.changes, 40);
	for (unsigned i = 0; i < 60; i++)
		change(8, 300 + i, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_str_eq(AT(8, 1000), "");
	ck_assert_uint_eq(labels.lost, 60);
	limits.changes = UINT64_MAX;
}
END_TEST

START_TEST(more_threads_than_are_kept)
{
	name(1, "kind=a\n");
	limits.threads = 300;
	for (unsigned i = 1; i <= 5000; i++)
		change(i, 10, 1);
	ck_assert_int_eq(read_until(0, UINT64_MAX), 0);
	ck_assert_uint_le(labels.tids.count, 300);
	ck_assert_str_eq(AT(5000, 10), "kind=a\n");
	limits.threads = 65536;
}
END_TEST

UNIT_SUITE(label_history)
{
	Suite *s = suite_create("label_history");
	TCase *c = tcase_create("label_history");
	tcase_add_checked_fixture(c, begin, end);
	tcase_set_timeout(c, 30);
	tcase_add_test(c, by_thread_and_time);
	tcase_add_test(c, what_is_old_is_one_moment);
	tcase_add_test(c, more_than_there_is_room_for);
	tcase_add_test(c, whoever_comes_late_has_what_is_there);
	tcase_add_test(c, one_that_is_not_there_yet);
	tcase_add_test(c, one_that_never_comes);
	tcase_add_test(c, a_thread_that_ended);
	tcase_add_test(c, sets_that_are_none);
	tcase_add_test(c, times_that_go_back);
	tcase_add_test(c, more_than_may_be_read);
	tcase_add_test(c, more_threads_than_are_kept);
	tcase_add_test(c, times_that_are_still_to_come);
	suite_add_tcase(s, c);
	return s;
}

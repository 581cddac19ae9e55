/* SPDX-License-Identifier: Apache-2.0 */
/* journal: numbers and texts come back, only what was committed does, and nothing that is damaged is believed. */
#include "oci/base/journal.h"

#include "oci/base/fd.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static int fds;
static int files[2];
static struct journal *j;
static uint8_t *bytes;
static size_t size;
static int64_t seen;

static void reopen(void)
{
	journal_close(j);
	ck_assert_int_eq(journal_open_take(dup(files[0]), dup(files[1]), &j), 0);
}

static void begin(void)
{
	fds = fd_count();
	for (int i = 0; i < 2; i++)
		ck_assert_int_ge(files[i] = memfd_create("journal", MFD_CLOEXEC), 0);
	j = NULL;
	reopen();
}

static void end(void)
{
	j = journal_close(j);
	ck_assert_ptr_null(j);
	for (int i = 0; i < 2; i++)
		fd_close(files[i]);
	free(bytes);
	bytes = NULL;
	ck_assert_int_eq(fd_count(), fds);
}

static int read_anew(void)
{
	free(bytes);
	bytes = NULL;
	reopen();
	return journal_read(j, &bytes, &size, &seen);
}

static void snapshot(int64_t now)
{
	journal_snapshot(j);
	ck_assert(journal_snapshot_done(j, now));
}

static void put(uint32_t type, uint64_t value)
{
	journal_begin(j, type);
	journal_number(j, value);
	journal_end(j);
}

static unsigned entries(void)
{
	struct journal_reader all = {.at = bytes, .end = bytes + size}, s;
	uint32_t type;
	unsigned n = 0;
	while (saved_next(&all, &type, &s))
		n++;
	ck_assert(!all.bad);
	return n;
}

START_TEST(what_was_written_comes_back)
{
	static const uint64_t numbers[] = {0, 1, 127, 128, 16383, 16384, UINT32_MAX, 1ull << 63, UINT64_MAX};
	uint64_t got[12];
	size_t n;
	uint32_t type;
	snapshot(5);
	journal_begin(j, 9);
	journal_numbers(j, numbers, 9);
	journal_text(j, "");
	journal_text(j, "a text");
	journal_bytes(j, "\0\1\2", 3);
	journal_end(j);
	put(10, 77);
	ck_assert(journal_commit(j));
	journal_seen(j, 6);
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_int_eq(seen, 6);
	struct journal_reader all = {.at = bytes, .end = bytes + size}, s;
	ck_assert(saved_next(&all, &type, &s) && type == 9);
	saved_numbers(&s, got, 12);
	ck_assert_mem_eq(got, numbers, sizeof(numbers));
	ck_assert_uint_eq(got[9] | got[10] | got[11], 0);
	ck_assert_str_eq(saved_text(&s, 0), "");
	ck_assert_str_eq(saved_text(&s, 6), "a text");
	const uint8_t *three = saved_bytes(&s, &n);
	ck_assert(n == 3 && !memcmp(three, "\0\1\2", 3) && !s.bad && s.at == s.end);
	ck_assert(saved_next(&all, &type, &s) && type == 10 && saved_number(&s) == 77);
	ck_assert(!saved_next(&all, &type, &s) && !all.bad);
}
END_TEST

START_TEST(only_what_was_committed_is_there)
{
	ck_assert_int_eq(read_anew(), -ENOENT);
	journal_snapshot(j);
	put(1, 1);
	ck_assert_int_eq(read_anew(), -ENOENT);
	journal_snapshot(j);
	put(1, 1);
	ck_assert(journal_snapshot_done(j, 1));
	put(2, 2);
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_uint_eq(entries(), 1);
	/* it begins anew with a snapshot; one that is not done changes nothing */
	ck_assert(!journal_commit(j));
	journal_snapshot(j);
	put(3, 3);
	put(4, 4);
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_uint_eq(entries(), 1);
}
END_TEST

START_TEST(snapshots_take_turns_and_give_memory_back)
{
	struct stat st[2];
	for (int round = 0; round < 6; round++) {
		journal_snapshot(j);
		for (int i = 0; i <= round; i++)
			put(1, 1);
		ck_assert(journal_snapshot_done(j, round));
		put(1, 1);
		ck_assert(journal_commit(j));
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(fstat(files[i], &st[i]), 0);
		ck_assert((st[0].st_blocks == 0) != (st[1].st_blocks == 0));
		if (round % 2)
			continue;
		ck_assert_int_eq(read_anew(), 0);
		ck_assert_uint_eq(entries(), (unsigned)round + 2);
	}
	journal_snapshot(j);
	ck_assert(journal_snapshot_done(j, 1));
	journal_invalidate(j);
	for (int i = 0; i < 2; i++)
		ck_assert(fstat(files[i], &st[i]) == 0 && st[i].st_blocks == 0);
	ck_assert(!journal_commit(j));
	journal_snapshot(j);
	put(1, 1);
	ck_assert(journal_snapshot_done(j, 1));
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_uint_eq(entries(), 1);
}
END_TEST

START_TEST(a_full_one_says_so)
{
	static const uint8_t much[1 << 20];
	snapshot(1);
	put(1, 1);
	ck_assert(journal_commit(j));
	for (size_t i = 0; i <= JOURNAL_MAX >> 20; i++) {
		journal_begin(j, 2);
		journal_bytes(j, much, sizeof(much));
		journal_end(j);
	}
	ck_assert(!journal_commit(j));
	ck_assert_uint_le(journal_used(j), JOURNAL_MAX);
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_uint_eq(entries(), 1);
}
END_TEST

/* --- damage */

static const uint64_t good[] = {0x6c616e72756f6a70ull, JOURNAL_VERSION, 1, 16, 0};

static int with_head(int word, uint64_t value)
{
	uint64_t head[10] = {0};
	memcpy(head, good, sizeof(good));
	head[word] = value;
	ck_assert_int_eq(ftruncate(files[1], 0), 0);
	ck_assert_int_eq(pwrite(files[1], head, sizeof(head), 0), sizeof(head));
	return read_anew();
}

START_TEST(a_head_that_does_not_add_up_is_none)
{
	static const struct {
		int word;
		uint64_t value;
		int expected;
	} cases[] = {
		{0, 0x6c616e72756f6a70ull, 0},
		{0, 1, -ENOENT},
		{1, JOURNAL_VERSION_0_1_0, 0},
		{1, JOURNAL_VERSION_0_1_0 + 1, -ENOENT},
		{1, JOURNAL_VERSION + 1, -ENOENT},
		{2, 0, -ENOENT},
		{2, 1ull << 62, -ENOENT},
		{2, UINT64_MAX, -ENOENT},
		{3, 0, 0},
		{3, 17, -ENOENT},
		{3, UINT64_MAX, -ENOENT},
		{3, UINT64_MAX - 63, -ENOENT},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ck_assert_msg(with_head(cases[i].word, cases[i].value) == cases[i].expected, "row %zu", i);
		ck_assert_msg(journal_is_readable(files[1]) == !cases[i].expected, "row %zu", i);
	}
	ck_assert(!journal_is_readable(files[0]) && !journal_is_readable(-1));
}
END_TEST

START_TEST(the_older_one_where_the_newer_does_not_add_up)
{
	uint64_t head[10] = {0};
	memcpy(head, good, sizeof(good));
	ck_assert_int_eq(pwrite(files[0], head, sizeof(head), 0), sizeof(head));
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_int_eq(with_head(2, 2), 0);
	head[2] = 3;
	head[3] = 17; /* there are 16 */
	ck_assert_int_eq(pwrite(files[1], head, sizeof(head), 0), sizeof(head));
	ck_assert_int_eq(read_anew(), 0);
	ck_assert_uint_eq(size, 16);
}
END_TEST

static struct journal_reader of(const void *at, size_t n)
{
	return (struct journal_reader){.at = at, .end = (const uint8_t *)at + n};
}

START_TEST(an_entry_that_does_not_add_up_yields_nothing)
{
	static const uint8_t endless[11] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, cut[] = {3, 'a', 'b'},
			     open_end[] = {2, 'a', 'b'}, inner[] = {3, 'a', 0, 0}, whole[] = {2, 'a', 0},
			     large[] = {9, 0, 0, 0, 1, 0, 0, 0, 5};
	size_t n;
	uint32_t type;
	struct journal_reader s = of(endless, sizeof(endless)), e;
	ck_assert(saved_number(&s) == 0 && s.bad && saved_number(&s) == 0);
	s = of(NULL, 0);
	ck_assert(saved_number(&s) == 0 && s.bad);
	s = of(cut, sizeof(cut));
	ck_assert(saved_bytes(&s, &n) && n == 0 && s.bad);
	s = of(open_end, sizeof(open_end));
	ck_assert(!*saved_text(&s, 9) && s.bad);
	s = of(inner, sizeof(inner));
	ck_assert(!*saved_text(&s, 9) && s.bad);
	s = of(whole, sizeof(whole));
	ck_assert(!*saved_text(&s, 0) && s.bad);
	s = of(whole, sizeof(whole));
	ck_assert(*saved_text(&s, 1) == 'a' && !s.bad);
	s = of(whole, sizeof(whole));
	ck_assert(saved_below(&s, 2) == 0 && s.bad);
	s = of(cut, sizeof(cut));
	ck_assert(saved_count(&s, 1) == 0 && s.bad);
	s = of(large, sizeof(large));
	ck_assert(!saved_next(&s, &type, &e) && s.bad);
	s = of(large, 7);
	ck_assert(!saved_next(&s, &type, &e));
}
END_TEST

/* --- kill -9 */

/* Entries whose number is how many there are, a commit after every third; now and then a snapshot of all. */
static void write_until_killed(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* if a check fails */
	for (uint64_t n = 1;; n++) {
		if (n % 200 == 1) {
			journal_snapshot(j);
			for (uint64_t i = 1; i < n; i++)
				put(1, i);
			MUST(journal_snapshot_done(j, 0));
		}
		put(1, n);
		if (n % 3 == 0)
			MUST(journal_commit(j));
		if (n >= 2000)
			n = 0;
	}
}

START_TEST(whenever_the_writer_is_killed_the_log_is_whole)
{
	struct journal_reader s;
	uint32_t type;
	unsigned most = 0;
	int span_us = 3000;
	for (int round = 0; round < 200; round++) {
		if (most <= 200) /* it had no time for a snapshot yet: a slow machine, or a sanitizer */
			span_us += 300;
		pid_t pid = fork();
		if (pid == 0)
			write_until_killed();
		usleep((useconds_t)(rand() % span_us));
		kill(pid, SIGKILL);
		ck_assert_int_eq(child_process_wait(pid, deadline_in(5 * NSEC_PER_SEC)), SIGKILL);
		int r = read_anew();
		if (r == -ENOENT)
			continue;
		ck_assert_int_eq(r, 0);
		struct journal_reader all = of(bytes, size);
		uint64_t n = 0;
		while (saved_next(&all, &type, &s)) {
			ck_assert_uint_eq(saved_number(&s), ++n);
			ck_assert(type == 1 && !s.bad && s.at == s.end);
		}
		ck_assert(!all.bad && all.at == all.end);
		ck_assert(n % 3 == 0 || n % 200 == 0);
		most = n > most ? (unsigned)n : most;
	}
	ck_assert_uint_gt(most, 200);
}
END_TEST

UNIT_SUITE(journal)
{
	Suite *s = suite_create("journal");
	TCase *t = tcase_create("journal");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, what_was_written_comes_back);
	tcase_add_test(t, only_what_was_committed_is_there);
	tcase_add_test(t, snapshots_take_turns_and_give_memory_back);
	tcase_add_test(t, a_full_one_says_so);
	tcase_add_test(t, a_head_that_does_not_add_up_is_none);
	tcase_add_test(t, the_older_one_where_the_newer_does_not_add_up);
	tcase_add_test(t, an_entry_that_does_not_add_up_yields_nothing);
	tcase_add_test(t, whenever_the_writer_is_killed_the_log_is_whole);
	suite_add_tcase(s, t);
	return s;
}

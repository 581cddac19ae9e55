/* SPDX-License-Identifier: Apache-2.0 */
/* area: writers of any number that may die at any instruction, and the reader (inbox) to whom all of it is hostile. */
#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/inproc/shm_reader.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true /* each step is a call of the kernel's, and there are a hundred times as many */
#else
#define SANITIZED false
#endif
#define UNITS (SHM_BYTES / SHM_UNIT)

static struct shm area;
static struct shm_reader inbox;
static int memory;
static void *mapped;

static int make(uint64_t size, unsigned seals)
{
	int fd = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void begin(void)
{
	memory = make(SHM_SIZE, SEALS);
	mapped = mmap(NULL, SHM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	ck_assert_ptr_ne(mapped, MAP_FAILED);
	shm_on(mapped, &area);
	area.head->magic = SHM_MAGIC;
	area.head->version = SHM_VERSION;
	area.head->pid = 1;
	ck_assert_int_eq(shm_reader_open(fcntl(memory, F_DUPFD_CLOEXEC, 3), &inbox), 0);
}

static void end(void)
{
	shm_reader_close(&inbox);
	munmap(mapped, SHM_SIZE);
	close(memory);
}

/* --- records that say themselves whether they are whole */

static bool reserve(uint32_t stack, struct shm_place *ret)
{
	bool wake;
	return shm_reserve(&area, (uint32_t)sizeof(struct shm_record) + stack, ret, &wake);
}

static void fill(const struct shm_place *p, uint32_t stack, uint64_t number, uint64_t time)
{
	struct shm_record *r = (struct shm_record *)p->at;
	*r = (struct shm_record){.kind = SHM_ALLOC, .time = time, .bytes = number, .stack = stack};
	memset(p->at + sizeof(*r), (int)(number * 37 & 0xff), stack);
}

static bool put(uint32_t stack, uint64_t number, uint64_t time)
{
	struct shm_place p;
	if (!reserve(stack, &p))
		return false;
	fill(&p, stack, number, time);
	shm_publish(&area, &p);
	return true;
}

static struct {
	uint64_t n, sum, last;
	bool bad, ordered;
} got;

static void on_record(void *arg, const struct shm_record *r)
{
	const uint8_t *stack = (const uint8_t *)(r + 1);
	for (uint32_t i = 0; i < r->stack; i++)
		got.bad |= stack[i] != (uint8_t)(r->bytes * 37);
	got.ordered &= r->bytes > got.last || !got.n;
	got.last = r->bytes;
	got.sum += r->bytes;
	got.n++;
}

static int drain(bool all)
{
	memset(&got, 0, sizeof(got));
	got.ordered = true;
	const int r = shm_reader_drain(&inbox, INT64_MAX, all, on_record, NULL);
	ck_assert(!got.bad);
	shm_reader_said(&inbox);
	return r;
}

START_TEST(they_come_as_they_were_written)
{
	for (uint64_t i = 1; i <= 100; i++)
		ck_assert(put((uint32_t)(i * 8), i, i));
	ck_assert_int_eq(drain(false), 100);
	ck_assert(got.ordered);
	ck_assert_uint_eq(got.sum, 5050);
	ck_assert_int_eq(drain(false), 0);
}
END_TEST

START_TEST(many_times_around)
{
	uint64_t number = 0;
	srandom(1);
	for (int round = 0; round < 2000; round++) {
		const int n = (int)(random() % 40);
		for (int i = 0; i < n; i++)
			ck_assert(put((uint32_t)(random() % 4000) & ~7u, ++number, 1));
		ck_assert_int_eq(drain(false), n);
		ck_assert(n == 0 || got.last == number);
	}
	ck_assert_uint_eq(area.head->lost, 0);
	ck_assert_uint_eq(inbox.missed, 0);
}
END_TEST

START_TEST(what_finds_no_room_is_counted)
{
	static const uint32_t stacks[] = {0, 8, 8000, SHM_RECORD_MAX - sizeof(struct shm_record)};
	uint64_t put_in = 0;
	while (put(stacks[_i], put_in + 1, 1))
		put_in++;
	for (int i = 0; i < 9; i++)
		ck_assert(!put(stacks[_i], 1, 1));
	ck_assert_int_eq(drain(false), (int)put_in);
	ck_assert_uint_eq(inbox.lost, 10);
	ck_assert(put(stacks[_i], 1, 1));
	ck_assert_int_eq(drain(false), 1);
	ck_assert_uint_eq(inbox.lost, 10);
}
END_TEST

START_TEST(what_is_too_young_waits)
{
	ck_assert(put(8, 1, 100) && put(8, 2, 200));
	memset(&got, 0, sizeof(got));
	ck_assert_int_eq(shm_reader_drain(&inbox, 150, false, on_record, NULL), 1);
	ck_assert_int_eq(shm_reader_drain(&inbox, 199, false, on_record, NULL), 0);
	ck_assert_int_eq(shm_reader_drain(&inbox, 199, true, on_record, NULL), 1);
	ck_assert_uint_eq(got.sum, 3);
}
END_TEST

START_TEST(the_writer_is_woken_once)
{
	bool wake;
	unsigned woken = 0;
	struct shm_place p;
	for (unsigned i = 0; i < 200; i++) {
		ck_assert(shm_reserve(&area, 4096, &p, &wake));
		fill(&p, 8, 1, 1);
		p.size = sizeof(struct shm_record) + 8;
		shm_publish(&area, &p);
		woken += wake;
	}
	ck_assert_uint_eq(woken, 1);
	ck_assert_int_eq(drain(false), 200);
	ck_assert(!shm_reader_is_behind(&inbox));
}
END_TEST

/* --- who does not come to the end */

START_TEST(never_published_is_skipped)
{
	struct shm_place lost;
	ck_assert(put(80, 1, 1) && reserve(400, &lost) && put(80, 2, 1) && put(80, 3, 1));
	ck_assert_int_eq(drain(false), 1);
	ck_assert_int_eq(drain(false), 0);
	if (_i) /* nobody writes any more */
		ck_assert_int_eq(drain(true), 2);
	else {
		usleep(SHM_READER_PATIENCE / 1000 + 10000);
		ck_assert_int_eq(drain(false), 2);
	}
	ck_assert_uint_eq(got.sum, 5);
	ck_assert_uint_eq(inbox.missed, 1);
}
END_TEST

START_TEST(not_published_yet_is_waited_for)
{
	struct shm_place late;
	ck_assert(reserve(400, &late) && put(80, 2, 1));
	ck_assert_int_eq(drain(false), 0);
	fill(&late, 400, 1, 1);
	shm_publish(&area, &late);
	ck_assert_int_eq(drain(false), 2);
	ck_assert(got.ordered);
	ck_assert_uint_eq(inbox.missed, 0);
}
END_TEST

/* When it wakes up, its bytes are somebody else's. */
START_TEST(a_late_writer_spoils_no_more_than_a_record)
{
	struct shm_place late;
	uint64_t n = 0;
	ck_assert(reserve(400, &late));
	ck_assert(put(80, 1, 1) && put(8000, 1, 1));
	ck_assert_int_eq(drain(true), 2);
	while (put(4000, 2, 1))
		n++;
	memset(late.at, 0x55, 64);
	ck_assert_int_eq(drain(false), (int)n - 1);
	ck_assert_uint_eq(inbox.missed, 2);
	late.size = 64;
	shm_publish(&area, &late);
	ck_assert(put(80, 3, 1));
	ck_assert_int_eq(drain(true), 1);
	ck_assert_uint_eq(got.sum, 3);
}
END_TEST

/* A writer that is killed behind so many instructions, by a debugger. How many it took. */
static long killed_after(long most)
{
	int status;
	long steps = 0;
	const pid_t child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		put(96, 1, 1);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	for (; steps < most && WIFSTOPPED(status); steps++) {
		ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
	}
	if (WIFSTOPPED(status)) {
		kill(child, SIGKILL);
		ck_assert_int_eq(waitpid(child, &status, 0), child);
	}
	return steps;
}

/* Anywhere from its beginning to its end: nobody is in the way of who comes next, and a record is whole or none. */
START_TEST(killed_at_any_instruction)
{
	const char *full = getenv("FULL");
	const long kills = full && *full ? 10000 : SANITIZED ? 15 : 100, all = killed_after(LONG_MAX);
	long whole = 0;
	drain(true);
	for (long i = 0; i < kills; i++) {
		killed_after(all * i / kills);
		ck_assert(put(80, 1000, 1));
		const int n = drain(true);
		ck_assert_int_ge(n, 1);
		ck_assert_uint_eq(got.last, 1000);
		whole += n == 2;
	}
	ck_assert_int_ge(whole, 1); /* it was published before its end */
	ck_assert_int_lt(whole, kills);
}
END_TEST

#define WRITERS 4
#define EACH 20000

static void *writer(void *arg)
{
	uint64_t put_in = 0;
	for (unsigned i = 0; i < EACH; i++)
		put_in += put(8 * (i % 50), 1, 1);
	return (void *)(uintptr_t)put_in;
}

START_TEST(several_at_once)
{
	pthread_t threads[WRITERS];
	uint64_t put_in = 0, seen = 0;
	for (int i = 0; i < WRITERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, writer, NULL), 0);
	for (int i = 0; i < 200; i++) {
		seen += (uint64_t)drain(false);
		usleep(100);
	}
	for (int i = 0; i < WRITERS; i++) {
		void *n;
		pthread_join(threads[i], &n);
		put_in += (uintptr_t)n;
	}
	seen += (uint64_t)drain(true);
	ck_assert_uint_eq(seen, put_in);
	ck_assert_uint_eq(inbox.missed, 0);
	ck_assert_uint_eq(inbox.lost, (uint64_t)WRITERS * EACH - put_in);
}
END_TEST

/* --- a successor */

START_TEST(what_was_not_said_comes_again)
{
	struct shm_reader next;
	ck_assert(put(8, 1, 1) && put(8, 2, 1));
	memset(&got, 0, sizeof(got));
	ck_assert_int_eq(shm_reader_drain(&inbox, 1, false, on_record, NULL), 2);
	ck_assert_int_eq(shm_reader_open(fcntl(memory, F_DUPFD_CLOEXEC, 3), &next), 0);
	if (_i)
		shm_reader_resume(&next, inbox.read);
	ck_assert_int_eq(shm_reader_drain(&next, 1, false, on_record, NULL), _i ? 0 : 2);
	shm_reader_close(&next);
}
END_TEST

/* --- hostile */

START_TEST(what_is_no_area)
{
	static const struct {
		const char *name;
		uint64_t size;
		unsigned seals;
		uint32_t magic;
	} rows[] = {
		{"it may shrink", SHM_SIZE, F_SEAL_GROW, SHM_MAGIC},
		{"it may grow", SHM_SIZE, F_SEAL_SHRINK, SHM_MAGIC},
		{"too short", SHM_SIZE - 4096, SEALS, SHM_MAGIC},
		{"too long", SHM_SIZE + 4096, SEALS, SHM_MAGIC},
		{"empty", 0, SEALS, SHM_MAGIC},
		{"of something else", SHM_SIZE, SEALS, 1},
	};
	struct shm_reader none;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int fd = make(rows[i].size, rows[i].seals);
		const struct shm_head h = {.magic = rows[i].magic, .version = SHM_VERSION, .pid = 1};
		if (rows[i].size >= sizeof(h))
			ck_assert_int_eq(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
		ck_assert_msg(shm_reader_open(fd, &none) == -EPROTO, "%s", rows[i].name);
	}
	ck_assert_int_eq(shm_reader_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), &none), -EPROTO);
}
END_TEST

START_TEST(a_tail_that_cannot_be)
{
	static const uint64_t tails[] = {
		SHM_AT(SHM_ITEMS + 1, 0), SHM_AT(1, UNITS + 1), UINT64_MAX, SHM_AT(UINT32_MAX, 0)};
	area.head->tail = tails[_i];
	ck_assert_int_eq(drain(false), -EPROTO);
}
END_TEST

START_TEST(items_that_cannot_be_are_skipped)
{
	static const struct shm_item rows[] = {
		{.number = 1, .start = 0, .size = 0},
		{.number = 1, .start = 0, .size = UINT32_MAX},
		{.number = 1, .start = UINT32_MAX, .size = 200},
		{.number = 1, .start = 4096, .size = 200},
		{.number = 1, .start = 0, .size = sizeof(struct shm_record) - 1},
		{.number = 1, .start = 0, .size = SHM_RECORD_MAX + 1},
		{.number = 0, .start = 0, .size = 200},
	};
	ck_assert(put(80, 1, 1) && put(80, 2, 1));
	area.items[0] = rows[_i];
	ck_assert_int_eq(drain(true), 1);
	ck_assert_uint_eq(got.sum, 2);
	ck_assert_uint_eq(inbox.missed, 1);
}
END_TEST

START_TEST(a_stack_that_is_longer_than_its_record)
{
	struct shm_place p;
	ck_assert(reserve(80, &p));
	fill(&p, 80, 1, 1);
	((struct shm_record *)p.at)->stack = 81;
	shm_publish(&area, &p);
	ck_assert_int_eq(drain(false), 0);
	ck_assert_uint_eq(inbox.missed, 1);
}
END_TEST

static void count_slot(void *arg, const struct shm_slot *s)
{
	++*(unsigned *)arg;
}

START_TEST(slots_that_cannot_be)
{
	unsigned n = 0;
	area.slots[0] = (struct shm_slot){.at = 0x1000, .id = 1};
	area.slots[1] = (struct shm_slot){.at = SHM_SLOT_TAKEN, .id = 2};
	area.slots[2] = (struct shm_slot){.at = 0x2000, .id = 0};
	area.slots[SHM_SLOTS - 1] = (struct shm_slot){.at = 0x3000, .id = 3};
	area.head->slots = UINT64_MAX;
	ck_assert_int_eq(shm_reader_slots(&inbox, count_slot, &n), 0);
	ck_assert_uint_eq(n, 2);
}
END_TEST

UNIT_SUITE(shm_layout)
{
	Suite *s = suite_create("shm_layout");
	TCase *c = tcase_create("shm_layout");
	tcase_set_timeout(c, 600);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, they_come_as_they_were_written);
	tcase_add_test(c, many_times_around);
	tcase_add_loop_test(c, what_finds_no_room_is_counted, 0, 4);
	tcase_add_test(c, what_is_too_young_waits);
	tcase_add_test(c, the_writer_is_woken_once);
	tcase_add_loop_test(c, never_published_is_skipped, 0, 2);
	tcase_add_test(c, not_published_yet_is_waited_for);
	tcase_add_test(c, a_late_writer_spoils_no_more_than_a_record);
	tcase_add_test(c, killed_at_any_instruction);
	tcase_add_test(c, several_at_once);
	tcase_add_loop_test(c, what_was_not_said_comes_again, 0, 2);
	tcase_add_test(c, what_is_no_area);
	tcase_add_loop_test(c, a_tail_that_cannot_be, 0, 4);
	tcase_add_loop_test(c, items_that_cannot_be_are_skipped, 0, 7);
	tcase_add_test(c, a_stack_that_is_longer_than_its_record);
	tcase_add_test(c, slots_that_cannot_be);
	suite_add_tcase(s, c);
	return s;
}

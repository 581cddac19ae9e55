/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/shm_reader.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fds;
static struct shm area;
static int memory; /* the process' */
static struct shm_reader inbox;

static void make_area(void)
{
	fds = fd_count();
	memory = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(memory, SHM_SIZE), 0);
	ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	void *at = mmap(NULL, SHM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	ck_assert(at != MAP_FAILED);
	shm_on(at, &area);
	*area.head = (struct shm_head){.magic = SHM_MAGIC, .version = SHM_VERSION, .pid = 7, .cookie = 99};
	ck_assert_int_eq(shm_reader_open(dup(memory), &inbox), 0);
}

static void done(void)
{
	shm_reader_close(&inbox);
	munmap(area.head, SHM_SIZE);
	close(memory);
	ck_assert_int_eq(fd_count(), fds);
}

static void put(uint32_t kind, uint64_t time, const char *text)
{
	struct shm_place p;
	bool wake;
	const uint32_t n = (uint32_t)(strlen(text) + 7) & ~7u;
	ck_assert(shm_reserve(&area, (uint32_t)sizeof(struct shm_record) + n, &p, &wake));
	struct shm_record *to = (struct shm_record *)p.at;
	*to = (struct shm_record){.kind = kind, .tid = 7, .time = time, .stack = n};
	memcpy(to + 1, text, strlen(text));
	shm_publish(&area, &p);
}

struct event_dedup {
	unsigned n, kinds[16];
	char text[64];
};

static void hear(void *arg, const struct shm_record *r)
{
	struct event_dedup *h = arg;
	h->kinds[h->n++] = r->kind;
	memcpy(h->text, shm_reader_stack(r), r->stack < sizeof(h->text) ? r->stack : sizeof(h->text));
}

START_TEST(each_kind_in_its_order)
{
	struct event_dedup h = {0};
	put(SHM_MAPS, 1, "maps");
	put(SHM_CPU, 2, "stack");
	put(SHM_KINDS, 3, "nobody knows");
	put(0, 4, "nor that");
	put(SHM_ALLOC, 5, "last");
	ck_assert_int_eq(shm_reader_drain(&inbox, 100, false, hear, &h), 3);
	ck_assert_uint_eq(h.kinds[0], SHM_MAPS);
	ck_assert_uint_eq(h.kinds[1], SHM_CPU);
	ck_assert_uint_eq(h.kinds[2], SHM_ALLOC);
	ck_assert_str_eq(h.text, "last");
	ck_assert_uint_eq(inbox.missed, 2);
}
END_TEST

static const struct {
	const char *scenario;
	uint32_t stack, more;
	bool taken;
} sizes[] = {
	{"a stack", 8, 0, true},
	{"a thread's name and a stack", 8, sizeof(struct shm_more), true},
	{"a name and no stack", 0, sizeof(struct shm_more), true},
	{"more than anybody knows", 0, 8, false},
	{"more than there is", 256, sizeof(struct shm_more), false},
	{"a stack longer than the record", UINT32_MAX, 0, false},
	{"together longer than a number", UINT32_MAX, sizeof(struct shm_more), false},
};

START_TEST(sizes_within_a_record)
{
	struct event_dedup h = {0};
	struct shm_place p;
	bool wake;
	ck_assert(shm_reserve(&area, sizeof(struct shm_record) + 256, &p, &wake));
	*(struct shm_record *)p.at = (struct shm_record){
		.kind = SHM_CPU, .tid = 7, .time = 1, .stack = sizes[_i].stack, .more = sizes[_i].more};
	shm_publish(&area, &p);
	const int n = shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_msg(n == sizes[_i].taken, "%s: %d", sizes[_i].scenario, n);
}
END_TEST

/* Whoever comes behind a reader that was killed counts what that one had not said, and not what it had. */
START_TEST(cpu_time_is_counted_once)
{
	struct event_dedup h = {0};
	area.head->cpu = 1000;
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 1000);
	ck_assert_int_eq(shm_reader_said(&inbox), 0);
	area.head->cpu = 1500;
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 1500);
	shm_reader_close(&inbox); /* without a word */
	ck_assert_int_eq(shm_reader_open(dup(memory), &inbox), 0);
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 500);
	area.head->cpu = 3; /* a process may say what it likes: time does not go back */
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 500);
}
END_TEST

START_TEST(cpu_time_of_before_is_not_counted)
{
	struct event_dedup h = {0};
	area.head->cpu = 1000;
	shm_reader_skip_cpu(&inbox, 600);
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 400);
	area.head->cpu = 2000;
	shm_reader_skip_cpu(&inbox, UINT64_MAX);
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 400);
}
END_TEST

/* The same for memory that was allocated before the welcome. */
START_TEST(awaited_memory_is_counted_once)
{
	struct event_dedup h = {0};
	area.head->awaited = 4096;
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.awaited, 4096);
	ck_assert_int_eq(shm_reader_said(&inbox), 0);
	ck_assert_uint_eq(area.head->awaited_read, 4096);
	area.head->awaited = 5000;
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.awaited, 5000);
	shm_reader_close(&inbox); /* before shm_reader_said() */
	ck_assert_int_eq(shm_reader_open(dup(memory), &inbox), 0);
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.awaited, 904);
	area.head->awaited = 1; /* the process writes any number: the sum does not fall */
	shm_reader_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.awaited, 904);
}
END_TEST

START_TEST(mappings_are_wanted_once_more)
{
	const uint64_t before = area.head->maps;
	ck_assert_int_eq(shm_reader_want_maps(&inbox), 0);
	ck_assert_uint_eq(area.head->maps, before + 1);
	shm_reader_close(&inbox);
	ck_assert_int_eq(shm_reader_open(dup(memory), &inbox), 0);
	ck_assert_int_eq(shm_reader_want_maps(&inbox), 0);
	ck_assert_uint_eq(area.head->maps, before + 2);
}
END_TEST

UNIT_SUITE(shm_reader)
{
	Suite *s = suite_create("shm_reader");
	TCase *t = tcase_create("shm_reader");

	tcase_add_checked_fixture(t, make_area, done);
	tcase_add_test(t, each_kind_in_its_order);
	tcase_add_loop_test(t, sizes_within_a_record, 0, sizeof(sizes) / sizeof(sizes[0]));
	tcase_add_test(t, cpu_time_is_counted_once);
	tcase_add_test(t, cpu_time_of_before_is_not_counted);
	tcase_add_test(t, awaited_memory_is_counted_once);
	tcase_add_test(t, mappings_are_wanted_once_more);
	suite_add_tcase(s, t);
	return s;
}

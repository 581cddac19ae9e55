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
static struct area area;
static int memory; /* the process' */
static struct inbox inbox;

static void make_area(void)
{
	fds = fd_count();
	memory = memfd_create("area", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(memory, AREA_SIZE), 0);
	ck_assert_int_eq(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	void *at = mmap(NULL, AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	ck_assert(at != MAP_FAILED);
	area_on(at, &area);
	*area.head = (struct area_head){.magic = AREA_MAGIC, .version = AREA_VERSION, .pid = 7, .cookie = 99};
	ck_assert_int_eq(inbox_open(dup(memory), &inbox), 0);
}

static void done(void)
{
	inbox_close(&inbox);
	munmap(area.head, AREA_SIZE);
	close(memory);
	ck_assert_int_eq(fd_count(), fds);
}

static void put(uint32_t kind, uint64_t time, const char *text)
{
	struct area_place p;
	bool wake;
	const uint32_t n = (uint32_t)(strlen(text) + 7) & ~7u;
	ck_assert(area_reserve(&area, (uint32_t)sizeof(struct area_record) + n, &p, &wake));
	struct area_record *to = (struct area_record *)p.at;
	*to = (struct area_record){.kind = kind, .tid = 7, .time = time, .stack = n};
	memcpy(to + 1, text, strlen(text));
	area_publish(&area, &p);
}

struct heard {
	unsigned n, kinds[16];
	char text[64];
};

static void hear(void *arg, const struct area_record *r)
{
	struct heard *h = arg;
	h->kinds[h->n++] = r->kind;
	memcpy(h->text, inbox_stack(r), r->stack < sizeof(h->text) ? r->stack : sizeof(h->text));
}

START_TEST(each_kind_in_its_order)
{
	struct heard h = {0};
	put(AREA_MAPS, 1, "maps");
	put(AREA_CPU, 2, "stack");
	put(AREA_KINDS, 3, "nobody knows");
	put(0, 4, "nor that");
	put(AREA_ALLOC, 5, "last");
	ck_assert_int_eq(inbox_drain(&inbox, 100, false, hear, &h), 3);
	ck_assert_uint_eq(h.kinds[0], AREA_MAPS);
	ck_assert_uint_eq(h.kinds[1], AREA_CPU);
	ck_assert_uint_eq(h.kinds[2], AREA_ALLOC);
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
	{"a thread's name and a stack", 8, sizeof(struct area_more), true},
	{"a name and no stack", 0, sizeof(struct area_more), true},
	{"more than anybody knows", 0, 8, false},
	{"more than there is", 256, sizeof(struct area_more), false},
	{"a stack longer than the record", UINT32_MAX, 0, false},
	{"together longer than a number", UINT32_MAX, sizeof(struct area_more), false},
};

START_TEST(sizes_within_a_record)
{
	struct heard h = {0};
	struct area_place p;
	bool wake;
	ck_assert(area_reserve(&area, sizeof(struct area_record) + 256, &p, &wake));
	*(struct area_record *)p.at = (struct area_record){
		.kind = AREA_CPU, .tid = 7, .time = 1, .stack = sizes[_i].stack, .more = sizes[_i].more};
	area_publish(&area, &p);
	const int n = inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_msg(n == sizes[_i].taken, "%s: %d", sizes[_i].scenario, n);
}
END_TEST

/* Whoever comes behind a reader that was killed counts what that one had not said, and not what it had. */
START_TEST(cpu_time_is_counted_once)
{
	struct heard h = {0};
	area.head->cpu = 1000;
	inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 1000);
	ck_assert_int_eq(inbox_said(&inbox), 0);
	area.head->cpu = 1500;
	inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 1500);
	inbox_close(&inbox); /* without a word */
	ck_assert_int_eq(inbox_open(dup(memory), &inbox), 0);
	inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 500);
	area.head->cpu = 3; /* a process may say what it likes: time does not go back */
	inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 500);
}
END_TEST

START_TEST(cpu_time_of_before_is_not_counted)
{
	struct heard h = {0};
	area.head->cpu = 1000;
	inbox_skip_cpu(&inbox, 600);
	inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 400);
	area.head->cpu = 2000;
	inbox_skip_cpu(&inbox, UINT64_MAX);
	inbox_drain(&inbox, 100, false, hear, &h);
	ck_assert_uint_eq(inbox.cpu, 400);
}
END_TEST

START_TEST(mappings_are_wanted_once_more)
{
	const uint64_t before = area.head->maps;
	ck_assert_int_eq(inbox_want_maps(&inbox), 0);
	ck_assert_uint_eq(area.head->maps, before + 1);
	inbox_close(&inbox);
	ck_assert_int_eq(inbox_open(dup(memory), &inbox), 0);
	ck_assert_int_eq(inbox_want_maps(&inbox), 0);
	ck_assert_uint_eq(area.head->maps, before + 2);
}
END_TEST

UNIT_SUITE(inbox)
{
	Suite *s = suite_create("inbox");
	TCase *t = tcase_create("inbox");

	tcase_add_checked_fixture(t, make_area, done);
	tcase_add_test(t, each_kind_in_its_order);
	tcase_add_loop_test(t, sizes_within_a_record, 0, sizeof(sizes) / sizeof(sizes[0]));
	tcase_add_test(t, cpu_time_is_counted_once);
	tcase_add_test(t, cpu_time_of_before_is_not_counted);
	tcase_add_test(t, mappings_are_wanted_once_more);
	suite_add_tcase(s, t);
	return s;
}

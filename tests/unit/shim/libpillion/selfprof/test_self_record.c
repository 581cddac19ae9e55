/* SPDX-License-Identifier: Apache-2.0 */
/* self_record: records of every layout, whole and cut off; self_reader: rings that wrap around, that lie, and several;
 * self_proc: lists of CPUs; self_error: sentences. A page of memory plays the kernel. */
#include "shim/libpillion/selfprof/self_error.h"
#include "shim/libpillion/selfprof/self_procfs.h"
#include "shim/libpillion/selfprof/self_reader.h"
#include "shim/libpillion/selfprof/self_record.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N(a) (sizeof(a) / sizeof((a)[0]))

/* --- records ------------------------------------------------------------------------------------------------ */

static union {
	struct perf_event_header h;
	uint64_t words[1024];
} made;
static size_t n_words;

static void put(uint64_t word)
{
	made.words[n_words++] = word;
	made.h.size = (uint16_t)(n_words * 8);
}

static void put_two(uint32_t a, uint32_t b)
{
	put(a | (uint64_t)b << 32);
}

static void head(uint32_t type)
{
	memset(&made, 0, sizeof(made));
	made.h.type = type;
	n_words = 1;
}

static void trailer(void)
{
	put_two(4711, 4712);
	put(1000);
	put_two(3, 0);
	put(99);
}

/* In the order of the kernel (perf_output_sample) */
static void make_sample(const struct self_layout *l)
{
	head(PERF_RECORD_SAMPLE);
	put(99);
	put(0x401000);
	put_two(4711, 4712);
	put(1000);
	if (l->fields & PILLION_ADDR)
		put(0x7000);
	put_two(3, 0);
	if (l->fields & PILLION_CALLCHAIN) {
		put(2);
		put(0x401000);
		put(0x402000);
	}
	if (l->fields & PILLION_REGS) {
		put(2);
		for (uint64_t mask = l->regs; mask; mask &= mask - 1)
			put(0x100 + n_words);
	}
	if (l->fields & PILLION_STACK) {
		put(l->stack);
		for (uint32_t i = 0; i < l->stack / 8; i++)
			put(i);
		put(l->stack - 8);
	}
	for (uint32_t i = 0; i < l->tail; i++)
		put(0);
}

START_TEST(test_layouts) /* every set of fields, with every tail: it is known by its length, and by no other */
{
	for (uint32_t tail = 0; tail < SELF_TAILS; tail++) {
		const struct self_layout l = {.fields = (uint32_t)_i, .tail = tail, .regs = 0x1c0, .stack = 64};
		struct pillion_record r;
		make_sample(&l);
		ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
		ck_assert_uint_eq(self_record_id(&made.h), 99);
		ck_assert(r.ip == 0x401000 && r.pid == 4711 && r.tid == 4712 && r.time == 1000 && r.cpu == 3 &&
			  r.fields == l.fields);
		ck_assert_uint_eq(r.addr, l.fields & PILLION_ADDR ? 0x7000 : 0);
		ck_assert_uint_eq(r.n_chain, l.fields & PILLION_CALLCHAIN ? 2 : 0);
		ck_assert(!r.n_chain || r.chain[1] == 0x402000);
		ck_assert(!(l.fields & PILLION_REGS) || (r.regs_mask == 0x1c0 && r.regs[2] == r.regs[0] + 2));
		ck_assert_uint_eq(r.n_stack, l.fields & PILLION_STACK ? 56 : 0);
		for (uint32_t other = 0; other < SELF_TAILS; other++) {
			struct self_layout m = l;
			m.tail = other;
			ck_assert_int_eq(self_record_parse(&made.h, &m, &r), other == tail ? 0 : -EBADMSG);
		}
		for (uint16_t size = 0; size < n_words * 8; size++) {
			made.h.size = size;
			ck_assert_int_eq(self_record_parse(&made.h, &l, &r), -EBADMSG);
		}
	}
}
END_TEST

START_TEST(test_no_registers) /* of a thread of the kernel's */
{
	const struct self_layout l = {.fields = PILLION_REGS | PILLION_STACK, .regs = 0x1c0, .stack = 64};
	struct pillion_record r;
	head(PERF_RECORD_SAMPLE);
	for (int i = 0; i < 4; i++)
		put(99);
	put_two(3, 0);
	put(0); /* no ABI, no registers */
	put(0); /* no stack */
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert_uint_eq(r.regs_mask, 0);
	ck_assert_uint_eq(r.n_stack, 0);
	made.words[6] = 1;
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), -EBADMSG);
}
END_TEST

START_TEST(test_lies) /* counts that are larger than the record */
{
	const struct self_layout l = {.fields = PILLION_CALLCHAIN};
	struct pillion_record r;
	make_sample(&l);
	for (int shift = 1; shift < 64; shift++) {
		made.words[6] = 1ull << shift;
		ck_assert_int_eq(self_record_parse(&made.h, &l, &r), shift == 1 ? 0 : -EBADMSG);
	}
}
END_TEST

START_TEST(test_others)
{
	const struct self_layout l = {0};
	struct pillion_record r;
	head(PERF_RECORD_FORK);
	put_two(1, 2);
	put_two(3, 4);
	put(5);
	trailer();
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert(r.of_pid == 1 && r.parent_pid == 2 && r.of_tid == 3 && r.parent_tid == 4 && r.tid == 4712 &&
		  r.time == 1000);
	ck_assert_uint_eq(self_record_id(&made.h), 99);
	for (uint16_t size = 0; size < n_words * 8; size += 8) {
		made.h.size = size;
		ck_assert_int_eq(self_record_parse(&made.h, &l, &r), -EBADMSG);
	}
	head(PERF_RECORD_MMAP2);
	put_two(1, 2);
	put(0x1000);
	put(0x2000);
	put(0x3000);
	put_two(8, 1);
	put(77);
	put(0);
	put_two(5, 2);
	put(0x6f732e61); /* "a.so" */
	trailer();
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert_str_eq(r.name, "a.so");
	ck_assert(r.start == 0x1000 && r.length == 0x2000 && r.offset == 0x3000 && r.inode == 77 && r.prot == 5);
	made.words[9] = ~0ull; /* a name without an end */
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert_str_eq(r.name, "");
	head(PERF_RECORD_LOST);
	put(99);
	put(12);
	trailer();
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert_uint_eq(r.lost, 12);
	head(PERF_RECORD_SWITCH);
	made.h.misc = 1 << 13;
	trailer();
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert_uint_eq(r.out, 1);
	head(12345); /* newer than we are */
	trailer();
	ck_assert_int_eq(self_record_parse(&made.h, &l, &r), 0);
	ck_assert_uint_eq(r.type, 12345);
}
END_TEST

/* --- rings -------------------------------------------------------------------------------------------------- */

static uint8_t memory[2][4096 + 4096] __attribute__((aligned(4096)));
static struct pillion_reader reader;
static size_t seen_words, seen_records;

static void seen(void *arg, struct self_source *s, const struct perf_event_header *h)
{
	const uint64_t *words = (const uint64_t *)h;
	for (uint16_t i = 1; i < h->size / 8; i++)
		if (words[i] != i) /* a check of Check's own for each would take long */
			ck_abort_msg("word %u is %lu", i, words[i]);
	seen_words += h->size / 8u;
	seen_records++;
}

static void write_record(uint8_t *at, uint16_t words)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)at;
	for (uint16_t i = 0; i < words; i++) {
		const struct perf_event_header h = {.size = (uint16_t)(words * 8)};
		const uint64_t word = i;
		memcpy(at + 4096 + ((page->data_head + i * 8u) & 4095), i ? (const void *)&word : &h, 8);
	}
	page->data_head += words * 8u;
}

static void begin(void)
{
	const struct pillion_listener l = {.size = sizeof(l)};
	memset(memory, 0, sizeof(memory));
	seen_words = seen_records = 0;
	ck_assert_int_eq(self_reader_init(&reader, &l, 1, true), 0);
	reader.record = seen;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(self_reader_add(&reader,
					 &(struct self_source){.ring = {(struct perf_event_mmap_page *)memory[i],
								       memory[i] + 4096, 4096},
						 .poll = -1}),
			0);
}

static void end(void)
{
	self_reader_done(&reader);
}

START_TEST(test_wrap)
{
	size_t written = 0;
	for (uint16_t i = 0; i < 600; i++) {
		write_record(memory[i % 2], (uint16_t)(1 + i % 300));
		written += 1u + i % 300;
		self_reader_scan(&reader, seen, NULL); /* once ... */
		self_reader_scan(&reader, seen, NULL);
		self_reader_drain(&reader); /* ... and taken */
	}
	ck_assert_uint_eq(seen_words, 2 * written);
	ck_assert_uint_eq(seen_records, 1200);
	for (int i = 0; i < 2; i++) {
		const struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)memory[i];
		ck_assert_uint_eq(page->data_tail, page->data_head);
	}
}
END_TEST

START_TEST(test_bad) /* a record that is none: what is there is left out, and it goes on */
{
	static const uint16_t sizes[] = {0, 4, 7, 9, 65528};
	write_record(memory[0], 5);
	write_record(memory[0], 5);
	memcpy(memory[0] + 4096 + 40, &(struct perf_event_header){.size = sizes[_i]}, 8);
	self_reader_drain(&reader);
	ck_assert_uint_eq(seen_records, 1);
	ck_assert_uint_eq(reader.sources[0].bad, 1);
	write_record(memory[0], 5);
	self_reader_drain(&reader);
	ck_assert_uint_eq(seen_records, 2);
}
END_TEST

START_TEST(test_stop)
{
	for (int i = 0; i < 3; i++) {
		write_record(memory[0], 3);
		ck_assert_int_eq(self_reader_stop(&reader), 0);
		ck_assert_int_eq(self_reader_stop(&reader), 0);
		ck_assert_int_eq(self_reader_begin(&reader), 0);
		ck_assert_int_eq(self_reader_begin(&reader), -EBUSY);
		ck_assert_int_eq(self_reader_run(&reader), 0);
		self_reader_end(&reader);
		ck_assert_uint_eq(seen_records, (size_t)i + 1);
	}
}
END_TEST

/* --- an event without its descriptor ------------------------------------------------------------------------ */

START_TEST(test_page) /* the kernel is writing: it is read again, and at last not at all */
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)memory[0];
	struct pillion_event e = {.fd = -1, .ring = {page, memory[0] + 4096, 4096}, .id = 5, .pid = (uint32_t)getpid()};
	struct pillion_count c = {.value = 1};
	page->offset = 4711;
	page->time_enabled = 20;
	page->time_running = 10;
	page->lock = 3;
	ck_assert_int_eq(pillion_event_read(&e, &c), -EAGAIN);
	ck_assert_uint_eq(c.value, 1);
	page->lock = 4;
	ck_assert_int_eq(pillion_event_read(&e, &c), 0);
	ck_assert(c.value == 4711 && c.enabled == 20 && c.running == 10 && c.id == 5);
	e.ring.page = NULL;
	ck_assert_int_eq(pillion_event_read(&e, &c), -EBADF);
	e.pid++;
	ck_assert_int_eq(pillion_event_read(&e, &c), -ECHILD);
}
END_TEST

static bool writes;

static void *write_page(void *arg) /* as the kernel does: all four are of one moment, or the lock says otherwise */
{
	struct perf_event_mmap_page *page = arg;
	for (int64_t i = 1; __atomic_load_n(&writes, __ATOMIC_RELAXED); i++) {
		__atomic_store_n(&page->lock, page->lock + 1, __ATOMIC_SEQ_CST);
		__atomic_store_n(&page->offset, i, __ATOMIC_SEQ_CST);
		__atomic_store_n(&page->time_enabled, (uint64_t)i, __ATOMIC_SEQ_CST);
		__atomic_store_n(&page->time_running, (uint64_t)i, __ATOMIC_SEQ_CST);
		__atomic_store_n(&page->lock, page->lock + 1, __ATOMIC_SEQ_CST);
		for (volatile int k = 0; k < 2000; k++)
			;
	}
	return NULL;
}

START_TEST(test_page_that_moves)
{
	struct perf_event_mmap_page *page = (struct perf_event_mmap_page *)memory[0];
	struct pillion_event e = {.fd = -1, .ring = {page, memory[0] + 4096, 4096}, .pid = (uint32_t)getpid()};
	pthread_t t;
	unsigned well = 0;
	writes = true;
	ck_assert_int_eq(pthread_create(&t, NULL, write_page, page), 0);
	for (int i = 0; i < 5000; i++) {
		struct pillion_count c;
		if (pillion_event_read(&e, &c) < 0)
			continue;
		ck_assert(c.value == c.enabled && c.value == c.running);
		well++;
	}
	__atomic_store_n(&writes, false, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	ck_assert_uint_gt(well, 0);
}
END_TEST

/* --- the rest ----------------------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	int n, last;
} lists[] = {{"0\n", 1, 0}, {"0-3\n", 4, 3}, {"0,2-3,8\n", 4, 8}, {"", 0, 0}, {"x", -EBADMSG, 0}, {"0-", -EBADMSG, 0},
	{"1x", -EBADMSG, 0}, {"0-99999", 16, 15}, {"0-99999999999999", -EBADMSG, 0}};

START_TEST(test_lists)
{
	int cpus[16] = {0};
	const int n = self_parse_cpus(lists[_i].text, cpus, 16);
	ck_assert_int_eq(n, lists[_i].n);
	if (n > 0)
		ck_assert_int_eq(cpus[n - 1], lists[_i].last);
}
END_TEST

static int count_up(void *arg, uint32_t n)
{
	++*(unsigned *)arg;
	return 0;
}

START_TEST(test_proc)
{
	int cpus[SELF_CPUS_MAX];
	unsigned n = 0;
	long number;
	ck_assert_int_eq(self_cpus(cpus, SELF_CPUS_MAX), sysconf(_SC_NPROCESSORS_CONF));
	const int threads = self_each_number("/proc/self/task", count_up, &n); /* a sanitizer may have one more */
	ck_assert_int_ge(threads, 1);
	ck_assert_uint_eq(n, threads);
	ck_assert_int_eq(self_open_files(), fd_count());
	ck_assert_int_eq(self_read_number(SELF_PARANOID, &number), 0);
	ck_assert_int_eq(self_read_number("/proc/self/comm", &number), -EBADMSG);
	ck_assert_int_eq(self_read_number("/nowhere", &number), -ENOENT);
	ck_assert_int_eq(self_each_number("/nowhere", count_up, &n), -ENOENT);
}
END_TEST

START_TEST(test_sentences)
{
	char much[500];
	memset(much, 'a', sizeof(much));
	much[499] = 0;
	ck_assert_int_eq(self_fail(-5, "%s has %ld of %ld", "it", -3L, 17L), -5);
	ck_assert_str_eq(pillion_error(), "it has -3 of 17");
	self_fail(-1, "%s", much);
	ck_assert_uint_eq(strlen(pillion_error()), 239);
}
END_TEST

UNIT_SUITE(self_record)
{
	Suite *s = suite_create("self_record");
	TCase *c = tcase_create("records"), *r = tcase_create("rings"), *o = tcase_create("others");
	tcase_add_loop_test(c, test_layouts, 0, 16);
	tcase_add_test(c, test_no_registers);
	tcase_add_test(c, test_lies);
	tcase_add_test(c, test_others);
	tcase_add_checked_fixture(r, begin, end);
	tcase_set_timeout(r, 60);
	tcase_add_test(r, test_wrap);
	tcase_add_loop_test(r, test_bad, 0, 5);
	tcase_add_test(r, test_stop);
	tcase_add_test(r, test_page);
	tcase_add_test(r, test_page_that_moves);
	tcase_add_loop_test(o, test_lists, 0, (int)N(lists));
	tcase_add_test(o, test_proc);
	tcase_add_test(o, test_sentences);
	suite_add_tcase(s, c);
	suite_add_tcase(s, r);
	suite_add_tcase(s, o);
	return s;
}

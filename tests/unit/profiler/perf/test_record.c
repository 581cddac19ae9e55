/* SPDX-License-Identifier: Apache-2.0 */
/* Each record lies at the end of an allocation of exactly its size: a read beyond it is seen under ASan. */
#include "profiler/perf/record.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define FIXED (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
#define CHAIN PERF_SAMPLE_CALLCHAIN
#define REGS PERF_SAMPLE_REGS_USER
#define STACK PERF_SAMPLE_STACK_USER

enum { ID = 0x1111, IP = 0x401000, PID = 71, TID = 72, CPU = 3 };
static const uint64_t TIME = 0x123456789aull;

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

/* --- putting records together */

static struct bytes {
	uint8_t b[65536];
	size_t n;
} out;

static void put(const void *p, size_t n)
{
	memcpy(out.b + out.n, p, n);
	out.n += n;
}

static void put_u64(uint64_t v)
{
	put(&v, sizeof(v));
}

static void put_two(uint32_t a, uint32_t b)
{
	put(&a, sizeof(a));
	put(&b, sizeof(b));
}

static void begin(uint32_t type, uint16_t misc)
{
	out.n = 0;
	put(&(struct perf_event_header){.type = type, .misc = misc}, sizeof(struct perf_event_header));
}

static void put_trailer(void)
{
	put_two(PID, TID);
	put_u64(TIME);
	put_two(CPU, 0);
	put_u64(ID);
}

static void put_fixed(void)
{
	put_u64(ID);
	put_u64(IP);
	put_two(PID, TID);
	put_u64(TIME);
	put_two(CPU, 0);
}

static void put_chain(uint64_t nr, uint64_t there)
{
	put_u64(nr);
	for (uint64_t i = 0; i < there; i++)
		put_u64(0x500000 + i);
}

static void put_regs(uint64_t abi, unsigned there)
{
	put_u64(abi);
	for (unsigned i = 0; i < there; i++)
		put_u64(0x7000 + i);
}

static void put_stack(uint64_t size, uint64_t there, uint64_t dyn)
{
	put_u64(size);
	for (uint64_t i = 0; i < there; i++)
		put(&(uint8_t){(uint8_t)i}, 1);
	if (size)
		put_u64(dyn);
}

static struct perf_event_header *exact; /* what was put together, cut to n bytes */

static int parse(size_t n, uint64_t sample_type, struct record *ret)
{
	struct perf_layout l = {.sample_type = sample_type, .regs_user = sample_type & REGS ? PERF_REGS_USER_MASK : 0};
	exact = malloc(n);
	memcpy(exact, out.b, n);
	exact->size = (uint16_t)n;
	return record_parse(exact, &l, ret);
}

static void drop(void)
{
	free(exact);
	exact = NULL;
}

/* --- one good record of every type */

static void make_sample(void)
{
	begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	put_fixed();
}

static void make_chain(void)
{
	make_sample();
	put_chain(3, 3);
}

static void make_full(void)
{
	make_chain();
	put_regs(PERF_SAMPLE_REGS_ABI_64, UNWIND_REGS);
	put_stack(64, 64, 40);
}

/* of a tracepoint: 12 bytes and 4 behind the size, which aligns them */
static void make_raw(void)
{
	uint32_t size = 20;
	make_chain();
	put(&size, sizeof(size));
	for (uint32_t i = 0; i < size; i++)
		put(&(uint8_t){(uint8_t)(0x40 + i)}, 1);
	put_regs(PERF_SAMPLE_REGS_ABI_64, UNWIND_REGS);
}

static void make_mmap(void)
{
	begin(PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	put_two(PID, TID);
	put_u64(0x400000);
	put_u64(0x2000);
	put_u64(0x1000);
	put_two(8, 1);
	put_u64(4711);
	put_u64(5);
	put_two(PROT_READ | PROT_EXEC, MAP_PRIVATE);
	put("/usr/bin/perl\0\0", 16);
	put_trailer();
}

static void make_comm(void)
{
	begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	put_two(PID, TID);
	put("perl\0\0\0", 8);
	put_trailer();
}

static void make_fork(void)
{
	begin(PERF_RECORD_FORK, 0);
	put_two(PID + 100, PID);
	put_two(TID + 100, TID);
	put_u64(TIME);
	put_trailer();
}

static void make_exit(void)
{
	make_fork();
	((struct perf_event_header *)out.b)->type = PERF_RECORD_EXIT;
}

static void make_lost(void)
{
	begin(PERF_RECORD_LOST, 0);
	put_u64(0x2222);
	put_u64(9);
	put_trailer();
}

static void make_lost_samples(void)
{
	begin(PERF_RECORD_LOST_SAMPLES, 0);
	put_u64(9);
	put_trailer();
}

static void make_throttle(void)
{
	begin(PERF_RECORD_THROTTLE, 0);
	put_u64(TIME);
	put_u64(ID);
	put_u64(ID);
	put_trailer();
}

static void make_unknown(void)
{
	begin(4000, 0);
	put_trailer();
}

static void see_sample(const struct record *r)
{
	ck_assert_uint_eq(r->sample.ip, IP);
	ck_assert(r->sample.n_chain == 0 && !r->sample.has_regs && r->sample.stack_size == 0);
}

static void see_chain(const struct record *r)
{
	ck_assert_uint_eq(r->sample.n_chain, 3);
	for (uint64_t i = 0; i < 3; i++)
		ck_assert_uint_eq(r->sample.chain[i], 0x500000 + i);
}

static void see_full(const struct record *r)
{
	see_chain(r);
	ck_assert(r->sample.has_regs);
	for (unsigned i = 0; i < UNWIND_REGS; i++)
		ck_assert_uint_eq(r->sample.regs.r[i], 0x7000 + i);
	ck_assert_uint_eq(r->sample.stack_size, 40); /* not the room for it */
	for (unsigned i = 0; i < 40; i++)
		ck_assert_uint_eq(r->sample.stack[i], i);
}

static void see_raw(const struct record *r)
{
	see_chain(r);
	ck_assert_uint_eq(r->sample.raw_size, 20);
	for (uint32_t i = 0; i < 20; i++)
		ck_assert_uint_eq(r->sample.raw[i], 0x40 + i);
	ck_assert(r->sample.has_regs && r->sample.regs.r[0] == 0x7000);
}

static void see_mmap(const struct record *r)
{
	const struct record_mmap *m = &r->mmap;
	ck_assert(m->start == 0x400000 && m->len == 0x2000 && m->pgoff == 0x1000 && m->exec);
	ck_assert(m->maj == 8 && m->min == 1 && m->ino == 4711 && m->generation == 5 && m->build_id_len == 0);
	ck_assert_str_eq(m->path, "/usr/bin/perl");
}

static void see_comm(const struct record *r)
{
	ck_assert_str_eq(r->comm.name, "perl");
	ck_assert(r->comm.exec);
}

static void see_task(const struct record *r)
{
	ck_assert(r->pid == PID + 100 && r->tid == TID + 100 && r->task.ppid == PID && r->task.ptid == TID);
}

static void see_lost(const struct record *r)
{
	ck_assert_uint_eq(r->lost.count, 9);
	ck_assert_uint_eq(r->lost.id, r->type == PERF_RECORD_LOST ? 0x2222 : ID); /* of the event that lost */
}

static void see_nothing(const struct record *r) {}

static const struct type {
	const char *scenario;
	void (*make)(void);
	void (*see)(const struct record *r);
	uint64_t sample_type;
	bool own_pid; /* the body names a process of its own */
	bool slack;   /* ends in a text or in what nobody reads: cut short, it may be good all the same */
} types[] = {
	{"a sample, nothing but its address", make_sample, see_sample, FIXED, false, false},
	{"a sample with a chain", make_chain, see_chain, FIXED | CHAIN, false, false},
	{"a sample with everything", make_full, see_full, FIXED | CHAIN | REGS | STACK, false, false},
	{"a sample with a tracepoint's record", make_raw, see_raw, FIXED | CHAIN | PERF_SAMPLE_RAW | REGS, false,
		false},
	{"a mapping", make_mmap, see_mmap, FIXED, false, true},
	{"a name", make_comm, see_comm, FIXED, false, true},
	{"a fork", make_fork, see_task, FIXED, true, true},
	{"an exit", make_exit, see_task, FIXED, true, true},
	{"lost records", make_lost, see_lost, FIXED, false, false},
	{"lost samples", make_lost_samples, see_lost, FIXED, false, false},
	{"throttled", make_throttle, see_nothing, FIXED, false, true},
	{"a type nobody knows", make_unknown, see_nothing, FIXED, false, true},
};

START_TEST(good_ones_are_read)
{
	const struct type *t = &types[_i];
	struct record r;
	uint64_t id, time;

	t->make();
	ck_assert_msg(parse(out.n, t->sample_type, &r) == 0, "%s", t->scenario);
	ck_assert_msg(r.id == ID && r.time == TIME && r.cpu == CPU, "%s", t->scenario);
	ck_assert_msg(t->own_pid || (r.pid == PID && r.tid == TID), "%s", t->scenario);
	t->see(&r);
	ck_assert_int_eq(record_peek(exact, &id, &time), 0);
	ck_assert_msg(id == ID && time == TIME, "%s", t->scenario);
	drop();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static bool inside(const void *p)
{
	const uint8_t *begins = (const uint8_t *)exact;
	return (const uint8_t *)p >= begins && (const uint8_t *)p < begins + exact->size;
}

/* Cut after every byte: refused, or still all inside. */
START_TEST(cut_short)
{
	const struct type *t = &types[_i];
	struct record r;
	uint64_t id, time;

	t->make();
	for (size_t n = sizeof(struct perf_event_header); n < out.n; n++) {
		int e = parse(n, t->sample_type, &r);
		ck_assert_msg(e == -EBADMSG || (e == 0 && t->slack), "%s, %zu bytes: %d", t->scenario, n, e);
		if (n < sizeof(struct perf_event_header) + 32)
			ck_assert_int_eq(record_peek(exact, &id, &time), -EBADMSG);
		if (e == 0 && r.type == PERF_RECORD_MMAP2)
			ck_assert(inside(r.mmap.path) && inside(r.mmap.path + strlen(r.mmap.path)));
		if (e == 0 && r.type == PERF_RECORD_COMM)
			ck_assert(inside(r.comm.name) && inside(r.comm.name + strlen(r.comm.name)));
		drop();
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- samples that lie */

static const struct {
	const char *scenario;
	uint64_t sample_type;
	uint64_t nr, ips; /* CHAIN: as announced, as there */
	uint64_t abi;	  /* REGS */
	unsigned regs;
	uint64_t size, bytes, dyn; /* STACK */
	int result;
} samples[] = {
	{"an empty chain", FIXED | CHAIN, 0, 0, 0, 0, 0, 0, 0, 0},
	{"a chain of one more than there is", FIXED | CHAIN, 4, 3, 0, 0, 0, 0, 0, -EBADMSG},
	{"a chain without end", FIXED | CHAIN, UINT64_MAX, 3, 0, 0, 0, 0, 0, -EBADMSG},
	{"a chain whose size in bytes wraps to 24", FIXED | CHAIN, (1ull << 61) + 3, 3, 0, 0, 0, 0, 0, -EBADMSG},
	{"a chain shorter than what is there", FIXED | CHAIN, 2, 3, 0, 0, 0, 0, 0, 0},
	{"the longest chain", FIXED | CHAIN, 8000, 8000, 0, 0, 0, 0, 0, 0},
	{"a kernel thread: no registers, no stack", FIXED | REGS | STACK, 0, 0, 0, 0, 0, 0, 0, 0},
	{"32-bit registers are no use", FIXED | REGS | STACK, 0, 0, 1, UNWIND_REGS, 16, 16, 16, 0},
	{"registers of an unknown kind", FIXED | REGS, 0, 0, 77, UNWIND_REGS, 0, 0, 0, 0},
	{"one register less", FIXED | REGS, 0, 0, 2, UNWIND_REGS - 1, 0, 0, 0, -EBADMSG},
	{"no registers although announced", FIXED | REGS, 0, 0, 2, 0, 0, 0, 0, -EBADMSG},
	{"a stack that is full", FIXED | STACK, 0, 0, 0, 0, 64, 64, 64, 0},
	{"a stack of which nothing could be copied", FIXED | STACK, 0, 0, 0, 0, 64, 64, 0, 0},
	{"more copied than there was room", FIXED | STACK, 0, 0, 0, 0, 64, 64, 65, -EBADMSG},
	{"far more copied than there was room", FIXED | STACK, 0, 0, 0, 0, 64, 64, UINT64_MAX, -EBADMSG},
	{"a stack larger than what is there", FIXED | STACK, 0, 0, 0, 0, 80, 64, 8, -EBADMSG},
	{"a stack over the place of its own end", FIXED | STACK, 0, 0, 0, 0, 72, 64, 8, -EBADMSG},
	{"a stack without end", FIXED | STACK, 0, 0, 0, 0, UINT64_MAX, 64, 8, -EBADMSG},
	{"a stack whose end wraps around", FIXED | STACK, 0, 0, 0, 0, UINT64_MAX - 7, 64, 8, -EBADMSG},
	{"a stack of odd size", FIXED | STACK, 0, 0, 0, 0, 13, 13, 13, 0},
	{"no identifier", FIXED & ~PERF_SAMPLE_IDENTIFIER, 0, 0, 0, 0, 0, 0, 0, -EBADMSG},
	{"no time", FIXED & ~PERF_SAMPLE_TIME, 0, 0, 0, 0, 0, 0, 0, -EBADMSG},
	{"no layout at all", 0, 0, 0, 0, 0, 0, 0, 0, -EBADMSG},
};

START_TEST(samples_that_lie)
{
	const uint64_t type = samples[_i].sample_type;
	struct record r;

	make_sample();
	if (type & CHAIN)
		put_chain(samples[_i].nr, samples[_i].ips);
	if (type & REGS)
		put_regs(samples[_i].abi, samples[_i].regs);
	if (type & STACK)
		put_stack(samples[_i].size, samples[_i].bytes, samples[_i].dyn);
	int e = parse(out.n, type, &r);
	ck_assert_msg(e == samples[_i].result, "%s: %d", samples[_i].scenario, e);
	if (e == 0) {
		ck_assert_uint_eq(r.sample.n_chain, samples[_i].nr);
		ck_assert(r.sample.has_regs == (samples[_i].abi == PERF_SAMPLE_REGS_ABI_64));
		ck_assert_uint_eq(r.sample.stack_size, samples[_i].dyn);
		ck_assert(!r.sample.stack_size || inside(r.sample.stack + r.sample.stack_size - 1));
		ck_assert(!r.sample.n_chain || inside(&r.sample.chain[r.sample.n_chain - 1]));
	}
	drop();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(registers_in_another_order)
{
	struct perf_layout l = {.sample_type = FIXED | REGS, .regs_user = 0xff0fffULL};
	struct record r;
	make_sample();
	put_regs(PERF_SAMPLE_REGS_ABI_64, 20);
	((struct perf_event_header *)out.b)->size = (uint16_t)out.n;
	ck_assert_int_eq(record_parse((struct perf_event_header *)out.b, &l, &r), -EBADMSG);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- texts and build-ids */

START_TEST(a_text_without_end)
{
	struct record r;
	begin(PERF_RECORD_COMM, 0);
	put_two(PID, TID);
	put("perlperl", 8);
	put_trailer(); /* which has zero bytes, but is none of the text */
	ck_assert_int_eq(parse(out.n, FIXED, &r), -EBADMSG);
	drop();
	make_mmap();
	memset(out.b + out.n - 32 - 16, '/', 16);
	ck_assert_int_eq(parse(out.n, FIXED, &r), -EBADMSG);
	drop();
	begin(PERF_RECORD_COMM, 0);
	put_two(PID, TID);
	put_trailer();
	ck_assert_int_eq(parse(out.n, FIXED, &r), -EBADMSG); /* none at all */
	drop();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_name_that_is_no_exec)
{
	struct record r;
	make_comm();
	((struct perf_event_header *)out.b)->misc = 0;
	ck_assert_int_eq(parse(out.n, FIXED, &r), 0);
	ck_assert(!r.comm.exec);
	drop();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	uint8_t len, kept;
} build_ids[] = {{0, 0}, {8, 8}, {16, 16}, {20, 20}, {21, 0}, {255, 0}};

START_TEST(a_mapping_with_a_build_id)
{
	struct record r;
	uint8_t *identity = out.b + 8 + 32;

	make_mmap();
	((struct perf_event_header *)out.b)->misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
	memset(identity, 0, 24);
	identity[0] = build_ids[_i].len;
	for (unsigned i = 0; i < 20; i++)
		identity[4 + i] = (uint8_t)(0xa0 + i);
	ck_assert_int_eq(parse(out.n, FIXED, &r), 0);
	ck_assert_uint_eq(r.mmap.build_id_len, build_ids[_i].kept);
	ck_assert_int_eq(memcmp(r.mmap.build_id, identity + 4, build_ids[_i].kept), 0);
	ck_assert(r.mmap.maj == 0 && r.mmap.ino == 0 && r.mmap.generation == 0);
	ck_assert_str_eq(r.mmap.path, "/usr/bin/perl");
	drop();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

START_TEST(a_mapping_of_data)
{
	struct record r;
	make_mmap();
	out.b[8 + 56] = PROT_READ | PROT_WRITE;
	ck_assert_int_eq(parse(out.n, FIXED, &r), 0);
	ck_assert(!r.mmap.exec);
	drop();
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* What is told of a switch, by either of the events that take turns. */
START_TEST(a_switch)
{
	const bool small = _i == 0;
	struct perf_layout l = {.sample_type = FIXED | PERF_SAMPLE_READ | REGS,
		.regs_user = small ? PERF_REGS_PLACE_MASK : PERF_REGS_USER_MASK,
		.flags = LAYOUT_RUNNING};
	struct record r;
	begin(PERF_RECORD_SAMPLE, 0);
	put_fixed();
	put_u64(17);
	put_u64(123456);
	put_regs(PERF_SAMPLE_REGS_ABI_64, small ? 3 : UNWIND_REGS);
	for (size_t n = 48; n <= out.n; n++) {
		exact = malloc(n);
		memcpy(exact, out.b, n);
		exact->size = (uint16_t)n;
		ck_assert_int_eq(record_parse(exact, &l, &r), n < out.n ? -EBADMSG : 0);
		drop();
	}
	ck_assert(r.sample.value == 17 && r.sample.running == 123456 && r.sample.has_regs);
	ck_assert_uint_eq(r.sample.regs.r[UNWIND_SP], 0x7000 + (small ? 1 : UNWIND_SP));
	ck_assert_uint_eq(r.sample.regs.r[UNWIND_IP], 0x7000 + (small ? 2 : UNWIND_IP));
	ck_assert_uint_eq(r.sample.regs.r[UNWIND_BP], 0x7000 + (small ? 0 : UNWIND_BP));
	l.flags = 0; /* what is read is in another format */
	exact = malloc(out.n);
	memcpy(exact, out.b, out.n);
	exact->size = (uint16_t)out.n;
	ck_assert_int_eq(record_parse(exact, &l, &r), -EBADMSG);
	drop();
}
END_TEST

UNIT_SUITE(record)
{
	Suite *s = suite_create("record");
	TCase *t = tcase_create("record");

	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, good_ones_are_read, 0, LENGTH(types));
	tcase_add_loop_test(t, cut_short, 0, LENGTH(types));
	tcase_add_loop_test(t, samples_that_lie, 0, LENGTH(samples));
	tcase_add_test(t, registers_in_another_order);
	tcase_add_test(t, a_text_without_end);
	tcase_add_test(t, a_name_that_is_no_exec);
	tcase_add_loop_test(t, a_mapping_with_a_build_id, 0, LENGTH(build_ids));
	tcase_add_test(t, a_mapping_of_data);
	tcase_add_loop_test(t, a_switch, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/perf_event.h"

#include "oci/base/fd.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/seccomp.h"
#include "profiler/perf/cpu_rings.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/skip.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

/* --- attributes */

#define ID (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
#define CHAIN PERF_SAMPLE_CALLCHAIN
#define SNAPSHOT (PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define CPU_CLOCK                                                                                                      \
	{                                                                                                              \
		0, 10101010                                                                                            \
	}

static const struct {
	const char *scenario;
	struct perf_want want;
	uint64_t sample_type;
	bool no_user_chain, sideband;
	uint64_t config;
} attrs[] = {
	{"samples, kernel and user by snapshot", {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .kernel = true},
		ID | PERF_SAMPLE_IP | CHAIN | SNAPSHOT, true, false, PERF_COUNT_SW_CPU_CLOCK},
	{"samples, user only by snapshot: no chain at all", {.role = PERF_SAMPLES, .spec = CPU_CLOCK},
		ID | PERF_SAMPLE_IP | SNAPSHOT, true, false, PERF_COUNT_SW_CPU_CLOCK},
	{"samples, snapshot asked for by name",
		{.role = PERF_SAMPLES, .spec = CPU_CLOCK, .stacks = STACKS_DWARF, .kernel = true},
		ID | PERF_SAMPLE_IP | CHAIN | SNAPSHOT, true, false, PERF_COUNT_SW_CPU_CLOCK},
	{"samples, frame pointers", {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .stacks = STACKS_FP, .kernel = true},
		ID | PERF_SAMPLE_IP | CHAIN, false, false, PERF_COUNT_SW_CPU_CLOCK},
	{"samples, user only by frame pointers", {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .stacks = STACKS_FP},
		ID | PERF_SAMPLE_IP | CHAIN, false, false, PERF_COUNT_SW_CPU_CLOCK},
	{"samples, no stacks", {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .stacks = STACKS_NONE, .kernel = true},
		ID | PERF_SAMPLE_IP, false, false, PERF_COUNT_SW_CPU_CLOCK},
	{"samples of page faults", {.role = PERF_SAMPLES, .spec = {1, 50}, .stacks = STACKS_NONE, .kernel = true},
		ID | PERF_SAMPLE_IP, false, false, PERF_COUNT_SW_PAGE_FAULTS},
	{"waits, with stacks", {.role = PERF_SAMPLES, .spec = {18, 10101010}, .kernel = true, .lost = true},
		ID | PERF_SAMPLE_IP | PERF_SAMPLE_READ | CHAIN | SNAPSHOT, true, false, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"waits, without", {.role = PERF_OFFCPU_SMALL, .spec = {18, 10101010}, .kernel = true, .lost = true},
		ID | PERF_SAMPLE_IP | PERF_SAMPLE_READ | SNAPSHOT, false, false, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"waits, without, frame pointers",
		{.role = PERF_OFFCPU_SMALL, .spec = {18, 10101010}, .stacks = STACKS_FP, .kernel = true, .lost = true},
		ID | PERF_SAMPLE_IP | PERF_SAMPLE_READ | PERF_SAMPLE_REGS_USER, false, false,
		PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"waits of inherited events, with stacks",
		{.role = PERF_SAMPLES, .spec = {18, 10101010}, .kernel = true, .inherit = true},
		ID | PERF_SAMPLE_IP | CHAIN | SNAPSHOT, true, false, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"waits of inherited events, without",
		{.role = PERF_OFFCPU_SMALL, .spec = {18, 10101010}, .kernel = true, .inherit = true},
		ID | PERF_SAMPLE_IP | SNAPSHOT, false, false, PERF_COUNT_SW_CONTEXT_SWITCHES},
	{"waits of inherited events, a plain user's: a clock",
		{.role = PERF_SAMPLES, .spec = {18, 10101010}, .inherit = true}, ID | PERF_SAMPLE_IP | SNAPSHOT, true,
		false, PERF_COUNT_SW_CPU_CLOCK},
	{"going off and coming back", {.role = PERF_SWITCHES, .spec = {18, 10101010}, .inherit = true}, ID, false,
		false, PERF_COUNT_SW_DUMMY},
	{"who is on a CPU", {.role = PERF_ROLL_CALL, .spec = {18, 10101010}, .kernel = true}, ID | PERF_SAMPLE_IP,
		false, false, PERF_COUNT_SW_CPU_CLOCK},
	{"side band", {.role = PERF_SIDEBAND, .kernel = true, .build_id = true}, ID, false, true, PERF_COUNT_SW_DUMMY},
	{"side band of an old kernel", {.role = PERF_SIDEBAND, .kernel = true}, ID, false, true, PERF_COUNT_SW_DUMMY},
	{"the owner of a ring records nothing", {.role = PERF_OWNER, .kernel = true, .build_id = true}, ID, false,
		false, PERF_COUNT_SW_DUMMY},
};

START_TEST(what_is_recorded)
{
	const struct perf_want *w = &attrs[_i].want;
	const bool small = w->role == PERF_OFFCPU_SMALL, sideband = attrs[_i].sideband;
	const bool snapshot = attrs[_i].sample_type & PERF_SAMPLE_STACK_USER;
	struct perf_event_attr a;
	struct perf_layout l;

	perf_attr(w, &a, &l);
	ck_assert_msg(a.sample_type == attrs[_i].sample_type, "%s: %llx", attrs[_i].scenario,
		(unsigned long long)a.sample_type);
	ck_assert_uint_eq(a.type, PERF_TYPE_SOFTWARE);
	ck_assert_uint_eq(a.config, attrs[_i].config);
	const bool waits = attrs[_i].sample_type & PERF_SAMPLE_READ;
	const bool each = attrs[_i].config == PERF_COUNT_SW_CONTEXT_SWITCHES;
	ck_assert_uint_eq(a.sample_period, each			       ? 1
					   : w->role == PERF_ROLL_CALL ? PERF_SEEN_NS
					   : w->role == PERF_SAMPLES   ? w->spec.period
								       : 0);
	ck_assert_uint_eq(a.read_format, waits || sideband ? PERF_FORMAT_TOTAL_TIME_RUNNING : 0);
	ck_assert_uint_eq(l.flags, waits || sideband ? LAYOUT_RUNNING : 0);
	ck_assert_uint_eq(a.sample_regs_user, small ? PERF_REGS_PLACE_MASK : snapshot ? PERF_REGS_USER_MASK : 0);
	ck_assert_uint_eq(a.sample_stack_user, !snapshot	    ? 0
					       : small		    ? PERF_STACK_PLACE
					       : w->inherit && each ? 16 << 10
					       : w->inherit	    ? 8 << 10
								    : PERF_STACK_USER_DEFAULT);
	ck_assert(a.context_switch == (w->role == PERF_SWITCHES));
	ck_assert(a.exclude_kernel == !w->kernel || w->role == PERF_ROLL_CALL);
	ck_assert_uint_eq(a.exclude_callchain_user, attrs[_i].no_user_chain);
	ck_assert(a.mmap == sideband && a.mmap2 == sideband && a.comm == sideband && a.comm_exec == sideband);
	ck_assert(a.task == sideband && a.build_id == (sideband && w->build_id));
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *list;
	uint32_t type;
	uint64_t config, offset, raw; /* raw: PERF_SAMPLE_RAW or 0 */
	const char *probe;
	bool exclude_user, exclude_kernel;
} specs[] = {
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0, NULL, false, false},
	{"page-faults:user", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0, NULL, false, true},
	{"page-faults:kernel", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0, NULL, true, false},
	{"raw:r1c2", PERF_TYPE_RAW, 0x1c2, 0, 0, NULL, false, false},
	{"cycles:user", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, 0, NULL, false, true},
	{"kprobe:f+0x10", 99, 0, 16, 0, "f", false, false},
	{"uprobe:/x:f", 99, 0, 0, 0, "/x", false, false},
	{"tracepoint:a:b", PERF_TYPE_TRACEPOINT, 0, 0, 0, NULL, false, false},
	{"tracepoint:a:b.c", PERF_TYPE_TRACEPOINT, 0, 0, PERF_SAMPLE_RAW, NULL, false, false},
};

START_TEST(what_a_list_says)
{
	struct event_spec list[EVENTS_MAX];
	struct perf_event_attr a;
	struct perf_layout l;
	size_t n;
	bool clamped;
	ck_assert_int_eq(event_spec_parse(specs[_i].list, 0, list, &n, &clamped, NULL), 0);
	list[0].value_size = specs[_i].raw ? 8 : 0; /* which tracefs tells */
	struct perf_want w = {.role = PERF_SAMPLES, .spec = list[0], .kernel = true, .probe = specs[_i].probe};
	w.probe_type = specs[_i].probe ? 99 : 0;
	perf_attr(&w, &a, &l);
	ck_assert_uint_eq(a.type, specs[_i].type);
	ck_assert_uint_eq(a.config, specs[_i].config);
	ck_assert_ptr_eq((const char *)(uintptr_t)a.uprobe_path, specs[_i].probe); // NOLINT(performance-no-int-to-ptr)
	ck_assert_uint_eq(a.probe_offset, specs[_i].offset);
	ck_assert_uint_eq(a.sample_type & PERF_SAMPLE_RAW, specs[_i].raw);
	const bool turns = specs[_i].type == PERF_TYPE_RAW || specs[_i].type == PERF_TYPE_HARDWARE;
	ck_assert_uint_eq(a.read_format, turns ? PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING : 0);
	ck_assert_uint_eq(l.flags, turns ? LAYOUT_TIMES : 0);
	ck_assert_uint_eq(a.exclude_user, specs[_i].exclude_user);
	ck_assert_uint_eq(a.exclude_kernel, specs[_i].exclude_kernel);
}
END_TEST

/* Every combination of what can be asked for, by number. */
static struct perf_want combination(unsigned i)
{
	return (struct perf_want){
		.role = PERF_SAMPLES + i % 3,
		.spec = {i / 3 % 2, 1000000},
		.stacks = i / 6 % 4,
		.kernel = i / 24 & 1,
		.inherit = i / 48 & 1,
		.build_id = i / 96 & 1,
		.lost = i / 192 & 1,
		.on_exec = i / 384 & 1,
		.sideband = i / 768 & 1 && i % 3 == 0,
		.idle = i / 5 & 1,
		.rung = i / 7 % (PERF_RUNGS + 1),
	};
}
#define COMBINATIONS (3 * 2 * 4 * 64)

START_TEST(what_holds_for_every_event)
{
	for (unsigned i = 0; i < COMBINATIONS; i++) {
		struct perf_want w = combination(i);
		struct perf_event_attr a;
		struct perf_layout l;
		memset(&a, 0xff, sizeof(a));
		perf_attr(&w, &a, &l);
		ck_assert_msg(!(a.sample_type & PERF_SAMPLE_PERIOD), "combination %u", i); /* see below */
		ck_assert((a.sample_type & ID) == ID && a.sample_id_all && a.size == sizeof(a));
		ck_assert(a.use_clockid && a.clockid == CLOCK_MONOTONIC && !a.freq);
		ck_assert(a.wakeup_events && a.exclude_hv && !a.sigtrap && !a.precise_ip);
		/* nobody enables what need not wait */
		ck_assert(a.disabled == (w.on_exec || w.idle || w.role == PERF_OWNER));
		ck_assert(a.exclude_kernel == !w.kernel && a.exclude_callchain_kernel == !w.kernel);
		ck_assert(a.inherit == w.inherit && a.enable_on_exec == (w.on_exec && !w.idle));
		bool tells = w.role == PERF_SIDEBAND || w.sideband;
		ck_assert(a.mmap == tells && a.mmap2 == tells && a.comm == tells && a.comm_exec == tells &&
			  a.task == tells);
		bool side = w.role == PERF_SIDEBAND;
		ck_assert_uint_eq(a.read_format, side ? PERF_FORMAT_TOTAL_TIME_RUNNING : w.lost ? PERF_FORMAT_LOST : 0);
		ck_assert(l.sample_type == a.sample_type && l.regs_user == a.sample_regs_user);
		ck_assert(l.stack_user == a.sample_stack_user && l.stack_user % 8 == 0 && l.stack_user <= 65528);
		ck_assert_uint_eq(l.flags, side ? LAYOUT_RUNNING : w.lost ? LAYOUT_LOST : 0);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* What a kernel may be too old for is left out, as the opener does. */
START_TEST(the_kernel_takes_all_of_them)
{
	for (unsigned i = 0; i < COMBINATIONS; i++) {
		struct perf_want w = combination(i);
		struct perf_event_attr a;
		struct perf_layout l;
		perf_attr(&w, &a, &l);
		int fd = perf_open(&a, 0, -1, 0);
		if (fd == -EINVAL && (w.build_id || w.lost))
			continue;
		if (fd == -EACCES || fd == -EPERM || fd == -ENOSYS) {
			skip(strerror(-fd));
			return;
		}
		ck_assert_msg(fd >= 0, "combination %u: %s", i, strerror(-fd));
		ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
		fd_close(fd);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static unsigned samples_in(int fd, size_t pages_touched)
{
	struct ring *ring;
	unsigned n = 0;
	ck_assert_int_eq(ring_open(fd, 8, &ring), 0);
	char *at = mmap(NULL, pages_touched * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	madvise(at, pages_touched * 4096, MADV_NOHUGEPAGE);
	ck_assert_int_eq(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0), 0);
	for (size_t i = 0; i < pages_touched; i++)
		((volatile char *)at)[i * 4096] = 1;
	ck_assert_int_eq(ioctl(fd, PERF_EVENT_IOC_DISABLE, 0), 0);
	munmap(at, pages_touched * 4096);
	ring_look(ring);
	for (const struct perf_event_header *h; (h = ring_peek(ring)); ring_take(ring))
		n += h->type == PERF_RECORD_SAMPLE;
	ring_close(ring);
	return n;
}

/* The period is kept: with PERF_SAMPLE_PERIOD the kernel would make every single fault a sample. */
START_TEST(one_sample_per_period)
{
	struct perf_want w = {.role = PERF_SAMPLES, .spec = {1, 50}, .stacks = STACKS_NONE};
	struct perf_event_attr a;
	struct perf_layout l;

	perf_attr(&w, &a, &l);
	int fd = perf_open(&a, 0, -1, 0);
	if (fd < 0) {
		skip(strerror(-fd));
		return;
	}
	unsigned n = samples_in(fd, 1000);
	ck_assert_msg(n >= 18 && n <= 200, "%u samples", n);
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- two events of one kind on one thread */

static unsigned fault_samples(const struct perf_event_mmap_page *ring, uint64_t time[static 4], uint64_t id[static 4])
{
	const char *data = (const char *)ring + ring->data_offset;
	unsigned n = 0;
	for (uint64_t at = ring->data_tail; at < ring->data_head && n < 4;) {
		const struct perf_event_header *h = (const void *)(data + at);
		const uint64_t *words = (const void *)(h + 1); /* id, ip, pid and tid, time (perf_event_open(2)) */
		at += h->size;
		if (h->type != PERF_RECORD_SAMPLE)
			continue;
		id[n] = words[0];
		time[n++] = words[3];
	}
	return n;
}

/* What profiler/sample/event_dedup.h builds upon: one occurrence is one time, whatever the ids say. */
START_TEST(two_of_a_kind_count_at_one_time)
{
	struct perf_event_attr a = {.size = sizeof(a),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.exclude_kernel = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME};
	const size_t size = 9 * 4096;
	uint64_t time[2][4], id[2][4], own[2];
	struct perf_event_mmap_page *ring[2];
	int fd[2];
	for (int i = 0; i < 2; i++) {
		fd[i] = perf_open(&a, 0, -1, 0);
		if (fd[i] < 0) {
			skip(strerror(-fd[i]));
			return;
		}
		ring[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0);
		ck_assert_ptr_ne(ring[i], MAP_FAILED);
		ck_assert_int_eq(ioctl(fd[i], PERF_EVENT_IOC_ID, &own[i]), 0);
	}
	for (int i = 0; i < 4; i++) /* the first time it is a page fault itself */
		ring[i % 2]->data_tail = ring[i % 2]->data_head;
	volatile char *memory = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 4; i++)
		memory[(size_t)i * 4096] = 1;
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(fault_samples(ring[i], time[i], id[i]), 4);
	for (int i = 0; i < 4; i++)
		ck_assert_uint_eq(time[0][i], time[1][i]);
	printf("two events of a kind: ids %s\n", id[0][0] == id[1][0] ? "of one of them in both" : "of their own");
	munmap((void *)memory, 4 * 4096);
	for (int i = 0; i < 2; i++) {
		munmap(ring[i], size);
		fd_close(fd[i]);
	}
}
END_TEST

/* --- when a ring's reader is woken */

static const struct {
	const char *event;
	enum stacks stacks;
	uint32_t rung, samples; /* 0: by the ring's mark alone */
} wakes[] = {{"cpu", STACKS_DWARF, 1, 0}, {"cpu@250", STACKS_DWARF, 3, 4}, {"cpu@251", STACKS_DWARF, 1, 15},
	{"cpu@999", STACKS_DWARF, 2, 4}, {"cpu@999", STACKS_DWARF, 3, 2}, {"cpu@999", STACKS_FP, 0, 256},
	{"page-faults/1", STACKS_DWARF, 2, 4}, {"page-faults/1000", STACKS_NONE, 0, 256}, {"cpu", STACKS_DWARF, 2, 8},
	{"cpu", STACKS_FP, 0, 0}, {"offcpu", STACKS_DWARF, 0, 4}};

static struct perf_event_attr attr_of_wake(unsigned i)
{
	struct perf_want w = {.role = PERF_SAMPLES, .stacks = wakes[i].stacks, .rung = wakes[i].rung};
	struct event_spec spec[EVENTS_MAX];
	struct perf_event_attr a;
	struct perf_layout l;
	size_t n;
	bool clamped;
	struct err e;
	ck_assert_int_eq(event_spec_parse(wakes[i].event, 0, spec, &n, &clamped, &e), 0);
	w.spec = spec[0];
	perf_attr(&w, &a, &l);
	return a;
}

START_TEST(fast_ones_call_early)
{
	struct perf_event_attr a = attr_of_wake(_i);
	ck_assert_msg(wakes[_i].samples ? !a.watermark && a.wakeup_events == wakes[_i].samples : a.watermark, "%s: %u",
		wakes[_i].event, a.wakeup_events);
}
END_TEST

static bool is_called(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, 0) == 1 && p.revents & POLLIN;
}

static const struct {
	uint32_t wakeup_events;
	unsigned called; /* with the n-th snapshot of 32 KiB */
} calls[] = {{3, 3}, {1000, 12}};

/* An event that writes into another's ring calls that one's reader, by its own number as by the ring's mark. */
START_TEST(the_kernel_calls_the_owner)
{
	struct cpu_rings *rings;
	char note[160];
	unsigned i = 0;
	int cpu = sched_getcpu();
	cpu_set_t here, before;
	CPU_ZERO(&here);
	CPU_SET(cpu, &here);
	MUST(sched_getaffinity(0, sizeof(before), &before) == 0 && sched_setaffinity(0, sizeof(here), &here) == 0);
	if (cpu_rings_open(&rings, note, sizeof(note), NULL) < 0) {
		skip("no rings");
		return;
	}
	if (note[0]) {
		skip(note);
		cpu_rings_close(rings);
		return;
	}
	while (cpu_rings_cpu(rings, i) != cpu)
		i++;
	struct perf_event_attr a = attr_of_wake(6);
	a.disabled = 1;
	a.wakeup_events = calls[_i].wakeup_events;
	int fd = perf_open(&a, 0, cpu, 0);
	MUST(fd >= 0 && cpu_rings_redirect(rings, cpu, fd) == 0);
	volatile char *at = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise((void *)at, 16 * 4096, MADV_NOHUGEPAGE);
	for (unsigned n = 0; n < 16; n++) /* a sanitizer's shadow of these pages has its faults before */
		at[n * 4096] = 1;
	madvise((void *)at, 16 * 4096, MADV_DONTNEED);
	unsigned called = 0;
	for (unsigned n = 1; n <= 16 && !called; n++) {
		MUST(ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) == 0);
		at[(n - 1) * 4096] = 1;
		MUST(ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) == 0);
		called = is_called(cpu_rings_fd(rings, i)) ? n : 0;
	}
	ck_assert_uint_eq(called, calls[_i].called);
	munmap((void *)at, 16 * 4096);
	fd_close(fd);
	cpu_rings_close(rings);
	MUST(sched_setaffinity(0, sizeof(before), &before) == 0);
}
END_TEST

/* --- rungs */

START_TEST(sizes_of_snapshots)
{
	static const uint32_t sizes[] = {32 << 10, 8 << 10, 32 << 10, 65528, 32 << 10};
	for (uint32_t rung = 0; rung < LENGTH(sizes); rung++) {
		struct perf_want w = {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .rung = rung, .idle = true};
		struct perf_event_attr a;
		struct perf_layout l;
		perf_attr(&w, &a, &l);
		ck_assert_uint_eq(a.sample_stack_user, sizes[rung]);
		ck_assert_uint_eq(l.stack_user, sizes[rung]);
		int fd = perf_open(&a, 0, -1, 0);
		if (fd == -EACCES || fd == -EPERM || fd == -ENOSYS) {
			skip(strerror(-fd));
			return;
		}
		ck_assert_msg(fd >= 0, "%u bytes: %s", sizes[rung], strerror(-fd));
		fd_close(fd);
		a.sample_stack_user = PERF_STACK_USER_MAX + 8; /* no kernel has more */
		ck_assert_int_eq(perf_open(&a, 0, -1, 0), -EINVAL);
	}
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static const struct {
	const char *event;
	uint32_t first;
} firsts[] = {{"cpu", 2}, {"cpu@250", 2}, {"cpu@251", 1}, {"cpu@999", 1}, {"page-faults/1", 2}, {"page-faults/50", 2}};

START_TEST(high_rates_begin_with_small_ones)
{
	struct event_spec spec[EVENTS_MAX];
	size_t n;
	bool clamped;
	struct err e;
	ck_assert_int_eq(event_spec_parse(firsts[_i].event, 0, spec, &n, &clamped, &e), 0);
	ck_assert_msg(perf_first_rung(spec) == firsts[_i].first, "%s", firsts[_i].event);
}
END_TEST

/*
 * What a move rests on: who was passed an event, and may nothing else, enables and disables it for all that inherited
 * it, whoever of them is still there. Not so its period (PERF_EVENT_IOC_PERIOD is for the one task alone).
 */
#define BURNERS 3
#define BURN_NS (20 * NSEC_PER_MSEC)

static int told[2], tell[2]; /* "go on", "so far" */

static void say(int fd)
{
	MUST(write(fd, "", 1) == 1);
}

static void hear(int fd)
{
	char c;
	MUST(read(fd, &c, 1) == 1);
}

static void *burn(void *arg)
{
	struct timespec t = {0};
	int64_t start = -1, now = 0;
	while (start < 0 || now - start < BURN_NS) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
		start = start < 0 ? now : start;
	}
	return NULL;
}

static void *burn_when_told(void *arg)
{
	hear(told[0]);
	return burn(arg);
}

static void threads(void *(*fn)(void *))
{
	pthread_t t[BURNERS];
	for (int i = 0; i < BURNERS; i++)
		MUST(pthread_create(&t[i], NULL, fn, NULL) == 0);
	if (fn == burn_when_told)
		say(tell[1]);
	for (int i = 0; i < BURNERS; i++)
		MUST(pthread_join(t[i], NULL) == 0);
}

static void threads_before(void)
{
	threads(burn_when_told);
}

static void threads_after(void)
{
	say(tell[1]);
	hear(told[0]);
	threads(burn);
}

static void wait_all(void)
{
	while (wait(NULL) > 0)
		;
}

static void orphans(void)
{
	for (int i = 0; i < BURNERS; i++)
		if (fork() == 0) {
			say(tell[1]);
			burn_when_told(NULL);
			_exit(0);
		}
	_exit(0); /* theirs is the first task, whose events the descriptors are */
}

static void children_of_orphans(void)
{
	if (fork())
		_exit(0);
	say(tell[1]);
	hear(told[0]);
	for (int i = 0; i < BURNERS; i++)
		if (fork() == 0) {
			burn(NULL);
			_exit(0);
		}
	wait_all();
}

/* Threads of one process: they swap contexts whenever one follows another on a CPU. */
static void in_turns(void)
{
	pthread_t t[BURNERS];
	for (int i = 0; i < BURNERS; i++)
		MUST(pthread_create(&t[i], NULL, burn_when_told, NULL) == 0);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	say(tell[1]);
	for (int i = 0; i < BURNERS; i++)
		pthread_join(t[i], NULL);
}

static const struct {
	const char *scenario;
	void (*fn)(void);
	unsigned ready; /* how often it says so */
} programs[] = {
	{"threads that were there", threads_before, 1},
	{"threads to come", threads_after, 1},
	{"processes whose parent, the first task, has ended", orphans, BURNERS},
	{"children that these have later", children_of_orphans, 1},
	{"threads that swap contexts", in_turns, 1},
};

static int64_t value_of(int fd)
{
	uint64_t value = 0;
	MUST(read(fd, &value, sizeof(value)) == sizeof(value));
	return (int64_t)value;
}

struct function_delta {
	int from, to;
};

static void move_without_rights(const void *arg)
{
	const struct function_delta *m = arg;
	MUST(geteuid() != 0 || setresuid(65534, 65534, 65534) == 0);
	MUST(capabilities_limit(0, NULL) == 0);
	MUST(ioctl(m->to, PERF_EVENT_IOC_ENABLE, 0) == 0 && ioctl(m->from, PERF_EVENT_IOC_DISABLE, 0) == 0);
}

static void move_rungs(const void *arg)
{
	const int row = *(const int *)arg;
	struct perf_want w = {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .inherit = true, .stacks = STACKS_NONE};
	struct perf_event_attr a;
	struct perf_layout l;
	cpu_set_t one;
	int cpu, go[2];

	/* reaper of all, on the CPU that the events are of */
	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 && (cpu = sched_getcpu()) >= 0);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	MUST(sched_setaffinity(0, sizeof(one), &one) == 0);
	MUST(pipe(told) == 0 && pipe(tell) == 0 && pipe(go) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		hear(go[0]);
		programs[row].fn();
		_exit(0);
	}
	perf_attr(&w, &a, &l);
	int from = perf_open(&a, pid, cpu, 0);
	w.idle = true;
	perf_attr(&w, &a, &l);
	int to = perf_open(&a, pid, cpu, 0);
	MUST(from >= 0 && to >= 0);
	say(go[1]);
	for (unsigned i = 0; i < programs[row].ready; i++)
		hear(tell[0]);
	MUST(value_of(to) == 0 && value_of(from) > 0);
	MUST(in_child(move_without_rights, &(struct function_delta){from, to}) == 0);
	int64_t before = value_of(from);
	for (int i = 0; i < BURNERS; i++)
		say(told[1]);
	wait_all();
	int64_t counted = value_of(to), all = BURNERS * BURN_NS;
	/* time that a hypervisor takes is counted as well, and of each switch to a task some microseconds are not */
	if (value_of(from) == before && counted >= all * 95 / 100 && counted < 3 * all)
		return;
	dprintf(2, "%s: %lld us by the new, %lld more by the old\n", programs[row].scenario, (long long)counted / 1000,
		(long long)(value_of(from) - before) / 1000);
	_exit(1);
}

START_TEST(a_move_reaches_all_that_inherited)
{
	struct perf_want w = {.role = PERF_SAMPLES, .spec = CPU_CLOCK, .stacks = STACKS_NONE};
	struct perf_event_attr a;
	struct perf_layout l;
	perf_attr(&w, &a, &l);
	int fd = perf_open(&a, 0, -1, 0);
	if (fd < 0)
		skip(strerror(-fd));
	else
		ck_assert_msg(in_child(move_rungs, &_i) == 0, "%s", programs[_i].scenario);
	fd_close(fd);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- files of the kernel, played by ours: in a mount namespace of its own they lie over the real ones */

static void play(const char *place, const char *text)
{
	char file[] = "/tmp/test_perf.XXXXXX";
	static bool private;
	if (!private)
		MUST(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	private = true;
	int fd = mkstemp(file);
	MUST(fd >= 0 && fchmod(fd, 0644) == 0 && fd_write_all(fd, text, strlen(text)) == 0);
	fd_close(fd);
	int r = mount(file, place, NULL, MS_BIND, NULL);
	unlink(file);
	MUST(r == 0);
}

static bool can_play(void)
{
	if (geteuid() == 0)
		return true;
	skip("a mount namespace needs root");
	return false;
}

static const struct {
	const char *text;
	size_t max;
	int result, cpus[8];
} lists[] = {
	{"0\n", 8, 1, {0}},
	{"0-3\n", 8, 4, {0, 1, 2, 3}},
	{"0,2\n", 8, 2, {0, 2}},
	{"0-1,4,6-7\n", 8, 5, {0, 1, 4, 6, 7}},
	{"1022-1024\n", 8, 3, {1022, 1023, 1024}},
	{"0-63\n", 3, 3, {0, 1, 2}},
	{"0,5-9,12\n", 3, 3, {0, 5, 6}},
	{"\n", 8, 0, {0}},
	{"all\n", 8, -EBADMSG, {0}},
	{"0-3,x\n", 8, -EBADMSG, {0}},
};

static void read_list(const void *arg)
{
	const int row = *(const int *)arg;
	int cpus[8] = {0};
	play("/sys/devices/system/cpu/online", lists[row].text);
	MUST(perf_online_cpus(cpus, lists[row].max) == lists[row].result);
	for (int i = 0; i < lists[row].result; i++)
		MUST(cpus[i] == lists[row].cpus[i]);
}

START_TEST(lists_of_cpus)
{
	if (can_play())
		ck_assert_msg(in_child(read_list, &_i) == 0, "\"%s\"", lists[_i].text);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

static void read_without_sysfs(const void *arg)
{
	int cpus[4096];
	MUST(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	long n = sysconf(_SC_NPROCESSORS_CONF);
	MUST(mount("none", "/sys", "tmpfs", 0, NULL) == 0);
	int got = perf_online_cpus(cpus, LENGTH(cpus));
	MUST(got >= 1 && got <= n && cpus[0] == 0 && cpus[got - 1] == got - 1);
	MUST(perf_online_cpus(cpus, 1) == 1);
}

START_TEST(this_machine)
{
	static int cpus[4096];
	int n = perf_online_cpus(cpus, LENGTH(cpus));
	ck_assert_int_eq(n, (int)sysconf(_SC_NPROCESSORS_ONLN));
	for (int i = 1; i < n; i++)
		ck_assert_int_gt(cpus[i], cpus[i - 1]);
	if (can_play())
		ck_assert_int_eq(in_child(read_without_sysfs, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* --- reasons */

#define NONE UINT64_C(0)
#define PERFMON CAP_BIT(CAP_PERFMON)
#define ADMIN CAP_BIT(CAP_SYS_ADMIN)

static const struct {
	const char *paranoid; /* NULL: the file is not there */
	uid_t uid;
	uint64_t caps;
	int error;
	const char *sentence; /* its beginning */
} reasons[] = {
	{"2", 0, NONE, EACCES, "open: kernel.perf_event_paranoid is 2 and this process has no CAP_PERFMON; grant it"},
	{"1", 0, NONE, EACCES, "open: kernel.perf_event_paranoid is 1 and this process has no CAP_PERFMON; grant it"},
	{"4", 0, NONE, EACCES,
		"open: kernel.perf_event_paranoid is 4, which this distribution grants to CAP_SYS_ADMIN only; give the "
		"container CAP_SYS_ADMIN (in Kubernetes: hooks/kubernetes/paranoid in place of base), or set it to 2"},
	{"3", 0, PERFMON, EACCES,
		"open: kernel.perf_event_paranoid is 3, which this distribution grants to CAP_SYS_ADMIN only; give "
		"the"},
	{"3", 65534, NONE, EACCES,
		"open: kernel.perf_event_paranoid is 3, which this distribution grants to CAP_SYS_ADMIN only; run the "
		"hook as root of the host, or set it to 2"},
	{"2", 0, NONE, EPERM,
		"open: a seccomp filter or security module forbids perf_event_open; let it through, in a"},
	{"2", 0, PERFMON, EPERM, "open: a seccomp filter or security module forbids perf_event_open"},
	{"2", 0, ADMIN, EACCES,
		"open: Permission denied although capabilities and perf_event_paranoid (2) allow it: a"},
	{"4", 0, ADMIN, EACCES,
		"open: Permission denied although capabilities and perf_event_paranoid (4) allow it: a"},
	{"-1", 0, NONE, EACCES, "open: Permission denied although capabilities and perf_event_paranoid (-1) allow it:"},
	{NULL, 0, NONE, EACCES, "open: refused by the kernel (Permission denied)"},
	{NULL, 0, NONE, EPERM, "open: a seccomp filter or security module forbids perf_event_open"},
	{"2", 0, NONE, ENOSYS, "open: a seccomp filter hides perf_event_open"},
	{NULL, 0, NONE, ENOSYS, "open: this kernel has no perf events (CONFIG_PERF_EVENTS)"},
	{"2", 0, NONE, EMFILE, "open: out of file descriptors (RLIMIT_NOFILE is "},
	{"2", 0, NONE, ENFILE, "open: the host is out of file descriptors (fs.file-max)"},
	{"2", 0, NONE, EBUSY, "open: Device or resource busy"},
	{"2", 0, NONE, ENODEV, "open: No such device"},
};

static void explain(const void *arg)
{
	const int row = *(const int *)arg;
	struct err e = {0};
	int paranoid = 99;
	if (reasons[row].paranoid) {
		play("/proc/sys/kernel/perf_event_paranoid", reasons[row].paranoid);
		MUST(perf_paranoid(&paranoid) == 0 && paranoid == atoi(reasons[row].paranoid));
	} else {
		MUST(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
		MUST(mount("none", "/proc/sys/kernel", "tmpfs", 0, NULL) == 0);
		MUST(perf_paranoid(&paranoid) == -ENOENT && paranoid == 99);
	}
	MUST(setresuid(reasons[row].uid, reasons[row].uid, reasons[row].uid) == 0);
	MUST(capabilities_limit(reasons[row].caps, NULL) == 0);
	MUST(perf_explain(-reasons[row].error, "open", &e) == -reasons[row].error);
	if (strncmp(e.text, reasons[row].sentence, strlen(reasons[row].sentence)) != 0) {
		dprintf(2, "%s\n", e.text);
		_exit(1);
	}
}

START_TEST(why_an_open_failed)
{
	if (can_play())
		ck_assert_msg(in_child(explain, &_i) == 0, "%s", reasons[_i].sentence);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

/* An opener opens no file any more when it has to say why: what it saw before still holds. */
static void explain_under_seccomp(const void *arg)
{
	struct err e = {0};
	int before, after;
	MUST(capabilities_limit(0, &e) == 0);
	MUST(perf_paranoid(&before) == 0);
	MUST(seccomp_enter(SECCOMP_OPENER, &e) == 0);
	MUST(perf_paranoid(&after) == 0 && after == before);
	MUST(perf_explain(-EACCES, "open", &e) == -EACCES);
	MUST(strstr(e.text, "open: ") == e.text && strstr(e.text, "perf_event_paranoid"));
}

START_TEST(why_an_open_failed_told_by_an_opener)
{
	int paranoid;
	if (perf_paranoid(&paranoid) == 0)
		ck_assert_int_eq(in_child(explain_under_seccomp, NULL), 0);
	else
		skip("this kernel has no perf events");
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(perf_event)
{
	Suite *s = suite_create("perf_event");
	TCase *t = tcase_create("perf_event");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, what_is_recorded, 0, LENGTH(attrs));
	tcase_add_loop_test(t, what_a_list_says, 0, sizeof(specs) / sizeof(specs[0]));
	tcase_add_test(t, what_holds_for_every_event);
	tcase_add_test(t, the_kernel_takes_all_of_them);
	tcase_add_test(t, one_sample_per_period);
	tcase_add_test(t, two_of_a_kind_count_at_one_time);
	tcase_add_loop_test(t, fast_ones_call_early, 0, LENGTH(wakes));
	tcase_add_loop_test(t, the_kernel_calls_the_owner, 0, LENGTH(calls));
	tcase_add_test(t, sizes_of_snapshots);
	tcase_add_loop_test(t, high_rates_begin_with_small_ones, 0, LENGTH(firsts));
	tcase_add_loop_test(t, a_move_reaches_all_that_inherited, 0, LENGTH(programs));
	tcase_add_loop_test(t, lists_of_cpus, 0, LENGTH(lists));
	tcase_add_test(t, this_machine);
	tcase_add_loop_test(t, why_an_open_failed, 0, LENGTH(reasons));
	tcase_add_test(t, why_an_open_failed_told_by_an_opener);
	suite_add_tcase(s, t);
	return s;
}

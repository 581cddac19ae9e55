/* SPDX-License-Identifier: Apache-2.0 */
/* waits: sums are the true ones, per thread and place, whatever the schedule; what is lost, short, idle is said. */
#include "profiler/offcpu/wait_times.h"

#include "oci/base/fd.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define US 1000ull
#define TOLD_MAX 4096

static struct wait_times *w;
static struct memory_limit room;
static struct wait_total told[TOLD_MAX];
static uint64_t leaf[TOLD_MAX]; /* of its frames */
static size_t n_told;
static bool nobody;	 /* knows who it is */
static uint64_t callers; /* of what goes off next */

static bool note(void *arg, const struct wait_total *p)
{
	ck_assert_uint_lt(n_told, TOLD_MAX);
	ck_assert_uint_gt(p->count, 0);
	leaf[n_told] = p->n ? p->frames[0].vaddr : 0;
	told[n_told++] = *p;
	return !nobody;
}

static void begin_with(uint64_t min)
{
	w = wait_times_free(w);
	n_told = 0;
	nobody = false;
	ck_assert_int_eq(wait_times_new(min, &room, note, NULL, &w), 0);
}

static void begin(void)
{
	room = (struct memory_limit){0};
	callers = 0;
	begin_with(0);
}

static void end(void)
{
	w = wait_times_free(w);
	ck_assert_uint_eq(room.used, 0);
}

static uint64_t sum(uint32_t tid, int kind)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < n_told; i++)
		if (told[i].tid == tid && (kind < 0 || (int)told[i].kind == kind))
			ns += told[i].ns;
	return ns;
}

static uint64_t sum_at(uint32_t tid, uint64_t at)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < n_told; i++)
		if (told[i].tid == tid && leaf[i] == at)
			ns += told[i].ns;
	return ns;
}

static struct stack_frame kernel(uint64_t at)
{
	return (struct stack_frame){.kind = FRAME_KERNEL, .vaddr = at};
}

static void stack(uint32_t tid, uint64_t ip, uint64_t sp, uint64_t at)
{
	const struct stack_frame frames[] = {kernel(at), kernel(1)};
	wait_times_stack(w, 1, tid, &(struct wait_at){ip, sp, {callers}, 0}, frames, 2);
}

/* One CPU whose clock is told. */
static uint64_t outs, ran;
static void out(uint32_t tid, uint64_t time, uint64_t ran_for, uint64_t ip)
{
	ran += ran_for;
	wait_times_out(w, &(struct switch_out){.time = time,
				  .pid = 1,
				  .tid = tid,
				  .at = {ip, 0x7000, {callers}, 0},
				  .timed = true,
				  .count = ++outs,
				  .ran = ran});
}

static void restart_clock(void)
{
	begin();
	outs = ran = 0;
}

/* --- a machine -------------------------------------------------------------------------------------------- */

#define CPUS 3
#define THREADS 7

struct machine {
	uint64_t now;
	struct {
		int thread; /* -1: idle */
		uint64_t since, ran, count;
	} cpus[CPUS];
	struct {
		uint64_t off, since; /* since 0: it runs */
		bool known;
	} threads[THREADS];
};

static unsigned dice(unsigned n)
{
	return (unsigned)rand() % n;
}

static void go_off(struct machine *m, uint32_t cpu, bool tell)
{
	int t = m->cpus[cpu].thread;
	m->cpus[cpu].ran += m->now - m->cpus[cpu].since;
	m->cpus[cpu].count++;
	m->cpus[cpu].thread = -1;
	m->threads[t].since = m->now;
	m->threads[t].known |= tell;
	if (tell)
		wait_times_out(w, &(struct switch_out){.time = m->now,
					  .pid = 1,
					  .tid = (uint32_t)t + 1,
					  .cpu = cpu,
					  .at = {0x1000 + dice(3), 0x7000, {0}, 0},
					  .timed = true,
					  .count = m->cpus[cpu].count,
					  .ran = m->cpus[cpu].ran});
}

static void come_on(struct machine *m, uint32_t cpu)
{
	int t = (int)dice(THREADS);
	if (!m->threads[t].since)
		return;
	m->threads[t].off += m->threads[t].known ? m->now - m->threads[t].since : 0;
	m->threads[t].since = 0;
	m->cpus[cpu].thread = t;
	m->cpus[cpu].since = m->now;
}

static void step(struct machine *m, bool tell)
{
	uint32_t cpu = dice(CPUS);
	m->now += 1 + dice(50000);
	if (m->cpus[cpu].thread < 0)
		come_on(m, cpu);
	else
		go_off(m, cpu, tell);
}

static void finish_window(struct machine *m)
{
	struct wait_clock clocks[CPUS];
	for (uint32_t c = 0; c < CPUS; c++) {
		bool runs = m->cpus[c].thread >= 0;
		clocks[c] = (struct wait_clock){c, m->cpus[c].ran + (runs ? m->now + 1 - m->cpus[c].since : 0)};
		if (runs)
			wait_times_seen(w, (uint32_t)m->cpus[c].thread + 1, c, m->now);
	}
	wait_times_end(w, ++m->now, clocks, CPUS);
}

static void start_machine(struct machine *m)
{
	*m = (struct machine){.now = 1000};
	for (unsigned c = 0; c < CPUS; c++)
		m->cpus[c].thread = -1;
	for (unsigned t = 0; t < THREADS; t++)
		m->threads[t].since = 1;
}

START_TEST(any_schedule_sums_up_to_the_nanosecond)
{
	struct machine m;
	srand((unsigned)_i + 1);
	start_machine(&m);
	for (int window = 0; window < 20; window++) {
		for (unsigned i = dice(400); i > 0; i--)
			step(&m, true);
		finish_window(&m);
		for (unsigned t = 0; t < THREADS; t++) {
			uint64_t off = m.threads[t].off;
			if (m.threads[t].since && m.threads[t].known)
				off += m.now - m.threads[t].since;
			ck_assert_msg(sum(t + 1, -1) == off, "seed %d, window %d, thread %u: %lu, not %lu", _i + 1,
				window, t + 1, (unsigned long)sum(t + 1, -1), (unsigned long)off);
			ck_assert_uint_eq(sum(t + 1, WAIT_LOST), 0);
		}
	}
}
END_TEST

START_TEST(what_is_lost_is_said_and_nothing_beside)
{
	struct machine m;
	uint64_t lost = 0, untold = 0;
	srand((unsigned)_i + 1);
	start_machine(&m);
	for (unsigned i = 0; i < 3000; i++) {
		bool tell = i % 1000 < 900;
		uint64_t before = m.cpus[0].count + m.cpus[1].count + m.cpus[2].count;
		step(&m, tell);
		untold += tell ? 0 : m.cpus[0].count + m.cpus[1].count + m.cpus[2].count - before;
		if (i % 1000 == 999)
			finish_window(&m);
	}
	/* behind the last record of a CPU nobody can know of more */
	ck_assert_uint_le(wait_times_lost(w), untold);
	ck_assert_uint_gt(wait_times_lost(w), 0);
	for (unsigned t = 0; t < THREADS; t++) {
		ck_assert_uint_le(sum(t + 1, -1), m.now);
		lost += sum(t + 1, WAIT_LOST);
	}
	ck_assert_uint_gt(lost, 0);
}
END_TEST

/* --- places ------------------------------------------------------------------------------------------------- */

START_TEST(a_stack_is_that_of_all_waits_at_its_place_until_the_next)
{
	restart_clock();
	out(5, 10 * MS, 0, 0xa);
	out(5, 20 * MS, 1 * MS, 0xb); /* 9 ms at a */
	stack(5, 0xa, 0x7000, 100);
	out(5, 30 * MS, 1 * MS, 0xa); /* 9 ms at b, of which nothing is known */
	out(5, 50 * MS, 1 * MS, 0xa); /* 19 ms at a */
	stack(5, 0xa, 0x7000, 200);
	out(5, 55 * MS, 1 * MS, 0xb); /* 4 ms at a, another one's */
	wait_times_report(w);
	ck_assert_uint_eq(sum_at(5, 100), 28 * MS);
	ck_assert_uint_eq(sum_at(5, 200), 4 * MS);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 0); /* it may come to be known */
	wait_times_end(w, 60 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 14 * MS);
	ck_assert_uint_eq(sum(5, -1), 46 * MS);
	for (size_t i = 0; i < n_told; i++)
		ck_assert_uint_eq(told[i].at.ip, told[i].kind == WAIT_PLACE ? 0xb : 0xa);
}
END_TEST

START_TEST(another_depth_or_thread_is_another_place)
{
	restart_clock();
	stack(5, 0xa, 0x6000, 100);
	stack(6, 0xa, 0x7000, 200);
	out(5, 10 * MS, 0, 0xa);
	wait_times_end(w, 20 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 10 * MS);
	stack(5, 0xa, 0x7000, 300);
	wait_times_end(w, 30 * MS, NULL, 0);
	ck_assert_uint_eq(sum_at(5, 300), 10 * MS);
}
END_TEST

START_TEST(other_callers_are_another_place)
{
	restart_clock();
	callers = 1;
	stack(5, 0xa, 0x7000, 100);
	callers = 2;
	stack(5, 0xa, 0x7000, 200);
	for (uint64_t i = 0; i < 10; i++) {
		callers = 1 + i % 2;
		out(5, (10 + i * 10) * MS, i ? 1 * MS * (1 + i % 2) : 0,
			0xa); /* 8 ms behind the first, 9 behind the other */
	}
	wait_times_end(w, 109 * MS, NULL, 0);
	ck_assert_uint_eq(sum_at(5, 100), 5 * 8 * MS);
	ck_assert_uint_eq(sum_at(5, 200), 5 * 9 * MS);
}
END_TEST

START_TEST(another_program_has_other_places)
{
	restart_clock();
	stack(5, 0xa, 0x7000, 100);
	out(5, 10 * MS, 0, 0xa);
	out(5, 20 * MS, 1 * MS, 0);
	wait_times_exec(w, 1, 5);
	ck_assert_uint_eq(sum_at(5, 100), 9 * MS);
	out(5, 30 * MS, 1 * MS, 0xa);
	wait_times_end(w, 40 * MS, NULL, 0);
	ck_assert_uint_eq(sum_at(5, 100), 9 * MS);
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), 9 * MS);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 10 * MS);
}
END_TEST

START_TEST(who_ends_is_told_and_forgotten)
{
	restart_clock();
	wait_times_born(w, 1, 5, 1 * MS);
	out(5, 10 * MS, 4 * MS, 0xa); /* it had to wait for 5 ms before it ran */
	out(5, 20 * MS, 1 * MS, 0xa);
	wait_times_exit(w, 5, 0, 40 * MS);
	out(_i ? UINT32_MAX : 5, 41 * MS, 2 * MS, 0); /* as the kernel calls it when it goes off for good */
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), 5 * MS);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), (9 + 19) * MS);
	ck_assert_uint_eq(wait_times_threads(w), 0);
	wait_times_born(w, 1, 5, 45 * MS);
	out(5, 50 * MS, 5 * MS, 0xa);
	wait_times_end(w, 51 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), (33 + 1) * MS);
	wait_times_exit(w, 9, 0, 52 * MS);
	wait_times_exec(w, 2, 9);
	wait_times_exit(w, 5, 0, 55 * MS); /* and nobody says when it went off */
	wait_times_end(w, 60 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), (33 + 1 + 4) * MS);
	wait_times_born(w, 1, 5, 61 * MS);
	wait_times_exit(w, 5, 1, 62 * MS); /* freed at the end, whatever comes */
}
END_TEST

START_TEST(short_ones_are_summed_wherever_they_were)
{
	restart_clock();
	begin_with(2 * MS);
	stack(5, 0xa, 0x7000, 100);
	out(5, 10 * MS, 0, 0xa);
	out(5, 12 * MS, 1 * MS, 0xa);	     /* 1 ms */
	out(5, 15 * MS, 1 * MS, 0xa);	     /* 2 ms */
	wait_times_end(w, 16 * MS, NULL, 0); /* 1 ms, as it seems, */
	out(5, 19 * MS, 1 * MS, 0xa);	     /* 3 ms, as it turns out */
	wait_times_end(w, 19 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_SHORT), 2 * MS);
	ck_assert_uint_eq(sum_at(5, 100), 4 * MS);
}
END_TEST

START_TEST(who_was_on_no_cpu_at_all_is_idle)
{
	restart_clock();
	stack(5, 0xa, 0x7000, 100);
	out(5, 10 * MS, 0, 0xa);
	wait_times_end(w, 20 * MS, NULL, 0);
	ck_assert(!told[0].idle);
	wait_times_end(w, 30 * MS, NULL, 0);
	ck_assert(told[1].idle);
	wait_times_seen(w, 5, 0, 39 * MS); /* it runs, for 2 ms */
	wait_times_end(w, 40 * MS, &(struct wait_clock){0, ran + 2 * MS}, 1);
	ck_assert(!told[2].idle);
	ck_assert_uint_eq(told[2].ns, 8 * MS);
	wait_times_end(w, 50 * MS, &(struct wait_clock){0, ran + 12 * MS}, 1); /* and on */
	ck_assert_uint_eq(n_told, 3);
	out(5, 55 * MS, 17 * MS, 0xa);
	wait_times_end(w, 60 * MS, NULL, 0);
	ck_assert(!told[3].idle);
	ck_assert_uint_eq(told[3].ns, 5 * MS);
}
END_TEST

/* --- by switch records: threads 5 and 6 go off and come back */

static const struct wait_at somewhere = {0xa, 0xb, {0}, 0};

START_TEST(a_wait_is_from_one_record_to_the_other)
{
	for (unsigned i = 0; i < 3; i++) {
		wait_times_off(w, 1, 5, 0, (10 + i * 10) * MS, &somewhere); /* where it is, then that it goes */
		wait_times_off(w, 1, 5, 0, (10 + i * 10) * MS + 1000, NULL);
		wait_times_on(w, 5, 0, (14 + i * 10) * MS);
	}
	wait_times_on(w, 6, 0, 50 * MS); /* nobody knows it */
	wait_times_end(w, 60 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 12 * MS);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 12 * MS);
	ck_assert_uint_eq(told[0].count, 3);
	ck_assert_uint_eq(sum(6, -1), 0);
}
END_TEST

START_TEST(a_plain_users_wait_is_where_it_was_seen_last)
{
	const struct stack_frame first = kernel(0xf), second = kernel(0xe);
	wait_times_off(w, 1, 5, 0, 10 * MS, NULL);
	wait_times_on(w, 5, 0, 11 * MS);
	wait_times_runs(w, 1, 5, 12 * MS, 0, &first, 1);
	wait_times_off(w, 1, 5, 0, 20 * MS, NULL);
	wait_times_on(w, 5, 0, 22 * MS);
	wait_times_off(w, 1, 5, 0, 30 * MS, NULL);
	wait_times_on(w, 5, 0, 34 * MS);
	wait_times_runs(w, 1, 5, 35 * MS, 0, &second, 1);
	wait_times_off(w, 1, 5, 0, 40 * MS, NULL);
	wait_times_end(w, 48 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), 0);
	ck_assert_uint_eq(sum_at(5, 0xf), 7 * MS); /* of which 1 ms is of before it was seen */
	ck_assert_uint_eq(sum_at(5, 0xe), 8 * MS);
	wait_times_compact(w); /* the stack is gone: no address that it never had */
	wait_times_on(w, 5, 0, 50 * MS);
	wait_times_end(w, 60 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), 2 * MS);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 0);
}
END_TEST

static uint64_t sum_labelled(uint64_t labels, int kind)
{
	uint64_t ns = 0;
	for (size_t i = 0; i < n_told; i++)
		if (told[i].at.labels == labels && (int)told[i].kind == kind)
			ns += told[i].ns;
	return ns;
}

static void wait_labelled(uint64_t from, uint64_t to, uint64_t ip, uint64_t labels)
{
	wait_times_off(w, 1, 5, 0, from * MS, &(struct wait_at){.ip = ip, .sp = 0x7000, .labels = labels});
	wait_times_off(w, 1, 5, 0, from * MS, NULL);
	wait_times_on(w, 5, 0, to * MS);
}

START_TEST(a_wait_is_labelled_as_its_thread_was_when_it_began)
{
	stack(5, 0xa, 0x7000, 0xf); /* sampled without labels: it is everybody's at that place */
	wait_labelled(10, 11, 0xa, 1);
	wait_labelled(20, 22, 0xa, 2);
	wait_labelled(30, 34, 0xa, 0);
	wait_labelled(40, 48, 0xb, 2); /* nobody has a stack there */
	wait_times_end(w, 49 * MS, NULL, 0);
	ck_assert_uint_eq(sum_labelled(1, WAIT_STACK), 1 * MS);
	ck_assert_uint_eq(sum_labelled(2, WAIT_STACK), 2 * MS);
	ck_assert_uint_eq(sum_labelled(0, WAIT_STACK), 4 * MS);
	ck_assert_uint_eq(sum_at(5, 0xf), 7 * MS);
	ck_assert_uint_eq(sum_labelled(2, WAIT_PLACE), 8 * MS);
}
END_TEST

START_TEST(labels_whose_numbers_are_none_any_more_are_told_no_more)
{
	wait_labelled(10, 11, 0xa, 1);
	wait_times_off(w, 1, 5, 0, 20 * MS, &(struct wait_at){.ip = 0xb, .sp = 0x7000, .labels = 3});
	wait_times_off(w, 1, 5, 0, 20 * MS, NULL);
	wait_times_end(w, 22 * MS, NULL, 0);
	ck_assert_uint_eq(sum_labelled(1, WAIT_PLACE), 1 * MS);
	ck_assert_uint_eq(sum_labelled(3, WAIT_PLACE), 2 * MS);
	wait_times_unlabel(w);
	n_told = 0;
	wait_times_on(w, 5, 0, 30 * MS);
	wait_times_end(w, 40 * MS, NULL, 0);
	ck_assert_uint_eq(sum_labelled(3, WAIT_PLACE), 0);
	ck_assert_uint_eq(sum_labelled(0, WAIT_PLACE), 8 * MS); /* which goes on */
}
END_TEST

/* Of the time between 30 and 40 ms nothing is known. */
static const struct {
	const char *scenario;
	bool off_before,
		off_behind; /* at 10 ms it goes off or not; its first record behind, at 50 ms, is of going off */
	uint64_t ms;
} gaps[] = {
	{"off, and came back in between", true, true, 35 - 10},
	{"off all the time", true, false, 50 - 10},
	{"on a CPU, and went off in between", false, false, 50 - 35},
	{"on a CPU all the time", false, true, 0},
};

START_TEST(behind_a_gap_the_next_record_tells)
{
	wait_times_off(w, 1, 5, 0, 5 * MS, &somewhere);
	wait_times_on(w, 5, 0, 6 * MS);
	if (gaps[_i].off_before)
		wait_times_off(w, 1, 5, 0, 10 * MS, &somewhere);
	wait_times_off(w, 1, 9, 0, 30 * MS, NULL); /* of that CPU the last one that there is */
	wait_times_gap(w, 7, 0, 40 * MS, 40 * MS);
	if (gaps[_i].off_behind)
		wait_times_off(w, 1, 5, 0, 50 * MS, NULL);
	else
		wait_times_on(w, 5, 0, 50 * MS);
	wait_times_end(w, 50 * MS, NULL, 0);
	ck_assert_msg(
		sum(5, -1) == (gaps[_i].ms + 1) * MS, "%s: %llu ns", gaps[_i].scenario, (unsigned long long)sum(5, -1));
	ck_assert_uint_eq(wait_times_lost(w), 7);
}
END_TEST

/* Two alike: what was between them is lost, and was in the middle. */
START_TEST(records_that_contradict_each_other)
{
	wait_times_off(w, 1, 5, 0, 10 * MS, &somewhere);
	wait_times_off(w, 1, 5, 0, 20 * MS, &somewhere); /* back at 15 */
	wait_times_off(w, 1, 5, 0, 20 * MS, NULL);
	wait_times_on(w, 5, 0, 30 * MS);
	wait_times_off(w, 1, 6, 0, 10 * MS, NULL);
	wait_times_off(w, 1, 6, 0, 30 * MS, NULL); /* back at 20 */
	wait_times_on(w, 6, 0, 40 * MS);
	wait_times_runs(w, 1, 6, 50 * MS, 0, NULL, 0);
	wait_times_on(w, 6, 0, 60 * MS); /* off at 55 */
	wait_times_end(w, 60 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 15 * MS);
	ck_assert_uint_eq(sum(6, -1), (10 + 10 + 5) * MS);
}
END_TEST

/* By turns, a millisecond each, 3 us from the one's going off to the record of the other's coming back. */
START_TEST(what_a_switch_takes_is_no_wait)
{
	wait_times_off(w, 1, 6, 1, 1 * MS, &somewhere);
	for (unsigned i = 1; i <= 200; i++) {
		wait_times_off(w, 1, i % 2 ? 5 : 6, 0, i * MS, &somewhere);
		wait_times_on(w, i % 2 ? 6 : 5, 0, i * MS + 3 * US);
	}
	wait_times_off(w, 1, 5, 0, 200 * MS + 500 * US, &somewhere);
	wait_times_on(w, 5, 0, 200 * MS + 507 * US); /* nobody else was there in between: 4 us of a wait */
	wait_times_off(w, 1, 5, 0, 201 * MS, &somewhere);
	wait_times_on(w, 5, 0, 211 * MS + 3 * US); /* from an idle CPU */
	wait_times_end(w, 211 * MS + 3 * US, NULL, 0);
	ck_assert_uint_ge(sum(5, -1), 110 * MS + 4 * US);
	ck_assert_uint_le(sum(5, -1), 110 * MS + 4 * US + 10);
}
END_TEST

/* Thread 5 goes off at 10 ms and is back 20 us, or so long, behind that. */
static const struct {
	const char *scenario;
	uint32_t from, to; /* CPUs */
	uint64_t back;	   /* ns */
	uint64_t other;	   /* ns before that, thread 6 goes off the CPU that thread 5 comes to; 0: it does not */
	uint64_t wait;	   /* ns */
} returns[] = {
	{"the other thread ended the wait by going off", 0, 0, 20000, 3000, 17000},
	{"on another CPU as well", 1, 0, 20000, 3000, 17000},
	{"the longest switch", 0, 0, 20000, 4999, 15001},
	{"longer than a switch: the CPU was idle in between", 0, 0, 20000, 5000, 20000},
	{"back on its own CPU at once, where no other thread was", 0, 0, 2000, 0, 2000},
	{"on a CPU that no thread has gone off", 0, 3, 20000, 0, 20000},
	{"on a CPU whose number is too large", 0, 4096, 20000, 0, 20000},
	{"off such a CPU", 4096, 0, 20000, 0, 20000},
	{"off such a CPU and back", 4096, 4096, 2000, 0, 2000},
	{"behind another thread there: it is not known", 4096, 4096, 20000, 3000, 20000},
	{"on the last CPU that is known", 0, 4095, 20000, 3000, 17000},
};

START_TEST(another_thread_that_goes_off_the_cpu_ends_a_wait)
{
	const uint64_t back = 10 * MS + returns[_i].back;
	wait_times_off(w, 1, 5, returns[_i].from, 10 * MS, &somewhere);
	if (returns[_i].other)
		wait_times_off(w, 1, 6, returns[_i].to, back - returns[_i].other, &somewhere);
	wait_times_on(w, 5, returns[_i].to, back);
	wait_times_end(w, 11 * MS, NULL, 0);
	ck_assert_msg(
		sum(5, -1) == returns[_i].wait, "%s: %llu ns", returns[_i].scenario, (unsigned long long)sum(5, -1));
	ck_assert_uint_eq(sum(5, WAIT_PLACE), returns[_i].wait);
}
END_TEST

/* Half of the time is not recorded, and for what is, it goes twice as fast. */
START_TEST(what_stands_for_two_counts_twice)
{
	begin_with(1 * MS);
	wait_times_scale(w, 2);
	for (unsigned i = 1; i <= 10; i++) {
		wait_times_off(w, 1, 5, 0, i * 20 * MS, &somewhere);
		wait_times_on(w, 5, 0, i * 20 * MS + (i % 2 ? 8 : 1) * MS); /* 4 ms, or half a millisecond */
	}
	wait_times_end(w, 300 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 5 * 8 * MS);
	ck_assert_uint_eq(sum(5, WAIT_SHORT), 5 * 1 * MS);
	ck_assert_uint_eq(told[0].count, 10);
}
END_TEST

/* Its coming back, at 30 ms, is lost with the ring's other records: what it does behind that is another place. */
START_TEST(what_is_seen_behind_a_wait_is_not_its_place)
{
	const struct stack_frame before = kernel(0xf), behind = kernel(0xe);
	wait_times_runs(w, 1, 5, 5 * MS, 0, &before, 1);
	wait_times_off(w, 1, 5, 0, 10 * MS, NULL);
	if (_i)
		wait_times_gap(w, 3, 0, 50 * MS, 50 * MS);
	wait_times_runs(w, 1, 5, 50 * MS, 0, &behind, 1);
	wait_times_off(w, 1, 5, 0, 60 * MS, NULL);
	wait_times_on(w, 5, 0, 70 * MS);
	wait_times_end(w, 80 * MS, NULL, 0);
	ck_assert_uint_eq(sum_at(5, 0xf), _i ? 20 * MS : 40 * MS); /* where that is known, in the middle of the gap */
	ck_assert_uint_eq(sum_at(5, 0xe), 10 * MS);
}
END_TEST

/*
 * A ring is full as a thread goes to sleep for three seconds, and has room 2 ms later. The kernel tells so with the
 * first record behind that, which is of its coming back.
 */
START_TEST(what_was_lost_before_a_long_sleep_was_not_lost_in_the_middle_of_it)
{
	wait_times_off(w, 1, 5, 0, 5 * MS, &somewhere);
	wait_times_on(w, 5, 0, 6 * MS);
	wait_times_runs(w, 1, 5, 9 * MS, 0, NULL, 0); /* at 10 ms it goes off */
	wait_times_gap(w, 1, 0, 11 * MS, 3010 * MS);
	wait_times_on(w, 5, 0, 3010 * MS);
	wait_times_end(w, 3020 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), (1 + 3001) * MS); /* since 9 ms, as it ran then */
}
END_TEST

/* Its end, at 20 ms, is lost: it does not wait until its program ends. */
START_TEST(whose_end_is_lost_has_ended_all_the_same)
{
	wait_times_off(w, 1, 5, 0, 10 * MS, &somewhere);
	wait_times_off(w, 1, 6, 0, 10 * MS, &somewhere);
	wait_times_gap(w, 9, 0, 30 * MS, 500 * MS);
	wait_times_on(w, 6, 0, 500 * MS);
	wait_times_exit(w, 6, 0, 501 * MS);
	wait_times_over(w);
	wait_times_end(w, 501 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 10 * MS);
	ck_assert_uint_eq(sum(6, -1), 490 * MS);
	ck_assert_uint_eq(wait_times_lost(w), 9);
}
END_TEST

/* In one of them: the middle one is neither too early nor too late. */
START_TEST(of_many_gaps_it_was_in_one)
{
	wait_times_off(w, 1, 5, 0, 10 * MS, &somewhere);
	wait_times_off(w, 1, 6, 0, 10 * MS, &somewhere);
	for (unsigned i = 1; i <= 200; i++) /* of which 137 to 200 are known */
		wait_times_gap(w, 1, WAIT_TIMES_ALL_CPUS, (10 + i) * MS, (10 + i) * MS);
	wait_times_off(w, 1, 5, 0, 300 * MS, NULL);
	wait_times_on(w, 6, 0, 300 * MS);
	wait_times_end(w, 300 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 168 * MS);
	ck_assert_uint_eq(sum(6, -1), 290 * MS);
	ck_assert_uint_eq(wait_times_lost(w), 200);
}
END_TEST

START_TEST(who_is_adopted_and_runs_has_not_waited)
{
	wait_times_born(w, 1, 5, 10 * MS);
	wait_times_born(w, 1, 6, 10 * MS);
	wait_times_born(w, 1, 7, 10 * MS);
	wait_times_gap(w, 0, WAIT_TIMES_ALL_CPUS, 10 * MS, 10 * MS);
	wait_times_runs(w, 1, 5, 20 * MS, 0, NULL, 0);
	wait_times_exit(w, 6, 0, 20 * MS);
	wait_times_on(w, 7, 0, 20 * MS);
	wait_times_end(w, 30 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 0);
	ck_assert_uint_eq(sum(6, -1), 0);
	ck_assert_uint_eq(sum(7, -1), 10 * MS);
}
END_TEST

START_TEST(what_the_clock_misses_is_taken_off_ends_of_waits)
{
	restart_clock();
	wait_times_correct(w, 7 * MS, 3 * MS); /* that was before */
	out(5, 10 * MS, 0, 0xa);
	out(5, 20 * MS, 1 * MS, 0xa);
	out(6, 21 * MS, 1 * MS, 0xa); /* at once behind the other: nothing is late */
	out(6, 30 * MS, 1 * MS, 0xa);
	wait_times_correct(w, 10 * MS + 20 * US, 6 * MS);
	wait_times_end(w, 30 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 19 * MS - 10 * US);
	ck_assert_uint_eq(sum(6, -1), 8 * MS - 10 * US);
	out(5, 40 * MS, 1 * MS, 0xa);
	wait_times_correct(w, 12 * MS, 7 * MS); /* more than an end can take, */
	wait_times_end(w, 40 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 28 * MS - 30 * US);
	wait_times_correct(w, 12 * MS, 8 * MS); /* or less than was taken off */
	out(5, 50 * MS, 1 * MS, 0xa);
	wait_times_end(w, 50 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 37 * MS - 30 * US);
}
END_TEST

/* Half of the time nothing is recorded: what goes off while it is stands for two. */
START_TEST(what_is_recorded_stands_for_what_is_not)
{
	const struct switch_out o = {.pid = 1, .tid = 5, .at = {0xa, 0x7000, {0}}, .timed = true, .scale = 2};
	struct switch_out next = o;
	begin_with(3 * MS);
	for (unsigned i = 0; i < 10; i++) { /* waits of 4 ms and of 2 ms, by a clock that goes twice as fast */
		next.time += i % 2 ? 10 * MS : 6 * MS;
		next.ran += 2 * MS;
		next.count++;
		wait_times_out(w, &next);
	}
	wait_times_report(w);
	wait_times_end(w, next.time, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 5 * 8 * MS);
	ck_assert_uint_eq(sum(5, WAIT_SHORT), 4 * 4 * MS);
	for (size_t i = 0; i < n_told; i++)
		ck_assert_uint_eq(told[i].count, told[i].kind == WAIT_SHORT ? 8 : 10);
}
END_TEST

/* --- who is gone -------------------------------------------------------------------------------------------- */

START_TEST(of_a_program_that_begins_there_is_one_thread)
{
	restart_clock();
	for (uint32_t tid = 5; tid < 9; tid++)
		wait_times_born(w, 1, tid, 1 * MS);
	wait_times_born(w, 2, 9, 1 * MS);
	wait_times_exit(w, 5, 0, 10 * MS);	     /* the leader: another thread wants to be another program, */
	wait_times_exec(w, 1, 5);		     /* and has its number from now on */
	ck_assert_uint_eq(wait_times_threads(w), 1); /* of another process */
	out(5, 12 * MS, 1 * MS, 0xa);
	out(5, 15 * MS, 1 * MS, 0xa);
	wait_times_end(w, 15 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 2 * MS);
	ck_assert_uint_eq(sum(6, -1), 0);
	ck_assert_uint_eq(sum(9, -1), 14 * MS);
	ck_assert_uint_eq(wait_times_threads(w), 2);
}
END_TEST

START_TEST(who_goes_off_behind_its_end_is_nobody)
{
	restart_clock();
	wait_times_exit(w, 5, 0, 10 * MS); /* of which nothing was known */
	out(5, 11 * MS, 1 * MS, 0xa);
	ck_assert_uint_eq(wait_times_threads(w), 0);
	wait_times_born(w, 1, 5, 12 * MS); /* its number is another's */
	out(5, 14 * MS, 1 * MS, 0xa);
	ck_assert_uint_eq(wait_times_threads(w), 1);
}
END_TEST

START_TEST(whom_nobody_knows_is_forgotten_at_the_windows_end)
{
	restart_clock();
	out(5, 10 * MS, 1 * MS, 0xa);
	wait_times_end(w, 20 * MS, NULL, 0);
	ck_assert_uint_eq(wait_times_threads(w), 1);
	nobody = true;
	wait_times_end(w, 30 * MS, NULL, 0);
	ck_assert_uint_eq(wait_times_threads(w), 0);
}
END_TEST

START_TEST(what_was_shed_comes_again)
{
	restart_clock();
	for (unsigned i = 0; i < 10; i++) {
		stack(5, 0xa + i, 0x7000, 100 + i);
		out(5, (10 + i) * MS, MS / 2, 0xa + i);
	}
	wait_times_end(w, 20 * MS, NULL, 0);
	size_t before = wait_times_memory(w);
	n_told = 0;
	wait_times_compact(w);
	ck_assert_uint_lt(wait_times_memory(w), before);
	wait_times_end(w, 30 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), 10 * MS); /* where it is is known, not how it came there */
	stack(5, 0xa + 9, 0x7000, 100);
	wait_times_end(w, 40 * MS, NULL, 0);
	ck_assert_uint_eq(sum_at(5, 100), 10 * MS);
}
END_TEST

/* --- bounds ------------------------------------------------------------------------------------------------- */

START_TEST(threads_are_bounded)
{
	for (uint32_t i = 1; i <= WAIT_TIMES_THREADS + 10; i++)
		wait_times_born(w, 1, i, 1);
	ck_assert_uint_eq(wait_times_threads(w), WAIT_TIMES_THREADS);
	out(WAIT_TIMES_THREADS + 5, 10 * MS, 0, 0xa);
}
END_TEST

START_TEST(a_clock_that_was_late_shortens_what_comes_behind)
{
	restart_clock();
	out(5, 10 * MS, 0, 0xa);
	out(5, 20 * MS, 0, 0xa);      /* as it seems it did not run */
	out(5, 21 * MS, 5 * MS, 0xa); /* of which 4 were before */
	out(5, 40 * MS, 1 * MS, 0xa);
	wait_times_end(w, 40 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), (30 - 6) * MS);
}
END_TEST

START_TEST(places_are_bounded_and_the_sum_is_right)
{
	restart_clock();
	for (unsigned i = 0; i < 1000; i++)
		out(5, (10 + i) * MS, MS / 2, 0xa + i);
	wait_times_end(w, 1010 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, -1), 999 * MS / 2 + MS);
	ck_assert_uint_eq(sum(5, WAIT_PLACE), (WAIT_TIMES_PLACES * MS) / 2 + MS / 2); /* the last ones */
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), (1000 - WAIT_TIMES_PLACES) * MS / 2);
	for (unsigned i = 0; i < 100; i++) /* told: they can be others */
		out(5, (1010 + i) * MS, MS / 2, 0xf000 + i);
	n_told = 0;
	wait_times_end(w, 1110 * MS, NULL, 0);
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), 0);
}
END_TEST

START_TEST(stacks_are_bounded_and_come_again)
{
	restart_clock();
	out(5, 10 * MS, 0, 0xa);
	for (unsigned i = 0; i < AGGREGATE_SAMPLES_MAX + 100; i++)
		stack(5, 0xb, 0x7000, 1000 + i);
	stack(5, 0xa, 0x7000, 100);
	wait_times_end(w, 20 * MS, NULL, 0);
	ck_assert_uint_eq(sum_at(5, 100), 10 * MS);
}
END_TEST

START_TEST(without_room_there_are_no_places)
{
	room.max = 1;
	out(5, 10 * MS, 0, 0xa);
	wait_times_end(w, 20 * MS, NULL, 0);
	ck_assert_uint_eq(wait_times_threads(w), 1);
	ck_assert_uint_eq(sum(5, WAIT_NOWHERE), 10 * MS);
}
END_TEST

/*
 * One of each ten switches is recorded, and each record makes the wait 2 us longer: of 8 and of 38 us, nine and one of
 * ten, in truth; short ones shall be that part of it, but for the tenth that was recorded.
 */
START_TEST(short_waits_are_as_long_as_without_their_records)
{
	uint64_t time = 1000000, all = 0;
	restart_clock();
	stack(5, 0xa, 0x7000, 0x51);
	stack(5, 0xb, 0x7000, 0x52);
	struct switch_out o = {.pid = 1, .tid = 5, .at = {0xa, 0x7000, {callers}}, .timed = true, .scale = 10};
	for (unsigned i = 0; i <= 1000; i++) {
		const uint64_t wait = i % 10 ? 10000 : 40000; /* with its record; ten times as long in the time told */
		o.at.ip = (i + 1) % 10 ? 0xa : 0xb;
		o.count = i + 1;
		o.time = time += i ? 10 * (wait + 1000) : 0;
		o.ran = ran += i ? 10000 : 0;
		all += i ? 10 * wait : 0;
		wait_times_out(w, &o);
	}
	wait_times_set_overhead(w, _i ? 2000 : 0);
	wait_times_report(w);
	const double a = (double)sum_at(5, 0x51), b = (double)sum_at(5, 0x52);
	ck_assert_double_eq_tol(a + b, (double)all, 10);
	if (!_i) {
		ck_assert_double_eq_tol(a / (a + b), 90. / 130, 0.001);
		return;
	}
	ck_assert_double_eq_tol(a / (a + b), 0.1 * 90 / 130 + 0.9 * 72 / 110, 0.001);
}
END_TEST

UNIT_SUITE(wait_times)
{
	Suite *s = suite_create("wait_times");
	TCase *t = tcase_create("wait_times");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, any_schedule_sums_up_to_the_nanosecond, 0, 50);
	tcase_add_loop_test(t, what_is_lost_is_said_and_nothing_beside, 0, 20);
	tcase_add_test(t, a_stack_is_that_of_all_waits_at_its_place_until_the_next);
	tcase_add_test(t, another_depth_or_thread_is_another_place);
	tcase_add_test(t, other_callers_are_another_place);
	tcase_add_test(t, another_program_has_other_places);
	tcase_add_loop_test(t, who_ends_is_told_and_forgotten, 0, 2);
	tcase_add_test(t, short_ones_are_summed_wherever_they_were);
	tcase_add_test(t, who_was_on_no_cpu_at_all_is_idle);
	tcase_add_test(t, a_wait_is_from_one_record_to_the_other);
	tcase_add_test(t, a_plain_users_wait_is_where_it_was_seen_last);
	tcase_add_test(t, a_wait_is_labelled_as_its_thread_was_when_it_began);
	tcase_add_test(t, labels_whose_numbers_are_none_any_more_are_told_no_more);
	tcase_add_loop_test(t, behind_a_gap_the_next_record_tells, 0, sizeof(gaps) / sizeof(gaps[0]));
	tcase_add_test(t, records_that_contradict_each_other);
	tcase_add_test(t, what_a_switch_takes_is_no_wait);
	tcase_add_loop_test(
		t, another_thread_that_goes_off_the_cpu_ends_a_wait, 0, sizeof(returns) / sizeof(returns[0]));
	tcase_add_test(t, what_stands_for_two_counts_twice);
	tcase_add_test(t, of_many_gaps_it_was_in_one);
	tcase_add_test(t, what_was_lost_before_a_long_sleep_was_not_lost_in_the_middle_of_it);
	tcase_add_test(t, whose_end_is_lost_has_ended_all_the_same);
	tcase_add_loop_test(t, what_is_seen_behind_a_wait_is_not_its_place, 0, 2);
	tcase_add_test(t, who_is_adopted_and_runs_has_not_waited);
	tcase_add_test(t, what_the_clock_misses_is_taken_off_ends_of_waits);
	tcase_add_test(t, what_is_recorded_stands_for_what_is_not);
	tcase_add_loop_test(t, short_waits_are_as_long_as_without_their_records, 0, 2);
	tcase_add_test(t, of_a_program_that_begins_there_is_one_thread);
	tcase_add_test(t, who_goes_off_behind_its_end_is_nobody);
	tcase_add_test(t, whom_nobody_knows_is_forgotten_at_the_windows_end);
	tcase_add_test(t, what_was_shed_comes_again);
	tcase_add_test(t, threads_are_bounded);
	tcase_add_test(t, a_clock_that_was_late_shortens_what_comes_behind);
	tcase_add_test(t, places_are_bounded_and_the_sum_is_right);
	tcase_add_test(t, stacks_are_bounded_and_come_again);
	tcase_add_test(t, without_room_there_are_no_places);
	suite_add_tcase(s, t);
	return s;
}

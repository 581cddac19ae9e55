/* SPDX-License-Identifier: Apache-2.0 */
/* counted: what events say when they are read, and what of a window is missing by that. Their descriptors are files. */
#include "profiler/sample/event_counts.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "profiler/target/target_counts.h"
#include "profiler/target/window.h"
#include "tests/unit/support/fed.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <math.h>

#define PERIOD 1000u
#define MS NSEC_PER_MSEC
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct engine engine;
static struct target *target;
static struct open_event *st; /* of the second event */

static void begin(void)
{
	fed_engine(&engine);
	target = fed_target(&engine, 1);
	st = fed_events(target, 1);
	st->fd = memfd_create("event", MFD_CLOEXEC);
	target->desc.events[1].period = PERIOD;
	fed_comm(target, (uint64_t)(clock_now() - MS), FED_INIT, FED_INIT, "web", true);
}

static void end(void)
{
	fed_engine_done(&engine);
}

/* From now on each read of it says that. */
static void says(const uint64_t *numbers, size_t n)
{
	ck_assert_int_eq(ftruncate(st->fd, 0), 0);
	ck_assert_int_eq(pwrite(st->fd, numbers, n * sizeof(*numbers), 0), (ssize_t)(n * sizeof(*numbers)));
	ck_assert_int_eq(lseek(st->fd, 0, SEEK_SET), 0);
}

static void samples(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		fed_sample(target, st, (uint64_t)clock_now(), FED_INIT, FED_INIT, &(uint64_t){0x1000}, 1);
}

static const struct {
	uint32_t flags;
	uint64_t numbers[4];
	struct event_reading reading;
} readings[] = {
	{0, {7, 9, 9, 9}, {7, 0, 0, 0}},
	{LAYOUT_LOST, {7, 2, 9, 9}, {7, 2, 0, 0}},
	{LAYOUT_TIMES, {7, 300, 200, 9}, {7, 0, 300, 200}},
	{LAYOUT_TIMES | LAYOUT_LOST, {7, 300, 200, 2}, {7, 2, 300, 200}},
};

START_TEST(what_an_event_says)
{
	struct event_reading r = {0};
	st->layout.flags = readings[_i].flags;
	says(readings[_i].numbers, 4);
	ck_assert(event_counts_read(st, &r));
	ck_assert(!memcmp(&r, &readings[_i].reading, sizeof(r)));
	says(readings[_i].numbers, 0);
	ck_assert(!event_counts_read(st, &r));
}
END_TEST

static const struct {
	uint64_t enabled, running, lost;
	double had, correct;
	uint64_t lost_weight;
} turns[] = {
	{1000 * MS, 1000 * MS, 0, 1, 1, 0}, {1000 * MS, 999 * MS, 3, 0.999, 1, 3 * PERIOD},
	{1000 * MS, 500 * MS, 0, 0.5, 2, 0}, {1000 * MS, 250 * MS, 5, 0.25, 4, 20 * PERIOD},
	{1000 * MS, 0, 0, 0, 1, 0}, /* there is nothing to scale up */
	{0, 0, 0, 1, 1, 0},	    /* it was on no CPU */
};

START_TEST(events_that_take_turns)
{
	const uint64_t before[] = {50 * PERIOD, 77 * MS, 70 * MS, 1};
	const uint64_t now[] = {before[0] + (20 + turns[_i].lost) * PERIOD, before[1] + turns[_i].enabled,
		before[2] + turns[_i].running, before[3] + turns[_i].lost};
	struct window w = {0};
	st->layout.flags = LAYOUT_TIMES | LAYOUT_LOST;
	says(before, 4);
	event_counts_rebase(st);
	samples(20);
	says(now, 4);
	target_counts_window(target, &w);
	const struct event_totals *k = &w.kernel[1];
	ck_assert(k->lost_known && k->lost == turns[_i].lost);
	ck_assert(fabs(k->had_counter - turns[_i].had) < 1e-9 && fabs(k->correct - turns[_i].correct) < 1e-9);
	ck_assert_uint_eq(k->lost_weight, turns[_i].lost_weight);
	ck_assert_uint_eq(k->counted, (uint64_t)((20 + turns[_i].lost) * PERIOD * turns[_i].correct));
	ck_assert_uint_eq(k->unsampled, 0);
	ck_assert(w.kernel[0].had_counter == 1 && w.kernel[0].correct == 1);
}
END_TEST

/* There is one for each CPU of the program's, each enabled all the time that it runs, on whichever. */
START_TEST(events_of_each_cpu)
{
	const uint64_t numbers[] = {20 * PERIOD, 1000 * MS, 500 * MS, 0};
	char note[160];
	struct err e = {0};
	struct window w = {0};
	if (cpu_rings_open(&engine.perf.rings, note, sizeof(note), &e) < 0)
		return;
	target->desc.strategy = STRATEGY_PROCESS;
	st->layout.flags = LAYOUT_TIMES | LAYOUT_LOST;
	samples(20);
	says(numbers, 4);
	target_counts_window(target, &w);
	double had = 0.5 * cpu_rings_count(engine.perf.rings);
	ck_assert_msg(fabs(w.kernel[1].had_counter - (had < 1 ? had : 1)) < 1e-9, "%f", w.kernel[1].had_counter);
	engine.perf.rings = cpu_rings_close(engine.perf.rings);
}
END_TEST

/* --- what no sample stands for; in periods of 1 ms */

static struct clock_driven driven;

/* A window of a second in which the profiler was away for 200 ms, or so long; 100 samples came. */
static void was_away(enum strategy strategy, bool kernel, int64_t gap)
{
	st = fed_events(target, 0);
	st->fd = memfd_create("event", MFD_CLOEXEC);
	clock_drive(&driven);
	target->desc.strategy = strategy;
	target->desc.kernel = kernel;
	target->desc.events[0].period = MS;
	target->sampling.window_mono = clock_now();
	clock_move(1000 * MS);
	samples(100);
	target->sampling.tally.restarts = 1;
	target->sampling.tally.gap = (uint64_t)gap;
}

static const struct {
	bool kernel;
	uint64_t gap, counted, unseen;
} gaps[] = {
	{true, 200, 100, 0}, {true, 200, 250, 150}, /* of all that was counted: no more than could run meanwhile */
	{false, 200, 250, 25},	/* the count goes on in kernel code: as much as there was otherwise */
	{false, 200, 110, 10},	/* and no more than is missing */
	{false, 1000, 250, 150} /* there was no other time */
};

START_TEST(what_was_used_while_the_profiler_was_away)
{
	char note[160];
	struct err e = {0};
	struct window w = {0};
	if (cpu_rings_open(&engine.perf.rings, note, sizeof(note), &e) < 0)
		return;
	was_away(STRATEGY_CGROUP, gaps[_i].kernel, (int64_t)gaps[_i].gap * MS);
	says(&(uint64_t){gaps[_i].counted * MS}, 1);
	target_counts_window(target, &w);
	ck_assert_uint_eq(w.kernel[0].counted, gaps[_i].counted * MS);
	ck_assert_uint_eq(w.kernel[0].unseen, gaps[_i].unseen * MS);
	engine.perf.rings = cpu_rings_close(engine.perf.rings);
	clock_drive(NULL);
}
END_TEST

/*
 * Sampled by intervals, it used 600 ms, and the kernel counted 300 of them: all of it stands for twice as much. 100 ms
 * are samples, 10 were lost, 25 were in the gap; what is left of the 600 is kernel code.
 */
START_TEST(a_gap_is_no_kernel_code)
{
	const uint64_t before[] = {0, 0}, now[] = {300 * MS, 10}, ran[] = {600 * MS, 600 * MS};
	char note[160];
	struct err e = {0};
	struct window w = {0};
	if (cpu_rings_open(&engine.perf.rings, note, sizeof(note), &e) < 0)
		return;
	was_away(STRATEGY_PROCESS, false, 200 * MS);
	st->layout.flags = LAYOUT_LOST;
	says(before, 2);
	event_counts_rebase(st);
	says(now, 2);
	target->events.list->fd = memfd_create("side-band", MFD_CLOEXEC);
	target->events.list->layout.flags = LAYOUT_RUNNING;
	ck_assert_int_eq(pwrite(target->events.list->fd, ran, sizeof(ran), 0), sizeof(ran));
	target->sampling.rate.most = 2;
	target_counts_window(target, &w);
	const struct event_totals *k = &w.kernel[0];
	ck_assert_uint_eq(k->counted, 600 * MS);
	ck_assert(fabs(k->correct - 2) < 1e-9);
	ck_assert_uint_eq(k->lost_weight, 20 * MS);
	ck_assert_uint_eq(k->unseen, 50 * MS);
	ck_assert_uint_eq(k->unsampled, (600 - 200 - 20 - 50) * MS);
	engine.perf.rings = cpu_rings_close(engine.perf.rings);
	clock_drive(NULL);
}
END_TEST

/* A window of a second, of a program whose events are on by intervals; of its kernel code there are samples, too. */
static void by_intervals(uint64_t taken, uint64_t gap_ms)
{
	st = fed_events(target, 0);
	st->fd = memfd_create("event", MFD_CLOEXEC);
	st->layout.flags = LAYOUT_LOST;
	target->events.list->fd = memfd_create("side-band", MFD_CLOEXEC);
	target->events.list->layout.flags = LAYOUT_RUNNING;
	clock_drive(&driven);
	target->desc.strategy = STRATEGY_PROCESS;
	target->desc.kernel = true;
	target->desc.events[0].period = MS;
	target->sampling.window_mono = clock_now();
	target->sampling.rate.most = 2;
	target->sampling.tally.restarts = gap_ms ? 1 : 0;
	target->sampling.tally.gap = gap_ms * MS;
	clock_move(1000 * MS);
	samples((unsigned)taken);
}

/*
 * The kernel counted 300 ms while the events were on, and the program used `ran` ms. Each of these ms belongs to a
 * sample that was taken (it stands for 1 ms), lost, or not read in the gap: the sum of the three is `ran`.
 */
static const struct {
	uint64_t gap, taken, lost, ran; /* ms, samples, samples, ms */
	uint64_t counted, lost_weight, unseen;
	double correct;
} settled[] = {
	{0, 100, 0, 600, 600, 0, 0, 6},		 /* each sample stands for as much more */
	{0, 100, 0, 100, 100, 0, 0, 1},		 /* for as much as it did */
	{0, 100, 0, 50, 50, 0, 0, 0.5},		 /* for less */
	{0, 100, 20, 600, 600, 100, 0, 5},	 /* a lost one stands for as much as one that was taken */
	{0, 20, 100, 600, 600, 500, 0, 5},	 /* also where most are lost */
	{0, 100, 20, 0, 300, 20, 0, 1},		 /* it did not run by that account: nothing is settled by it */
	{0, 0, 20, 600, 300, 20, 0, 1},		 /* no sample can be given a part */
	{200, 100, 20, 600, 600, 100, 180, 3.2}, /* in the gap: 300 less 100 taken and 20 lost */
	{200, 100, 20, 300, 300, 50, 180, 0.7},	 /* 70 ms are left for 100 samples */
	{200, 100, 20, 120, 120, 20, 100, 0},	 /* the gap has no more than the program used */
};

START_TEST(what_intervals_stand_for_is_what_the_program_used)
{
	const uint64_t before[] = {0, 0}, now[] = {300 * MS, settled[_i].lost};
	const uint64_t ran_then = 70 * MS,
		       ran[] = {5 * MS, ran_then + settled[_i].ran * MS}; /* the first: of its own */
	char note[160];
	struct err e = {0};
	struct window w = {0};
	if (settled[_i].gap && cpu_rings_open(&engine.perf.rings, note, sizeof(note), &e) < 0)
		return;
	by_intervals(settled[_i].taken, settled[_i].gap);
	says(before, 2);
	event_counts_rebase(st);
	says(now, 2);
	ck_assert_int_eq(pwrite(target->events.list->fd, ran, sizeof(ran), 0), sizeof(ran));
	target->window.ran_then = ran_then;
	target_counts_window(target, &w);
	const struct event_totals *k = &w.kernel[0];
	ck_assert_uint_eq(k->lost, settled[_i].lost);
	ck_assert_uint_eq(k->counted, settled[_i].counted * MS);
	ck_assert_uint_eq(k->lost_weight, settled[_i].lost_weight * MS);
	ck_assert_uint_eq(k->unseen, settled[_i].unseen * MS);
	ck_assert_msg(fabs(k->correct - settled[_i].correct) < 1e-9, "%f", k->correct);
	if (settled[_i].ran && settled[_i].taken)
		ck_assert_uint_eq(k->unsampled, 0);
	ck_assert_uint_eq(target->window.ran_then, ran[1]); /* the next window begins there */
	engine.perf.rings = cpu_rings_close(engine.perf.rings);
	clock_drive(NULL);
}
END_TEST

static const struct {
	double most;  /* what the rate was lowered by in this window */
	bool account; /* the side-band says how long the program ran */
	uint64_t ran_then;
} unsettled[] = {
	{1, true, 670 * MS}, /* nothing was lowered: the kernel's count is of the whole window */
	{2, false, 70 * MS}, /* the next window must not get all that the program ever used */
};

START_TEST(without_intervals_or_an_account_the_kernels_count_holds)
{
	const uint64_t now[] = {300 * MS, 20}, ran[] = {0, 670 * MS};
	struct window w = {0};
	by_intervals(100, 0);
	says(now, 2);
	if (unsettled[_i].account)
		ck_assert_int_eq(pwrite(target->events.list->fd, ran, sizeof(ran), 0), sizeof(ran));
	target->sampling.rate.most = unsettled[_i].most;
	target->window.ran_then = 70 * MS;
	target_counts_window(target, &w);
	const struct event_totals *k = &w.kernel[0];
	ck_assert(k->counted == 300 * MS && k->correct == 1);
	ck_assert(k->lost_weight == 20 * MS && k->unsampled == 180 * MS);
	ck_assert_uint_eq(target->window.ran_then, unsettled[_i].ran_then);
	clock_drive(NULL);
}
END_TEST

/* What programs themselves say of their CPU time, where there are no perf events; in thousandths of a period. */
static const struct {
	uint64_t used, taken, lost; /* the last two in samples */
	uint64_t lost_weight, unsampled;
} accounts[] = {
	{100000, 100, 0, 0, 0},
	{100000, 90, 0, 0, 10000},
	{100000, 90, 4, 4000, 6000},
	{100000, 90, 20, 10000, 0}, /* those that were lost cannot be more than is missing */
	{100999, 100, 0, 0, 0},	    /* less than a period */
	{101000, 100, 0, 0, 1000},
	{1000000, 995, 0, 0, 5000}, /* one in 200 is worth a word */
	{1005000, 1000, 0, 0, 0},   /* less is not */
	{90000, 100, 0, 0, 0},
};

START_TEST(what_programs_say_of_their_time)
{
	struct window w = {0};
	st = fed_events(target, 0);
	target->desc.strategy = STRATEGY_TIMERS;
	target->desc.events[0].period = 1000;
	samples((unsigned)accounts[_i].taken);
	target->sampling.tally.apps_cpu = accounts[_i].used;
	target->sampling.tally.inproc_lost = accounts[_i].lost;
	target_counts_window(target, &w);
	const struct event_totals *k = &w.kernel[0];
	ck_assert(k->lost_known && k->lost == accounts[_i].lost && k->counted == accounts[_i].used);
	ck_assert_uint_eq(k->lost_weight, accounts[_i].lost_weight);
	ck_assert_uint_eq(k->unsampled, accounts[_i].unsampled);
}
END_TEST

UNIT_SUITE(target_counts)
{
	Suite *s = suite_create("target_counts");
	TCase *t = tcase_create("target_counts");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, what_an_event_says, 0, LENGTH(readings));
	tcase_add_loop_test(t, events_that_take_turns, 0, LENGTH(turns));
	tcase_add_test(t, events_of_each_cpu);
	tcase_add_loop_test(t, what_was_used_while_the_profiler_was_away, 0, LENGTH(gaps));
	tcase_add_test(t, a_gap_is_no_kernel_code);
	tcase_add_loop_test(t, what_intervals_stand_for_is_what_the_program_used, 0, LENGTH(settled));
	tcase_add_loop_test(t, without_intervals_or_an_account_the_kernels_count_holds, 0, LENGTH(unsettled));
	tcase_add_loop_test(t, what_programs_say_of_their_time, 0, LENGTH(accounts));
	suite_add_tcase(s, t);
	return s;
}

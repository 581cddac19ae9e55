/* counted: what events say when they are read, and what of a window is missing by that. Their descriptors are files. */
#include "profiler/counted.h"

#include "oci/base/clock.h"
#include "profiler/window.h"
#include "suite.h"
#include "tests/unit/fed.h"

#include <check.h>
#include <math.h>

#define PERIOD 1000u
#define MS NSEC_PER_MSEC
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static struct engine engine;
static struct target *target;
static struct stream *st; /* of the second event */

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
	struct counted_reading reading;
} readings[] = {
	{0, {7, 9, 9, 9}, {7, 0, 0, 0}},
	{LAYOUT_LOST, {7, 2, 9, 9}, {7, 2, 0, 0}},
	{LAYOUT_TIMES, {7, 300, 200, 9}, {7, 0, 300, 200}},
	{LAYOUT_TIMES | LAYOUT_LOST, {7, 300, 200, 2}, {7, 2, 300, 200}},
};

START_TEST(what_an_event_says)
{
	struct counted_reading r = {0};
	st->layout.flags = readings[_i].flags;
	says(readings[_i].numbers, 4);
	ck_assert(counted_read(st, &r));
	ck_assert(!memcmp(&r, &readings[_i].reading, sizeof(r)));
	says(readings[_i].numbers, 0);
	ck_assert(!counted_read(st, &r));
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
	counted_skip(st);
	samples(20);
	says(now, 4);
	counted_window(target, &w);
	const struct kernel_count *k = &w.kernel[1];
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
	if (rings_open(&engine.rings, note, sizeof(note), &e) < 0)
		return;
	target->desc.strategy = STRATEGY_PROCESS;
	st->layout.flags = LAYOUT_TIMES | LAYOUT_LOST;
	samples(20);
	says(numbers, 4);
	counted_window(target, &w);
	double had = 0.5 * rings_count(engine.rings);
	ck_assert_msg(fabs(w.kernel[1].had_counter - (had < 1 ? had : 1)) < 1e-9, "%f", w.kernel[1].had_counter);
	engine.rings = rings_close(engine.rings);
}
END_TEST

UNIT_SUITE(counted)
{
	Suite *s = suite_create("counted");
	TCase *t = tcase_create("counted");
	tcase_add_checked_fixture(t, begin, end);
	tcase_add_loop_test(t, what_an_event_says, 0, LENGTH(readings));
	tcase_add_loop_test(t, events_that_take_turns, 0, LENGTH(turns));
	tcase_add_test(t, events_of_each_cpu);
	suite_add_tcase(s, t);
	return s;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/offcpu/offcpu_method.h"

#include "oci/base/clock.h"
#include "profiler/sample/sample_stack.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>

#define LOOK_NS (100 * NSEC_PER_MSEC)
#define LOOK_MOST_NS NSEC_PER_SEC    /* while there are hardly any */
#define HARDLY_ANY 4		     /* from look to look */
#define WOKEN_NS (3 * NSEC_PER_MSEC) /* then all records that a ring has woken us for can be read */
#define FIRST_NS (20 * NSEC_PER_MSEC)
#define FEW_FOR 4		      /* times as many switches as stacks were asked for are few */
#define TURN_NS NSEC_PER_MSEC	      /* of stacks, while there are many, and until earlier records are read */
#define REST_NS (300 * NSEC_PER_MSEC) /* from one turn to the next, more where a ring had no room for one */
#define REST_MOST_NS (10 * NSEC_PER_SEC)
#define REST_COSTS 20
#define ON_NS (20 * NSEC_PER_MSEC) /* from pause to pause at least */
#define ON_COSTS 10
#define SCALE_MOST 1000.0

/* A plain user's profile: its stacks are those of a clock. */
static bool by_clock(const struct offcpu *o)
{
	return !o->sampling->desc->kernel;
}

/* --- phases ----------------------------------------------------------------------------------------------- */

static bool is_on(const struct offcpu *o, enum perf_role role, enum offcpu_phase phase)
{
	switch (role) {
	case PERF_SWITCHES:
		return phase != OFFCPU_PAUSE;
	case PERF_OFFCPU_SMALL:
		return phase == OFFCPU_SMALL;
	default:
		return by_clock(o) || phase == OFFCPU_ALL || phase == OFFCPU_TURN;
	}
}

/* First off, then on: two events that record switches at once garble each other's records (shim/event/perf_event.h). */
static void set_events(struct offcpu *o, enum offcpu_phase phase)
{
	for (int on = 0; on <= 1; on++)
		for (struct open_event *st = *o->owner.events; st; st = st->next_of_target) {
			bool ours = st->role == PERF_SWITCHES || st->role == PERF_OFFCPU_SMALL ||
				    (st->role == PERF_SAMPLES && st->spec == o->spec && !by_clock(o));
			if (ours && is_on(o, st->role, phase) == on)
				ioctl(st->fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
		}
}

/* in: intended length, ns. The phase after a pause makes up for the time that was not recorded (struct offcpu_time). */
static void begin_phase(struct offcpu *o, enum offcpu_phase phase, int64_t now, int64_t in)
{
	uint64_t from = offcpu_time_of(o, now);
	double scale = phase != OFFCPU_PAUSE;
	set_events(o, phase);
	if (o->phase == OFFCPU_PAUSE)
		wait_times_gap(o->waits, 0, WAIT_TIMES_ALL_CPUS, from, from);
	if (phase == OFFCPU_SMALL && from != (uint64_t)now)
		scale = offcpu_catch_up((double)(now - (int64_t)from), (double)in, 0.5, SCALE_MOST);
	offcpu_enter(o, phase, now, in, from, scale, scale);
}

/* A switch has two records, for going off and for coming back; the former are counted. */
static double switches_a_second(const struct offcpu *o, int64_t now)
{
	return offcpu_a_second(o->switches, now - o->looked);
}

/* Few enough for a stack of each. */
static bool are_few(const struct offcpu *o, double rate)
{
	return by_clock(o) || rate <= FEW_FOR * offcpu_asked_for(o);
}

/* After a pause there is unrecorded time to make up for. */
static void begin_recording(struct offcpu *o, int64_t now)
{
	const bool behind = offcpu_time_of(o, now) != (uint64_t)now;
	int64_t in = behind						 ? ON_NS + ON_COSTS * o->cost
		     : o->phase == OFFCPU_ALL && o->turn.rest == REST_NS ? FIRST_NS
									 : o->turn.rest + REST_COSTS * o->cost;
	begin_phase(o, by_clock(o) && !behind ? OFFCPU_ALL : OFFCPU_SMALL, now, offcpu_about(o, (double)in));
}

static void begin_many(struct offcpu *o, int64_t now)
{
	int64_t span = now - o->looked;
	double pause = (double)o->switches * NSEC_PER_SEC / offcpu_most(o) - (double)span;
	if (pause > 0 && span >= ON_NS)
		begin_phase(o, OFFCPU_PAUSE, now, offcpu_pause_most(o, now, pause));
	else if (o->phase == OFFCPU_SMALL && !by_clock(o))
		begin_phase(o, OFFCPU_TURN, now, TURN_NS);
	else
		begin_recording(o, now);
}

static void look_again(struct offcpu *o, int64_t now)
{
	o->look = o->switches > HARDLY_ANY ? LOOK_NS : o->look < LOOK_MOST_NS / 2 ? 2 * o->look : LOOK_MOST_NS;
	o->looked = now;
	o->switches = 0;
	o->until = now + o->look;
}

static void check_phase(struct offcpu *o)
{
	const int64_t now = clock_now();
	double rate = switches_a_second(o, now);
	const bool many = o->check.woken || rate > offcpu_most(o) || !are_few(o, rate);
	if (now < o->until && !o->check.woken)
		return;
	if (o->phase == OFFCPU_TURN && o->turn.rest > REST_NS) /* doubled where it had no room: see on_lost_records() */
		o->turn.rest = o->turn.rest * 3 / 4 > REST_NS ? o->turn.rest * 3 / 4 : REST_NS;
	if (o->phase == OFFCPU_PAUSE || o->phase == OFFCPU_TURN)
		begin_recording(o, now);
	else if (many)
		begin_many(o, now);
	else if (o->phase == OFFCPU_ALL)
		look_again(o, now);
	else
		begin_phase(o, OFFCPU_ALL, now, LOOK_NS);
}

/* A ring that is full by now wakes nothing any more. */
static int64_t on_ring_wakeup(struct offcpu *o, int64_t now)
{
	return now + WOKEN_NS;
}

/* --- the beginning ---------------------------------------------------------------------------------------- */

/* They are enabled as they were opened. */
static void init_phase(struct offcpu *o)
{
	o->phase = OFFCPU_ALL;
}

static void start_measuring(struct offcpu *o)
{
	int64_t now = clock_now();
	o->switches = 0;
	o->check.woken = false;
	o->looked = now;
	o->look = FIRST_NS;
	o->turn.rest = REST_NS;
	o->until = now + FIRST_NS;
}

static void resume_recording(struct offcpu *o)
{
	begin_phase(o, OFFCPU_ALL, clock_now(), FIRST_NS);
	start_measuring(o);
}

/* --- records ---------------------------------------------------------------------------------------------- */

/* In OFFCPU_ALL many switches fill a ring within a few milliseconds. */
static void request_drain(struct offcpu *o)
{
	o->check.woken = true;
	o->owner.ops->hurry(o->owner.target);
}

/* The last switches came faster than few do. */
static bool is_burst(struct offcpu *o, int64_t time)
{
	int64_t *oldest = &o->last.times[o->last.n++ % OFFCPU_RECENT], since = *oldest;
	*oldest = time;
	return since >= o->looked && !are_few(o, offcpu_a_second(OFFCPU_RECENT, time - since));
}

static void on_switch(struct offcpu *o, const struct record *r, uint64_t time)
{
	if (!(r->misc & PERF_RECORD_MISC_SWITCH_OUT)) {
		wait_times_on(o->waits, r->tid, r->cpu, time);
		return;
	}
	o->switches += (int64_t)r->time >= o->looked;
	if (o->phase == OFFCPU_ALL && is_burst(o, (int64_t)r->time))
		request_drain(o);
	o->sampling->tally.switches++;
	wait_times_off(o->waits, r->pid, r->tid, r->cpu, time, NULL);
}

/* Takes a stack of its clock, with a frame at the root that says so. */
static void on_clock(
	struct offcpu *o, const struct record *r, const struct stack_frame *frames, size_t n, uint64_t time)
{
	struct stack_frame all[AGGREGATE_STACK_MAX];
	n = n < AGGREGATE_STACK_MAX ? n : AGGREGATE_STACK_MAX - 1;
	memcpy(all, frames, n * sizeof(all[0]));
	all[n] = (struct stack_frame){.kind = FRAME_SPECIAL, .name = frame_approximate};
	o->sampling->tally.stacks++;
	wait_times_runs(o->waits, r->pid, r->tid, time, offcpu_labels(o, r), all, n + 1);
}

static void handle_record(
	struct offcpu *o, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n)
{
	const struct offcpu_time *of = (int64_t)r->time >= o->time.since ? &o->time : &o->time_before;
	const uint64_t time = offcpu_time_of(o, (int64_t)r->time);
	if (!o->sampling->started || (int64_t)r->time < o->sampling->began)
		return;
	wait_times_scale(o->waits, (int64_t)r->time > of->until || of->scale < 1 ? 1 : of->scale);
	if (r->type == PERF_RECORD_SWITCH) {
		on_switch(o, r, time);
		return;
	}
	o->own_clock |= by_clock(o) && st->spec == o->spec;
	if (by_clock(o) && (st->spec == o->spec || !o->own_clock)) {
		if (frames)
			on_clock(o, r, frames, n, time);
		return;
	}
	if (st->spec != o->spec) {
		wait_times_runs(o->waits, r->pid, r->tid, time, 0, NULL, 0);
		return;
	}
	const struct wait_at at = offcpu_place(o, r, true);
	if (frames && at.ip)
		wait_times_stack(o->waits, r->pid, r->tid, &at, frames, n);
	o->sampling->tally.stacks += frames != NULL;
	wait_times_off(o->waits, r->pid, r->tid, r->cpu, time, &at);
}

/* Stacks without room in a ring are of no use: asks for fewer. */
static void on_lost_records(struct offcpu *o, uint64_t count, uint32_t cpu, int64_t time)
{
	wait_times_gap(o->waits, count, cpu, offcpu_time_of(o, o->owner.progress->had_room), offcpu_time_of(o, time));
	if (by_clock(o) || (o->phase != OFFCPU_ALL && o->phase != OFFCPU_TURN))
		return;
	o->turn.rest = o->turn.rest < REST_MOST_NS / 2 ? 2 * o->turn.rest : REST_MOST_NS;
	if (o->phase == OFFCPU_ALL)
		request_drain(o);
}

/* Makes up for a pause before a window ends. */
static int end_pause(struct offcpu *o)
{
	const int64_t now = clock_now();
	if (o->phase == OFFCPU_PAUSE) {
		o->owner.ops->drain(o->owner.target);
		begin_phase(o, OFFCPU_SMALL, now, OFFCPU_CALL_MS * NSEC_PER_MSEC);
		o->called = now;
	}
	int64_t left = o->called ? o->called + OFFCPU_CALL_MS * NSEC_PER_MSEC - now : 0;
	if (left > 0)
		return (int)(left / NSEC_PER_MSEC) + 1;
	if (o->called)
		o->owner.ops->drain(o->owner.target);
	o->called = 0;
	return 0;
}

const struct offcpu_method offcpu_by_switches = {.arm = init_phase,
	.begin = start_measuring,
	.woken = on_ring_wakeup,
	.look = check_phase,
	.call = end_pause,
	.resume = resume_recording,
	.record = handle_record,
	.lost = on_lost_records};

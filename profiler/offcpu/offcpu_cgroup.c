/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/offcpu/offcpu_method.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/sample/sample_stack.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define FEW_FOR 4			   /* times as many switches as stacks were asked for are few */
#define LOOK_NS (100 * NSEC_PER_MSEC)	   /* while they are few, */
#define LOOK_MOST_NS NSEC_PER_SEC	   /* and while there are hardly any: a ring wakes us */
#define HARDLY_ANY 4			   /* from look to look */
#define WOKEN_NS (3 * NSEC_PER_MSEC)	   /* then all records that it was woken for can be read */
#define FIRST_NS (20 * NSEC_PER_MSEC)	   /* until it is known whether they are many */
#define TURN_NS (2 * NSEC_PER_MSEC)	   /* of stacks, while they are many */
#define REST_LEAST_NS (10 * NSEC_PER_MSEC) /* between two turns, which cost calls for each CPU */
#define REST_NS (10 * NSEC_PER_SEC)
#define ON_NS (2 * NSEC_PER_MSEC) /* from pause to pause at least: an end in one leaves no record */
#define ON_COSTS 10		  /* times the cost of its beginning and end */
#define REST_COSTS 20
#define SHORT_PAUSE_NS (12 * NSEC_PER_MSEC)
#define BEHIND_NS (20 * NSEC_PER_MSEC) /* while the reader is behind */
#define SCALE_MOST 1000.0
#define HARDLY_RUNNING 0.01 /* CPU time per time */
#define PACE_OF 100000
#define PACE_LEAST 1000
#define TURN_STACKS 12 /* of each CPU: three quarters of a ring */

/* --- clocks ----------------------------------------------------------------------------------------------- */

static struct offcpu_clock *base_of(struct open_event *st, int64_t real)
{
	return real >= st->base.since ? &st->base : &st->base_before;
}

static void read_event(const struct open_event *st, uint64_t ret[2])
{
	ret[0] = ret[1] = 0;
	if (st)
		fd_read_all(st->fd, ret, 2 * sizeof(ret[0]));
}

/* Returns how long the target has run on that CPU by `now`: scaled by the average of the whole span. */
static uint64_t clock_of(const struct offcpu *o, const struct offcpu_cpu *c, int64_t now, uint64_t all)
{
	double scale = o->time.clock_scale;
	if (now > o->time.until)
		scale = 1 + (scale - 1) * (double)(o->time.until - o->time.since) / (double)(now - o->time.since);
	return offcpu_scaled(c->ran, (int64_t)(all - c->clock_then), scale);
}

/* --- phases ----------------------------------------------------------------------------------------------- */

static bool has_stacks(enum offcpu_phase p)
{
	return p == OFFCPU_TURN || p == OFFCPU_ALL;
}

/* Returns the stacks that fit into three quarters of a ring, and are few enough for the reader. */
static uint64_t turn_stacks(const struct offcpu *o, const struct open_event *st)
{
	uint64_t fit = cpu_rings_size(*o->owner.rings) / 4 * 3 / (st->layout.stack_user + 1024);
	return fit < 1 ? 1 : fit < TURN_STACKS ? fit : TURN_STACKS;
}

/*
 * Allows no more stacks than a ring has room for: after the last one the event switches itself off, until more are
 * allowed. Nothing is recorded then: the clock shows that.
 */
static void refresh_event(const struct offcpu *o, struct open_event *st, uint64_t own)
{
	if (st->allowed < own) /* the allowance of a killed worker is not known */
		st->allowed = own;
	uint64_t left = st->allowed - own, most = turn_stacks(o, st), more = left < most ? most - left : 0;
	if (more)
		ioctl(st->fd, PERF_EVENT_IOC_REFRESH, (unsigned long)more);
	else
		ioctl(st->fd, PERF_EVENT_IOC_ENABLE, 0);
	st->allowed += more;
	st->fresh = 0;
}

/* True: one had none left, so a thread may have gone off since without a record. */
static bool allow_more(struct offcpu *o)
{
	bool spent = false;
	for (size_t i = 0; i < o->n_cpus; i++) {
		struct open_event *st = o->cpus[i].stacks;
		uint64_t own[2];
		if (!st)
			continue;
		read_event(st, own);
		spent |= own[0] >= st->allowed; /* also where a ring had no room for any */
		if (st->fresh && own[0] < st->allowed)
			refresh_event(o, st, own[0]);
	}
	return spent;
}

static void switch_off(struct offcpu *o, struct offcpu_cpu *c, const struct open_event *to)
{
	if (c->active && c->active != to)
		ioctl(c->active->fd, PERF_EVENT_IOC_DISABLE, 0);
	c->read = clock_now();
	read_event(c->active, c->own);
	c->count = c->active ? c->active->base.count + c->own[0] : c->count;
	o->turn.took += c->active && c->active == c->stacks ? c->own[0] - c->active->turn : 0;
}

static void switch_on(struct offcpu *o, struct open_event *st)
{
	if (st->role == PERF_SAMPLES)
		refresh_event(o, st, st->turn);
	else
		ioctl(st->fd, PERF_EVENT_IOC_ENABLE, 0);
}

static struct open_event *its_turn(const struct offcpu_cpu *c, enum offcpu_phase phase)
{
	return phase == OFFCPU_PAUSE ? NULL : has_stacks(phase) ? c->stacks : c->small;
}

static void enter_turn(struct offcpu *o, struct offcpu_cpu *c, struct open_event *to, double scale)
{
	const bool new = to != c->active;
	c->active = to;
	if (!to)
		return;
	if (new) { /* an event that stays on counts on: its values are as they were read */
		uint64_t all[2];
		c->read = clock_now();
		read_event(to, c->own);
		read_event(c->sideband, all);
		c->ran = offcpu_scaled(c->ran, (int64_t)(all[1] - c->clock_then), scale);
		c->clock_then = all[1];
		c->switched_then = all[0];
	}
	to->base_before = to->base;
	to->base = (struct offcpu_clock){c->read, true, c->count - c->own[0], c->ran, c->own[1], scale};
	to->turn = c->own[0];
	if (new)
		switch_on(o, to);
}

/* ns of all CPUs */
struct clocks {
	int64_t ran, behind; /* ran: since the phase began, by the side-band; behind: the clocks told so far */
	uint64_t switches;
};

/*
 * For a few microseconds nothing is recorded. The target's clock of a CPU is the side-band's, which is always on: the
 * threads' running time is right in all, even where switches were not recorded.
 */
static struct clocks leave_turns(struct offcpu *o, enum offcpu_phase next, int64_t now)
{
	struct clocks sum = {0};
	for (size_t i = 0; i < o->n_cpus; i++) {
		struct offcpu_cpu *c = &o->cpus[i];
		uint64_t all[2];
		switch_off(o, c, its_turn(c, next));
		read_event(c->sideband, all);
		c->ran = clock_of(o, c, now, all[1]);
		sum.ran += (int64_t)(all[1] - c->clock_then);
		sum.behind += (int64_t)(all[1] - c->ran);
		sum.switches += all[0] - c->switched_then;
		c->clock_then = all[1];
		c->switched_then = all[0];
	}
	return sum;
}

/* Keeps the sum of about the last hundred thousand switches. */
static void note_pace(struct offcpu *o, const struct clocks *sum)
{
	struct offcpu_run *p = o->phase == OFFCPU_PAUSE ? &o->pace.unrecorded : &o->pace.recorded;
	if (has_stacks(o->phase) || !sum->switches)
		return;
	if (p->switches > PACE_OF) {
		p->switches /= 2;
		p->ran /= 2;
	}
	p->switches += (double)sum->switches;
	p->ran += (double)sum->ran;
}

/*
 * The thread that goes off makes the record, and the thread that comes waits for it. The clocks tell how long: from
 * switch to switch they run longer than in a pause.
 */
static void tell_pace(struct offcpu *o)
{
	const struct offcpu_run *with = &o->pace.recorded, *without = &o->pace.unrecorded;
	if (with->switches < PACE_LEAST || without->switches < PACE_LEAST)
		return;
	wait_times_set_overhead(o->waits, with->ran / with->switches - without->ran / without->switches);
}

/* in: intended length, ns. */
static void begin_phase(struct offcpu *o, enum offcpu_phase phase, int64_t now, int64_t in)
{
	uint64_t from = offcpu_time_of(o, now);
	double scale = phase != OFFCPU_PAUSE, clock_scale = scale;
	o->turn.took = 0;
	const struct clocks sum = leave_turns(o, phase, now);
	note_pace(o, &sum);
	if (o->phase == OFFCPU_SMALL && o->time.since && now > o->time.since)
		o->pace.running = (double)sum.ran / (double)(now - o->time.since);
	if (phase == OFFCPU_SMALL && from != (uint64_t)now) {
		scale = offcpu_catch_up((double)(now - (int64_t)from), (double)in, 0.5, SCALE_MOST);
		clock_scale = o->pace.running < HARDLY_RUNNING
				      ? scale
				      : offcpu_catch_up((double)sum.behind, o->pace.running * (double)in, scale * 0.7,
						scale * 1.4);
	}
	for (size_t i = 0; i < o->n_cpus; i++)
		enter_turn(o, &o->cpus[i], its_turn(&o->cpus[i], phase), clock_scale);
	offcpu_enter(o, phase, now, in, from, scale, clock_scale);
}

/* --- the roll call ---------------------------------------------------------------------------------------- */

static void switch_seen(struct offcpu *o, unsigned long how)
{
	for (size_t i = 0; i < o->n_cpus; i++)
		if (o->cpus[i].seen)
			ioctl(o->cpus[i].seen->fd, how, 0); /* no thread runs on a CPU that is offline */
}

static int run_roll_call(struct offcpu *o)
{
	if (o->phase == OFFCPU_PAUSE) {
		o->owner.ops->drain(o->owner.target);
		begin_phase(o, OFFCPU_SMALL, clock_now(), OFFCPU_CALL_MS * NSEC_PER_MSEC);
	}
	if (!o->called) {
		switch_seen(o, PERF_EVENT_IOC_ENABLE);
		o->called = clock_now(); /* the steps before may have taken long */
	}
	int64_t left = o->called + OFFCPU_CALL_MS * NSEC_PER_MSEC - clock_now();
	if (left > 0)
		return (int)(left / NSEC_PER_MSEC) + 1;
	switch_seen(o, PERF_EVENT_IOC_DISABLE);
	o->called = 0;
	o->owner.ops->drain(o->owner.target);
	return 0;
}

/* --- choice of the phase ---------------------------------------------------------------------------------- */

/* From one pause to the next. */
static int64_t on_ns(const struct offcpu *o)
{
	return ON_NS + ON_COSTS * o->cost;
}

struct recorded {
	uint64_t all, most; /* of one CPU */
};

/* Counts the records of this turn, also those that cannot be read yet: within a moment they fill a ring. */
static struct recorded count_records(const struct offcpu *o)
{
	struct recorded r = {0};
	for (size_t i = 0; i < o->n_cpus; i++) {
		const struct open_event *st = o->cpus[i].active;
		uint64_t own[2], n;
		read_event(st, own);
		n = st && own[0] > st->turn ? own[0] - st->turn : 0;
		r.all += n;
		r.most = n > r.most ? n : r.most;
	}
	return r;
}

/* Few enough for a stack of each. */
static bool are_few(const struct offcpu *o, double rate)
{
	return rate <= FEW_FOR * offcpu_asked_for(o);
}

static void begin_small(struct offcpu *o, int64_t now, int64_t in)
{
	int64_t until_turn = o->turn.due - now;
	begin_phase(o, OFFCPU_SMALL, now, in < until_turn || until_turn < TURN_NS ? in : until_turn);
}

static void begin_pause(struct offcpu *o, int64_t now, double ns)
{
	begin_phase(o, OFFCPU_PAUSE, now, offcpu_pause_most(o, now, ns));
}

/*
 * Returns the pause after so many records in that time. A record costs its CPU, and its program, a fraction of a
 * microsecond: of many switches a CPU records a part, in turns so short that hardly anything begins or ends in between.
 */
static double pause_for(const struct offcpu *o, const struct recorded *n, double span)
{
	double must = (double)n->all * NSEC_PER_SEC / offcpu_most(o) - span;
	double should = (double)n->most * NSEC_PER_SEC / (OFFCPU_SWITCHES_CPU / offcpu_factor(o)) - span;
	should = should < SHORT_PAUSE_NS ? should : SHORT_PAUSE_NS;
	return must > should ? must : should;
}

static void end_small(struct offcpu *o, int64_t now)
{
	const struct recorded n = count_records(o);
	double rate = offcpu_a_second(n.all, now - o->looked), pause = pause_for(o, &n, (double)(now - o->looked));
	o->too_many = pause > 0;
	if (o->too_many) {
		begin_pause(o, now, pause);
	} else if (o->check.woken &&
		   now < o->until) { /* woken for another target's records, or for all of a long time */
		o->check.woken = false;
	} else if (now >= o->turn.due) {
		bool few = are_few(o, rate);
		begin_phase(o, few ? OFFCPU_ALL : OFFCPU_TURN, now, few ? LOOK_NS : TURN_NS);
	} else {
		begin_small(o, now, REST_NS);
	}
}

static void end_turn(struct offcpu *o, int64_t now)
{
	const bool was_all = o->phase == OFFCPU_ALL;
	if (o->too_many && !was_all) /* there is hardly any room in the rings until the stacks are read */
		begin_pause(o, now, TURN_NS);
	else
		begin_phase(o, OFFCPU_SMALL, now, FIRST_NS);
	double rest = (double)o->turn.took / offcpu_asked_for(o) * NSEC_PER_SEC;
	double least = (double)(REST_LEAST_NS + REST_COSTS * o->cost);
	rest = rest < REST_NS ? rest : REST_NS;
	o->turn.due = now + (was_all ? FIRST_NS : offcpu_about(o, rest > least ? rest : least));
	o->until = o->turn.due < o->until ? o->turn.due : o->until;
}

static void look_at_all(struct offcpu *o, int64_t now)
{
	bool over = now >= o->until, spent = allow_more(o);
	if (spent || (over && !are_few(o, offcpu_a_second(o->switches, now - o->looked)))) {
		end_turn(o, now);
	} else if (over) {
		o->look = o->switches > HARDLY_ANY ? LOOK_NS : o->look < LOOK_MOST_NS / 2 ? 2 * o->look : LOOK_MOST_NS;
		o->looked = now;
		o->switches = 0;
		o->until = now + o->look;
	}
}

static void end_pause(struct offcpu *o, int64_t now)
{
	if (now >= o->turn.due && o->before == OFFCPU_SMALL) /* else it has to catch up first */
		begin_phase(o, OFFCPU_TURN, now, TURN_NS);
	else
		begin_small(o, now, offcpu_about(o, (double)on_ns(o)));
}

static void (*const end_of[])(struct offcpu *o, int64_t now) = {
	[OFFCPU_SMALL] = end_small, [OFFCPU_TURN] = end_turn, [OFFCPU_PAUSE] = end_pause};

/* A ring that wakes the worker for small records is half full: another half, and there is no room. */
static int64_t on_ring_wakeup(struct offcpu *o, int64_t now)
{
	bool others = *o->owner.n_offcpu > 1 && o->switches == o->check.switches; /* other targets have filled it */
	if (o->phase == OFFCPU_SMALL && !others && now - o->check.last >= on_ns(o) / 2) {
		o->check.last = now;
		o->check.switches = o->switches;
		o->check.woken = true;
		o->owner.ops->hurry(o->owner.target);
	}
	return o->check.woken ? now : o->phase == OFFCPU_ALL ? now + WOKEN_NS : INT64_MAX;
}
/* --- the beginning ---------------------------------------------------------------------------------------- */

static struct offcpu_cpu *cpu_of(struct offcpu *o, int cpu, size_t max)
{
	size_t i = 0;
	while (i < o->n_cpus && o->cpus[i].sideband && o->cpus[i].sideband->cpu != cpu)
		i++;
	o->n_cpus += i == o->n_cpus && i < max;
	return i < max ? &o->cpus[i] : NULL;
}

/* Sorts its streams by CPU: each CPU has a side-band. */
static int find_cpus(struct offcpu *o)
{
	size_t max = 0;
	for (struct open_event *st = *o->owner.events; st; st = st->next_of_target)
		max += st->role == PERF_SIDEBAND;
	free(o->cpus);
	o->n_cpus = 0;
	o->cpus = calloc(max + 1, sizeof(*o->cpus));
	if (!o->cpus)
		return -ENOMEM;
	for (struct open_event *st = *o->owner.events; st; st = st->next_of_target)
		if (st->role == PERF_SIDEBAND)
			cpu_of(o, st->cpu, max)->sideband = st;
	for (struct open_event *st = *o->owner.events; st; st = st->next_of_target) {
		struct offcpu_cpu *c = cpu_of(o, st->cpu, o->n_cpus);
		if (!c)
			continue;
		c->small = st->role == PERF_OFFCPU_SMALL ? st : c->small;
		c->seen = st->role == PERF_ROLL_CALL ? st : c->seen;
		c->stacks = st->role == PERF_SAMPLES && st->spec == o->spec ? st : c->stacks;
	}
	return 0;
}

/* The side-band's clock has run for longer than the small records'. */
static void init_clocks(struct offcpu *o)
{
	if (find_cpus(o) < 0)
		return;
	for (size_t i = 0; i < o->n_cpus; i++) {
		struct offcpu_cpu *c = &o->cpus[i];
		uint64_t own[2], all[2];
		read_event(c->small, own);
		read_event(c->sideband, all);
		c->active = c->small;
		c->ran = c->clock_then = all[1];
		c->switched_then = all[0];
		if (c->small)
			c->small->base = (struct offcpu_clock){0, true, 0, all[1], own[1], 1};
	}
}
/* --- looks ------------------------------------------------------------------------------------------------ */

/* Corrects the clocks by the account of its cgroup. */
static void correct_waits(struct offcpu *o)
{
	uint64_t truly = o->owner.ops->cpu_usage(o->owner.target) * 1000, ran = 0, value[2];
	for (size_t i = 0; truly && i < o->n_cpus; i++) {
		read_event(o->cpus[i].sideband, value);
		ran += value[1];
	}
	tell_pace(o);
	if (truly && o->owner.ops->all_cpus(o->owner.target)) /* time on CPUs without events is not missed by a clock */
		wait_times_correct(o->waits, truly, ran);
}

static void check_phase(struct offcpu *o)
{
	const int64_t now = clock_now(); /* a phase is short: reading the records may have taken longer */
	if (o->owner.progress->behind && o->phase != OFFCPU_PAUSE) {
		o->turn.due = now + BEHIND_NS > o->turn.due ? now + BEHIND_NS : o->turn.due;
		begin_pause(o, now, BEHIND_NS);
	} else if (o->phase == OFFCPU_ALL)
		look_at_all(o, now);
	else if (now >= o->until || o->check.woken)
		end_of[o->phase](o, now);
}

/* The number of switches is not known yet. */
static void start_measuring(struct offcpu *o)
{
	int64_t now = clock_now();
	o->switches = o->check.switches = 0;
	o->check.woken = o->too_many = false;
	o->looked = o->check.last = now;
	o->until = o->turn.due = now + FIRST_NS;
	for (size_t i = 0; i < o->n_cpus; i++) {
		uint64_t own[2];
		read_event(o->cpus[i].active, own);
		if (o->cpus[i].active)
			o->cpus[i].active->turn = own[0];
	}
	correct_waits(o);
}

static void resume_recording(struct offcpu *o)
{
	if (find_cpus(o) < 0)
		return;
	wait_times_reset_clocks(o->waits);
	switch_seen(o, PERF_EVENT_IOC_DISABLE);
	for (size_t i = 0; i < o->n_cpus; i++) { /* whichever had its turn */
		struct offcpu_cpu *c = &o->cpus[i];
		if (c->stacks)
			ioctl(c->stacks->fd, PERF_EVENT_IOC_DISABLE, 0);
	}
	begin_phase(o, OFFCPU_SMALL, clock_now(), FIRST_NS);
	o->turn.due = o->until;
}
/* --- records ---------------------------------------------------------------------------------------------- */

static void on_switch(
	struct offcpu *o, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n)
{
	const struct record_sample *s = &r->sample;
	struct offcpu_clock *base = base_of(st, (int64_t)r->time);
	const uint64_t time = offcpu_time_of(o, (int64_t)r->time);
	uint64_t ran = offcpu_scaled(base->ran, (int64_t)(s->running - base->from), base->scale);
	const bool counts = o->sampling->started && (int64_t)r->time >= o->sampling->began;
	const struct offcpu_time *of = (int64_t)r->time >= o->time.since ? &o->time : &o->time_before;
	const bool caught_up = (int64_t)r->time > of->until;
	if (caught_up &&
		base->scale != 1) { /* the thread has run without a break, the end of it by a clock like any other */
		int64_t behind = (int64_t)r->time - of->until, run = (int64_t)(s->running - base->from);
		ran -= (uint64_t)(int64_t)((base->scale - 1) * (double)(behind < run ? behind : run));
	}
	const struct wait_at at = offcpu_place(o, r, counts);
	if (counts && frames && at.ip)
		wait_times_stack(o->waits, r->pid, r->tid, &at, frames, n);
	/* a thread that does not count moves the clock: it tells how long others ran */
	wait_times_out(o->waits, &(struct switch_out){.time = time,
					 .pid = r->pid,
					 .tid = counts ? r->tid : 0,
					 .cpu = (uint32_t)st->cpu,
					 .at = at,
					 .timed = base->known,
					 .count = s->value + base->count,
					 .ran = ran,
					 .scale = caught_up ? 1 : of->scale});
	if (caught_up) {
		base->ran = ran;
		base->from = s->running;
		base->scale = 1;
	}
	o->switches++;
	o->sampling->tally.switches += counts;
	o->sampling->tally.stacks += counts && frames;
	st->fresh += frames != NULL;
	if (frames && st->fresh >= turn_stacks(o, st) / 2) /* a look at whether there are too many */
		o->owner.ops->hurry(o->owner.target);
}

/* Ignores samples of CPU time: the clocks tell which thread is on a CPU. */
static void handle_record(
	struct offcpu *o, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n)
{
	if (st->spec != o->spec || r->type != PERF_RECORD_SAMPLE)
		return;
	if (st->role == PERF_ROLL_CALL)
		wait_times_seen(o->waits, r->tid, r->cpu, offcpu_time_of(o, (int64_t)r->time));
	else
		on_switch(o, st, r, frames, n);
}

static size_t read_cpu_clocks(struct offcpu *o, int64_t now, struct wait_clock *ret)
{
	if (o->called) /* the roll call ends sooner than intended */
		switch_seen(o, PERF_EVENT_IOC_DISABLE);
	o->called = 0;
	for (size_t i = 0; i < o->n_cpus; i++) {
		struct open_event *all = o->cpus[i].sideband;
		uint64_t value[2];
		read_event(all, value);
		ret[i] = (struct wait_clock){(uint32_t)all->cpu, clock_of(o, &o->cpus[i], now, value[1])};
	}
	return o->n_cpus;
}

const struct offcpu_method offcpu_by_turns = {.arm = init_clocks,
	.begin = start_measuring,
	.woken = on_ring_wakeup,
	.look = check_phase,
	.correct = correct_waits,
	.call = run_roll_call,
	.resume = resume_recording,
	.record = handle_record,
	.clocks = read_cpu_clocks};

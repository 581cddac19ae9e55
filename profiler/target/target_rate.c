/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_rate.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/config/options.h"
#include "profiler/target/engine_state.h"
#include "profiler/target/target.h"
#include "profiler/target/target_counts.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#define LOOK_NS NSEC_PER_SEC
/* Many short cycles make the sum more accurate: a program works, and waits, for longer than one. */
#define CYCLE_NS (40 * NSEC_PER_MSEC)
#define CYCLE_FACTOR 4 /* beyond it cycles grow: switching has to cost less, too */
#define CYCLE_MAX_NS NSEC_PER_SEC
#define CYCLE_COSTS 100 /* a cycle is as long as so many switchings of all targets: they take a hundredth of a CPU */
#define ON_NS (2 * NSEC_PER_MSEC)

/* --- weights ------------------------------------------------------------------------------------------- */

const char *target_rate_way_name(const struct target *t)
{
	static const char *const names[] = {[RATE_PERIOD] = "longer periods",
		[RATE_DUTY_CYCLE] = "intervals",
		[RATE_DROP_SAMPLES] = "leaving samples out"};
	return names[sampling_rate_way(&t->sampling)];
}

/* Overwrites the oldest change: samples from before the second oldest have to be read by then. */
static void add_step(struct target *t, int64_t since, double scale)
{
	struct target_rate *r = &t->sampling.rate;
	const struct rate_step *second = &r->steps[(r->n_steps + 1) % RATE_STEPS];
	if (r->n_steps >= RATE_STEPS && second->since > t->engine->rates.drained)
		engine_drain(t->engine, false);
	t->sampling.changed = true;
	r->steps[r->n_steps++ % RATE_STEPS] = (struct rate_step){since, scale};
}

/* --- longer periods ------------------------------------------------------------------------------------ */

/* Sets all rungs of a ladder, so that the next one that counts has the same period. */
static int set_periods(struct target *t, double factor)
{
	int r = 0;
	for (struct open_event *st = t->events.list; r == 0 && st; st = st->next_of_target) {
		uint64_t period = sample_rate_period(t->desc.events[st->spec].period, factor);
		bool waits = offcpu_turns(&t->desc, st->spec);
		if (st->role == PERF_SAMPLES && !waits && ioctl(st->fd, PERF_EVENT_IOC_PERIOD, &period) < 0)
			r = -errno;
	}
	return r;
}

/* --- intervals ----------------------------------------------------------------------------------------- */

/* Switches the events that count; of a ladder that is one rung. */
static int switch_events(struct target *t, unsigned long how)
{
	int r = 0;
	for (struct open_event *st = t->events.list; st; st = st->next_of_target) {
		bool waits = offcpu_turns(&t->desc, st->spec);
		bool counts = st->role == PERF_SAMPLES && (!st->rung || st->rung == t->events.dump_sizes[st->spec].at);
		if (counts && !waits && ioctl(st->fd, how, 0) < 0)
			r = -errno;
	}
	return r;
}

static void switch_to(struct target *t, bool on)
{
	int64_t cpu = clock_cpu();
	int r = switch_events(t, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE);
	if (r < 0)
		log_line(LOG_ERR, "target=%s outcome=not_switched on=%d reason=\"%s\"", t->desc.id, on, strerror(-r));
	cpu = clock_cpu() - cpu;
	t->sampling.rate.intervals.cost += (cpu - t->sampling.rate.intervals.cost) / 4;
	t->sampling.rate.intervals.off = !on;
}

/* 0.5 to 1.5 */
static double random_part(struct rate_control *all)
{
	uint64_t x = all->random ? all->random : 88172645463325252ull;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	all->random = x;
	return 0.5 + (double)(x >> 11) / (double)(1ull << 53);
}

/* Returns the length of an interval with samples, of a cycle that is long enough to pay for switching. */
static double length_on(const struct target *t)
{
	const struct target_rate *r = &t->sampling.rate;
	int64_t cycle = 2 * r->intervals.cost * CYCLE_COSTS * t->engine->rates.n_switched;
	int64_t least = (int64_t)(CYCLE_NS * r->factor / CYCLE_FACTOR);
	cycle = cycle < least ? least : cycle;
	cycle = cycle < CYCLE_NS ? CYCLE_NS : cycle > CYCLE_MAX_NS ? CYCLE_MAX_NS : cycle;
	double on = (double)cycle / r->factor;
	return on < ON_NS ? ON_NS : on;
}

static double clamp_value(double value, double least, double most)
{
	return value < least ? least : value > most ? most : value;
}

static void begin_interval(struct target *t)
{
	struct target_rate *r = &t->sampling.rate;
	int64_t now = clock_now();
	if (r->intervals.off) {
		r->intervals.rest -= (double)(now - r->intervals.since);
		switch_to(t, true);
	}
	r->intervals.since = now;
	r->intervals.next = now + (int64_t)length_on(t);
}

/*
 * The worker wakes up late where CPUs are busy: an interval that was longer than intended has a longer pause, and vice
 * versa.
 */
static void end_interval(struct target *t)
{
	struct target_rate *r = &t->sampling.rate;
	int64_t now = clock_now();
	double pause = length_on(t) * (r->factor - 1);
	r->intervals.rest += (double)(now - r->intervals.since) * (r->factor - 1);
	r->intervals.rest = clamp_value(r->intervals.rest, pause / 4, pause * 4);
	switch_to(t, false);
	r->intervals.since = now;
	r->intervals.next = now + (int64_t)(r->intervals.rest * random_part(&t->engine->rates));
}

/*
 * Reads the CPU time of all its threads: all of it, by its side-band, which is always on, and the part that its first
 * clock counted while that was on. False: not available.
 */
static bool read_clocks(const struct target *t, uint64_t *ret_ran, uint64_t *ret_counted)
{
	uint32_t clock = 0;
	bool known = false;
	while (clock < t->desc.n_events && event_kind(t->desc.events[clock].kind)->measure != MEASURES_CPU)
		clock++;
	*ret_ran = *ret_counted = 0;
	for (struct open_event *st = t->events.list; st; st = st->next_of_target) {
		uint64_t value[2] = {0};
		bool ran = st->role == PERF_SIDEBAND && st->layout.flags & LAYOUT_RUNNING;
		bool counts = st->role == PERF_SAMPLES && st->spec == clock;
		if ((!ran && !counts) || fd_read_all(st->fd, value, sizeof(value)) <= 0)
			continue;
		known |= ran;
		*(ran ? ret_ran : ret_counted) += value[ran];
	}
	return known && clock < t->desc.n_events;
}

/* Reads the target's CPU time since the last look, and the counted part of it. False: not known. */
static bool look_at_clocks(struct target *t, double *ret_all, double *ret_part)
{
	struct target_rate *r = &t->sampling.rate;
	uint64_t ran, counted;
	bool known = read_clocks(t, &ran, &counted);
	*ret_all = (double)(ran - r->intervals.ran);
	*ret_part = (double)(counted - r->intervals.counted);
	r->intervals.ran = ran;
	r->intervals.counted = counted;
	return known;
}

/* Begins with the stretch that held before, as far as it is known. */
static void begin_scale(struct target *t, int64_t now)
{
	struct target_rate *r = &t->sampling.rate;
	double all, part;
	look_at_clocks(t, &all, &part);
	if (r->intervals.stretch <= 0)
		r->intervals.stretch = 1;
	r->intervals.owed = r->intervals.second = 0;
	add_step(t, now, r->factor * r->intervals.stretch);
}

/*
 * Sets the scale of samples from now on. It is not the share of the time but the time that the target ran, divided by
 * the time that its clock counted while it was on. Where the samples of the last second were worth too little or too
 * much, those of the next one make up for it.
 */
static void fit_scale(struct target *t, int64_t now, double all, double part)
{
	struct target_rate *r = &t->sampling.rate;
	double most = 4 * r->factor;
	r->intervals.owed += all - sample_rate_scale(r, now) * part;
	r->intervals.second += (part - r->intervals.second) / (r->intervals.second > 0 ? 4 : 1);
	if (part > 0)
		r->intervals.stretch += (all / part / r->factor - r->intervals.stretch) / 4;
	double scale = r->factor * r->intervals.stretch;
	if (r->intervals.second > 0)
		scale += r->intervals.owed / r->intervals.second;
	add_step(t, now, clamp_value(scale, 1, most));
}

static void set_intervals(struct target *t, double factor)
{
	struct target_rate *r = &t->sampling.rate;
	if (factor == 1) {
		t->engine->rates.n_switched -= r->intervals.on;
		if (r->intervals.off)
			switch_to(t, true);
		r->intervals.on = false;
		add_step(t, clock_now(), 1);
		return;
	}
	if (!r->intervals.on) {
		t->engine->rates.n_switched++;
		r->intervals.on = true;
		r->intervals.rest = 0;
		begin_interval(t);
	} else if (r->intervals.off) { /* a pause that was intended for a higher factor ends sooner */
		int64_t longest = clock_now() + (int64_t)(1.5 * length_on(t) * (factor - 1));
		r->intervals.next = r->intervals.next < longest ? r->intervals.next : longest;
	}
	begin_scale(t, clock_now());
}

/* --- lowering ------------------------------------------------------------------------------------------ */

static void set_factor(struct target *t, double factor)
{
	int r = 0;
	t->sampling.rate.factor = factor;
	switch (sampling_rate_way(&t->sampling)) {
	case RATE_PERIOD:
		r = set_periods(t, factor);
		add_step(t, clock_now(), factor); /* samples taken meanwhile were begun before */
		break;
	case RATE_DUTY_CYCLE:
		set_intervals(t, factor);
		break;
	case RATE_DROP_SAMPLES:
		add_step(t, clock_now(), (double)(uint32_t)(factor + 0.95));
		break;
	}
	if (r < 0)
		log_line(LOG_ERR, "target=%s outcome=rate_not_set reason=\"%s\"", t->desc.id, strerror(-r));
}

static void record_factor(struct target *t)
{
	struct target_rate *r = &t->sampling.rate;
	if (r->factor > r->most)
		r->most = r->factor;
	r->by_cap |= rate_cap_factor(&r->cap) > 1;
	r->by_budget |= r->factor > 1 && cpu_budget_factor(&t->engine->rates.allowance) > 1;
}

static void say_cap(const struct target *t, double had)
{
	const struct rate_limits *l = &t->engine->rates.limits;
	double has = rate_cap_factor(&t->sampling.rate.cap);
	if (had == 1 && has > 1)
		log_line(engine_peer_level(t->engine),
			"target=%s name=\"%s\" outcome=capped rate=1/%.1f way=\"%s\" reason=\"more than "
			"target_rate=%llu "
			"samples or target_bytes=%llu a second\"",
			t->desc.id, t->desc.name, has, target_rate_way_name(t), (unsigned long long)l->samples,
			(unsigned long long)l->bytes);
	else if (had > 1 && has == 1)
		log_line(engine_peer_level(t->engine), "target=%s name=\"%s\" outcome=uncapped was=1/%.1f", t->desc.id,
			t->desc.name, had);
}

/*
 * Returns by how much sampling was lowered since the last look. For intervals this is not the intended factor: where
 * they are few, or the program works in bursts, they see more of it or less.
 */
static double was_lowered(struct target *t, int64_t now)
{
	struct target_rate *r = &t->sampling.rate;
	double all, part;
	if (sampling_rate_way(&t->sampling) ==
		RATE_DROP_SAMPLES) /* the samples that are left out have come all the same */
		return 1;
	if (!r->intervals.on || !look_at_clocks(t, &all, &part))
		return r->factor > 1 ? r->factor : 1;
	fit_scale(t, now, all, part);
	return part > 0 && all > part ? all / part : r->factor;
}

static void look_at(struct target *t, int64_t now, int64_t span)
{
	struct target_rate *r = &t->sampling.rate;
	double had = rate_cap_factor(&r->cap), in_effect = r->factor > 1 ? r->factor : 1;
	rate_cap_look(&r->cap, &t->engine->rates.limits, span, r->samples, r->bytes, was_lowered(t, now));
	r->samples = r->bytes = 0;
	say_cap(t, had);
	double factor = rate_cap_factor(&r->cap) * cpu_budget_factor(&t->engine->rates.allowance);
	if (factor != in_effect) {
		target_counts_rate(t);
		set_factor(t, factor);
	}
	record_factor(t);
}

/* --- the whole service --------------------------------------------------------------------------------- */

static void say_budget(const struct engine *g, double had)
{
	const struct rate_control *r = &g->rates;
	double has = cpu_budget_factor(&r->allowance);
	const struct cpu_budget_cost spent = cpu_budget_minute(&r->allowance);
	log_line(engine_peer_level(g),
		"outcome=%s rate=1/%.1f was=1/%.1f spent=%.2fs sampling=%.2fs reason=\"cpu_budget is %.2f s a "
		"minute\"",
		has > had ? "rates_lowered"
		: has > 1 ? "rates_raised"
			  : "rates_restored",
		has, had, (double)(spent.sampling + spent.other) / NSEC_PER_SEC, (double)spent.sampling / NSEC_PER_SEC,
		(double)r->allowed * CPU_BUDGET_SECONDS / NSEC_PER_SEC);
}

void target_rate_look(struct engine *g, int64_t now)
{
	struct rate_control *all = &g->rates;
	int64_t span = now - all->looked;
	if (g->role.single || span < LOOK_NS)
		return;
	double had = cpu_budget_factor(&all->allowance);
	bool first = !all->looked;
	const struct cpu_budget_cost spent = sample_rate_spent(all);
	all->looked = now;
	if (first) { /* it is not known since when these records were counted */
		for (struct target *t = g->targets; t; t = t->next)
			t->sampling.rate.samples = t->sampling.rate.bytes = 0;
		return;
	}
	if (cpu_budget_look(&all->allowance, (unsigned)((span + LOOK_NS / 2) / LOOK_NS), &spent, all->allowed))
		say_budget(g, had);
	for (struct target *t = g->targets; t; t = t->next)
		if (t->sampling.started && !t->ending)
			look_at(t, now, span);
}

bool target_rate_have_room(const struct engine *g)
{
	return g->role.single || cpu_budget_has_room(&g->rates.allowance, g->rates.allowed);
}

int target_rate_round(struct engine *g, int64_t now)
{
	int64_t next = INT64_MAX;
	if (!g->rates.n_switched)
		return -1;
	for (struct target *t = g->targets; t; t = t->next) {
		struct target_rate *r = &t->sampling.rate;
		if (!r->intervals.on || t->ending)
			continue;
		if (now >= r->intervals.next)
			r->intervals.off ? begin_interval(t) : end_interval(t);
		next = r->intervals.next < next ? r->intervals.next : next;
	}
	if (next == INT64_MAX)
		return -1;
	now = clock_now();
	return next <= now ? 0 : (int)((next - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC);
}

bool target_rate_paused(const struct target *t)
{
	return t->sampling.rate.intervals.off;
}

bool target_rate_ran(const struct target *t, uint64_t *ret)
{
	uint64_t counted;
	bool known = sampling_rate_way(&t->sampling) == RATE_DUTY_CYCLE && read_clocks(t, ret, &counted);
	return known && t->sampling.rate.most > 1;
}

double target_rate_stands_for(const struct target *t)
{
	return sampling_rate_way(&t->sampling) == RATE_DUTY_CYCLE && t->sampling.rate.factor > 1
		       ? t->sampling.rate.factor
		       : 1;
}

void target_rate_next_window(struct target *t)
{
	t->sampling.rate.most = 0;
	t->sampling.rate.by_cap = t->sampling.rate.by_budget = false;
	record_factor(t);
}

void target_rate_resume(struct target *t)
{
	struct target_rate *r = &t->sampling.rate;
	double factor = r->factor > 1 ? r->factor : 1;
	if (sampling_rate_way(&t->sampling) == RATE_DUTY_CYCLE) {
		r->intervals.on = false;
		r->intervals.off = true; /* or so it may be: enabling an enabled event does no harm */
		set_intervals(t, 1);
	}
	set_factor(t, factor);
}

void target_rate_release(struct target *t)
{
	t->engine->rates.n_switched -= t->sampling.rate.intervals.on;
	t->sampling.rate.intervals.on = false;
}

void target_rate_use(struct engine *g, const struct settings *set)
{
	struct rate_control *r = &g->rates;
	r->limits = (struct rate_limits){set->limits.target_rate, set->limits.target_bytes};
	/* cpu_budget: thousandths of a per cent of the machine; allowed: ns a second, of all CPUs */
	r->allowed = (uint64_t)set->limits.cpu_budget * (NSEC_PER_SEC / 100000) *
		     (g->perf.rings ? cpu_rings_count(g->perf.rings) : 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_counts.h"

#include "oci/base/clock.h"
#include "profiler/target/target_rate.h"
#include "profiler/target/window.h"

static bool is_inherited(const struct target *t)
{
	return t->desc.strategy != STRATEGY_CGROUP;
}

static bool is_inherited_clock(const struct target *t, uint32_t spec)
{
	return is_inherited(t) && event_kind(t->desc.events[spec].kind)->measure == MEASURES_CPU;
}

static uint64_t choose_smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t subtract_saturating(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/*
 * Returns the part of `missing` that the kernel counted and no profiler took from the rings, because the profiler was
 * killed and had not committed it. `missing` is without a sample, whatever the reason: of CPU time, no more than could
 * run meanwhile. Where kernel time is counted but not sampled, it is missing all the time: then at most as much as in
 * the rest of the window, in proportion.
 */
static uint64_t while_restarting(const struct target *t, uint32_t spec, uint64_t missing)
{
	const struct sample_tally *y = &t->sampling.tally;
	uint64_t span = (uint64_t)(clock_now() - t->sampling.window_mono), rest = subtract_saturating(span, y->gap);
	if (!y->restarts || !missing)
		return 0;
	if (event_kind(t->desc.events[spec].kind)->measure != MEASURES_CPU)
		return missing;
	missing = choose_smaller(missing, y->gap * cpu_rings_count(t->engine->perf.rings));
	if (!t->desc.kernel && rest)
		missing = choose_smaller(missing, (uint64_t)((double)y->weight[spec] * (double)y->gap / (double)rest));
	return missing;
}

/* Reads every event of a kind: its count since the last read, in ns or as it is, and its lost samples. */
static void read_events(
	struct target *t, uint32_t spec, struct target_kernel *k, uint64_t *ret_counted, uint64_t *ret_lost)
{
	*ret_counted = *ret_lost = 0;
	for (struct open_event *st = t->events.list; st; st = st->next_of_target) {
		struct event_reading now;
		if (st->role != PERF_SAMPLES || st->spec != spec || !event_counts_read(st, &now))
			continue;
		*ret_counted += now.value - st->value_seen;
		*ret_lost += now.lost - st->lost_seen;
		k->enabled += now.enabled - st->enabled_seen;
		k->running += now.running - st->running_seen;
		k->lost_known |= (st->layout.flags & LAYOUT_LOST) != 0;
		event_counts_store(st, &now);
	}
}

/*
 * Where sampling is lowered by intervals (profiler/sample/sample_rate.h), the kernel counts only while events are on:
 * its count, and each lost sample, stand for as much as the samples at the same rate do on average.
 */
static void ask_events(struct target *t, uint32_t spec)
{
	struct target_kernel *k = &t->window.kernel[spec];
	const struct sample_tally *y = &t->sampling.tally;
	uint64_t counted, lost, period = t->desc.events[spec].period;
	uint64_t weight = y->weight[spec] - k->weight_then, taken = y->taken[spec] - k->taken_then;
	uint64_t seen = y->counted[spec] - k->counted_then;
	read_events(t, spec, k, &counted, &lost);
	k->counted += event_counts_scaled(counted, seen ? (double)weight / (double)seen : target_rate_stands_for(t));
	k->lost += lost;
	k->lost_weight += event_counts_scaled(lost, taken ? (double)weight / (double)taken : (double)period);
	k->weight_then = y->weight[spec];
	k->taken_then = y->taken[spec];
	k->counted_then = y->counted[spec];
	t->saved.streams = t->sampling.changed = true;
}

void target_counts_rate(struct target *t)
{
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		ask_events(t, i);
}

static uint64_t mean_weight(const struct target *t, uint32_t spec)
{
	uint64_t taken = t->sampling.tally.taken[spec];
	return taken ? t->sampling.tally.weight[spec] / taken : t->desc.events[spec].period;
}

static uint64_t worth_saying(uint64_t missing, uint64_t weight, uint64_t of)
{
	return missing < 10 * weight || missing < of / 200 ? 0 : missing;
}

/*
 * With more events than the CPU has counters, each counts for a part of the time. Where each thread has one event for
 * each CPU, all of them are enabled while it runs on one (kernel/events/core.c, __perf_update_times).
 */
static void scale_up(const struct target *t, struct event_totals *k, uint64_t enabled, uint64_t running)
{
	const unsigned cpus = is_inherited(t) && t->engine->perf.rings ? cpu_rings_count(t->engine->perf.rings) : 1;
	const double had = enabled ? (double)running / ((double)enabled / cpus) : 1;
	k->had_counter = had < 1 ? had : 1;
	if (k->had_counter <= 0 || k->had_counter >= EVENT_COUNTS_ALWAYS)
		return;
	k->correct = 1 / k->had_counter;
	k->counted = event_counts_scaled(k->counted, k->correct);
	k->lost_weight = event_counts_scaled(k->lost_weight, k->correct);
	k->unsampled = event_counts_scaled(k->unsampled, k->correct);
	k->unseen = event_counts_scaled(k->unseen, k->correct);
}

/*
 * Accounts for CPU time of the processes that no sample stands for: threads that ended before they were seen, or
 * blocked all signals. A lost sample stands for the mean weight.
 */
static void ask_apps(const struct target *t, uint32_t spec, struct event_totals *ret)
{
	const struct sample_tally *y = &t->sampling.tally;
	const uint64_t seen = y->weight[spec], weight = mean_weight(t, spec),
		       missing = subtract_saturating(y->apps_cpu, seen);
	*ret = (struct event_totals){.lost_known = true, .counted = y->apps_cpu, .correct = 1, .had_counter = 1};
	ret->lost = y->inproc_lost;
	ret->lost_weight = choose_smaller(missing, ret->lost * weight);
	ret->unsampled = missing - ret->lost_weight;
	if (ret->unsampled < t->desc.events[spec].period || ret->unsampled < ret->counted / 200)
		ret->unsampled = 0;
}

/*
 * Inherited events begin a period with every thread, on every CPU, so a thread that ends before its first sample has
 * none: many short threads would be missing without notice. The kernel's count has them all. (Under `cgroup` one event
 * covers all threads.)
 */
static void ask_kernel(struct target *t, uint32_t spec, struct event_totals *ret)
{
	struct target_kernel *k = &t->window.kernel[spec];
	uint64_t seen = t->sampling.tally.weight[spec], weight = mean_weight(t, spec);
	if (event_kind(t->desc.events[spec].kind)->measure == MEASURES_OFFCPU ||
		event_is_of_app(&t->desc.events[spec])) { /* its own account is complete */
		*ret = (struct event_totals){.lost_known = true, .correct = 1, .had_counter = 1};
		return;
	}
	if (t->desc.strategy == STRATEGY_TIMERS) {
		ask_apps(t, spec, ret);
		return;
	}
	ask_events(t, spec);
	*ret = (struct event_totals){.lost_known = k->lost_known,
		.lost = k->lost,
		.lost_weight = k->lost_weight,
		.counted = k->counted,
		.correct = 1};
	const uint64_t enabled = k->enabled, running = k->running;
	*k = (struct target_kernel){0};
	if (!ret->lost_known) {
		ret->lost = t->sampling.tally.lost;
		ret->lost_weight = ret->lost * weight;
	}
	uint64_t missing = subtract_saturating(ret->counted, seen);
	if (is_inherited_clock(t, spec)) /* under `threads` lost records may be side-band: they stand for no time */
		ret->lost_weight = choose_smaller(ret->lost_weight, missing);
	missing = subtract_saturating(missing, ret->lost_weight);
	ret->unseen = while_restarting(t, spec, subtract_saturating(missing, t->sampling.tally.before_weight[spec]));
	missing -= ret->unseen;
	if (is_inherited(t))
		ret->unsampled = worth_saying(missing, weight, ret->counted);
	scale_up(t, ret, enabled, running);
}

/* Splits the CPU time that the target used: lost samples by number, the others by weight. */
static void settle_all(const struct target *t, uint32_t spec, struct event_totals *k, uint64_t all)
{
	uint64_t seen = t->sampling.tally.weight[spec], taken = t->sampling.tally.taken[spec];
	k->lost_weight = event_counts_scaled(all, (double)k->lost / (double)(k->lost + taken));
	k->unseen = choose_smaller(k->unseen, all - k->lost_weight);
	k->correct = (double)(all - k->lost_weight - k->unseen) / (double)seen;
	k->unsampled = 0;
	k->counted = all;
}

/*
 * A clock counts kernel code also where that is not sampled (kernel/events/core.c, perf_swevent_hrtimer: the sample is
 * left out, the count goes on). So the count tells whether samples stand for too much or too little, and the rest is
 * kernel code.
 */
static void settle_user(const struct target *t, uint32_t spec, struct event_totals *k, uint64_t all)
{
	uint64_t seen = t->sampling.tally.weight[spec], weight = mean_weight(t, spec);
	k->correct = (double)all / (double)k->counted;
	k->lost_weight = event_counts_scaled(k->lost_weight, k->correct);
	k->unseen = event_counts_scaled(k->unseen, k->correct);
	k->counted = all;
	uint64_t there = event_counts_scaled(seen, k->correct) + k->lost_weight + k->unseen;
	k->unsampled = worth_saying(subtract_saturating(all, there), weight, all);
}

/*
 * Samples of intervals stand for the target's CPU time as far as it was known when they were taken. The CPU time that
 * the target used in this window is known now.
 */
static void settle_weights(struct target *t, struct window *w)
{
	uint64_t ran = 0, then = t->window.ran_then;
	bool known = target_rate_ran(t, &ran);
	t->window.ran_then = ran ? ran : then;
	for (uint32_t i = 0; known && ran > then && i < t->desc.n_events; i++) {
		struct event_totals *k = &w->kernel[i];
		if (!is_inherited_clock(t, i) || !t->sampling.tally.weight[i] ||
			!(k->lost + t->sampling.tally.taken[i]))
			continue;
		if (t->desc.kernel)
			settle_all(t, i, k, ran - then);
		else if (k->counted)
			settle_user(t, i, k, ran - then);
	}
}

void target_counts_window(struct target *t, struct window *w)
{
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		ask_kernel(t, i, &w->kernel[i]);
	settle_weights(t, w);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/offcpu/offcpu_method.h"

#include "oci/base/clock.h"
#include "profiler/sample/sample_stack.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_FRAMES (1 + WAIT_CALLERS + 1)
#define SETS_MAX 1024 /* sets of labels of a target */
#define PAUSE_NS (200 * NSEC_PER_MSEC)

static struct stack_frame make_special_frame(const char *name)
{
	return (struct stack_frame){.kind = FRAME_SPECIAL, .name = name};
}

/* Writes frames, leaf first, and returns their number. */
static size_t frames_of(
	struct offcpu *o, struct process *p, const struct wait_total *part, struct stack_frame ret[PLACE_FRAMES])
{
	static const char *const names[] = {
		[WAIT_NOWHERE] = frame_nowhere, [WAIT_SHORT] = frame_short, [WAIT_LOST] = frame_lost};
	if (part->kind != WAIT_PLACE) {
		ret[0] = make_special_frame(names[part->kind]);
		return 1;
	}
	size_t n = 0;
	ret[n++] = sample_stack_frame(p, part->at.ip, false, o->sampling->jit_room);
	for (size_t i = 0; i < WAIT_CALLERS && part->at.callers[i]; i++)
		ret[n++] = sample_stack_frame(p, part->at.callers[i], true, o->sampling->jit_room);
	ret[n++] = make_special_frame(frame_not_sampled);
	return n;
}

static bool on_told(void *arg, const struct wait_total *part)
{
	struct offcpu *o = arg;
	struct stack_frame own[PLACE_FRAMES];
	if (!o->sampling->started)
		return true;
	/* a process that ran in this window exists, whether or not records told of it */
	struct process *p = part->idle ? process_table_known(o->sampling->processes, part->pid)
				       : process_table_get(o->sampling->processes, part->pid);
	if (!p)
		return false;
	if (part->idle && !o->sampling->desc->events[o->spec].idle) {
		o->sampling->tally.idle++;
		o->sampling->tally.idle_ns += part->ns;
		return true;
	}
	bool sampled = part->kind == WAIT_STACK;
	size_t n = sampled ? part->n : frames_of(o, p, part, own);
	struct sample_origin who = {part->pid, part->tid, p->comm, process_table_thread_name(p, part->tid), p->exe,
		part->at.labels ? o->labels.items[part->at.labels - 1].data : NULL};
	p->sampled = true;
	aggregate_add(o->sampling->counts[o->spec], sampled ? part->frames : own, n, &who, part->count, part->ns);
	return true;
}

bool offcpu_turns(const struct target_desc *d, uint32_t spec)
{
	const bool waits = event_kind(d->events[spec].kind)->measure == MEASURES_OFFCPU;
	return waits && (d->strategy == STRATEGY_CGROUP || d->kernel);
}

int offcpu_new(const struct offcpu_owner *owner, struct offcpu **ret)
{
	const struct target_desc *d = owner->sampling->desc;
	uint32_t spec = 0;
	while (spec < d->n_events && event_kind(d->events[spec].kind)->measure != MEASURES_OFFCPU)
		spec++;
	struct offcpu *o = spec < d->n_events ? calloc(1, sizeof(*o)) : NULL;
	*ret = NULL;
	if (!o)
		return spec < d->n_events ? -ENOMEM : 0;
	o->owner = *owner;
	o->sampling = owner->sampling;
	o->spec = spec;
	o->time = o->time_before = (struct offcpu_time){.until = INT64_MAX, .scale = 1, .clock_scale = 1};
	o->way = d->strategy == STRATEGY_CGROUP ? &offcpu_by_turns : &offcpu_by_switches;
	int r = wait_times_new(d->events[spec].min_us * 1000ull, owner->tables, on_told, o, &o->waits);
	*ret = r < 0 ? offcpu_free(o) : o;
	return r;
}

struct offcpu *offcpu_free(struct offcpu *o)
{
	if (!o)
		return NULL;
	offcpu_close(o);
	wait_times_free(o->waits);
	string_table_done(&o->labels);
	free(o);
	return NULL;
}

void offcpu_close(struct offcpu *o)
{
	if (!o)
		return;
	free(o->cpus);
	o->cpus = NULL;
	o->n_cpus = 0;
}

size_t offcpu_memory(const struct offcpu *o)
{
	return o ? wait_times_memory(o->waits) : 0;
}

/* --- time ------------------------------------------------------------------------------------------------- */

uint64_t offcpu_scaled(uint64_t from, int64_t span, double scale)
{
	return from + (uint64_t)(scale == 1 ? span : (int64_t)(scale * (double)span));
}

static uint64_t time_by(const struct offcpu_time *time, int64_t real)
{
	int64_t behind = real > time->until ? real - time->until : 0;
	return offcpu_scaled(time->from, real - behind - time->since, time->scale) + (uint64_t)behind;
}

/* Records that are read after a change may be from before it. */
uint64_t offcpu_time_of(const struct offcpu *o, int64_t real)
{
	return time_by(real >= o->time.since ? &o->time : &o->time_before, real);
}

void offcpu_adopt(struct offcpu *o, uint32_t pid, uint32_t tid)
{
	if (o)
		wait_times_born(o->waits, pid, tid, offcpu_time_of(o, clock_now()));
}

/* --- for both ways ---------------------------------------------------------------------------------------- */

double offcpu_factor(const struct offcpu *o)
{
	return o->sampling->rate.factor > 1 ? o->sampling->rate.factor : 1;
}

double offcpu_asked_for(const struct offcpu *o)
{
	return (double)NSEC_PER_SEC / (double)o->sampling->desc->events[o->spec].period *
	       cpu_rings_count(*o->owner.rings) / offcpu_factor(o);
}

double offcpu_most(const struct offcpu *o)
{
	return OFFCPU_SWITCHES / offcpu_factor(o);
}

int64_t offcpu_about(struct offcpu *o, double ns)
{
	o->random = o->random * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)(ns * (0.5 + (double)(o->random >> 33) / (double)(1u << 31)));
}

double offcpu_a_second(uint64_t n, int64_t span)
{
	return (double)n * (double)NSEC_PER_SEC / (double)(span > 0 ? span : 1);
}

/* At most a tenth of the target's life: a thread that ends in a pause has no record of its end. */
int64_t offcpu_pause_most(struct offcpu *o, int64_t now, double ns)
{
	double most = (double)(now - o->sampling->began) / 10, longest = PAUSE_NS * offcpu_factor(o);
	longest = longest < NSEC_PER_SEC ? longest : NSEC_PER_SEC;
	most = most < longest ? most : longest;
	return offcpu_about(o, ns < most ? ns : most);
}

double offcpu_catch_up(double behind, double in, double least, double most)
{
	double scale = in > 0 ? 1 + behind / in : most;
	return scale < least ? least : scale < most ? scale : most;
}

void offcpu_note_cost(struct offcpu *o, int64_t cost)
{
	o->cost = o->cost ? o->cost : cost;
	int64_t most = 2 * o->cost; /* else the worker had to wait for a CPU */
	o->cost += ((cost < most ? cost : most) - o->cost) / 8;
}

void offcpu_enter(struct offcpu *o, enum offcpu_phase phase, int64_t now, int64_t in, uint64_t from, double scale,
	double clock_scale)
{
	if (o->phase == OFFCPU_PAUSE)
		o->sampling->tally.unrecorded += (uint64_t)(now - o->looked);
	o->before = o->phase;
	o->phase = phase;
	o->time_before = o->time;
	o->time = (struct offcpu_time){now, phase == OFFCPU_SMALL ? now + in : INT64_MAX, from, scale, clock_scale};
	o->switches = o->check.switches = 0;
	o->check.woken = false;
	o->looked = now;
	o->look = in;
	o->until = now + in;
	offcpu_note_cost(o, clock_now() - now);
}

uint64_t offcpu_labels(struct offcpu *o, const struct record *r)
{
	struct string_table *all = &o->labels;
	const char *text = o->owner.ops->labels(o->owner.target, r);
	if (!*text)
		return 0;
	const size_t size = strlen(text) + 1;
	const int64_t n =
		all->count < SETS_MAX ? string_table_add(all, text, size) : string_table_find(all, text, size);
	return n < 0 ? 0 : (uint64_t)n + 1;
}

/* Waits under way may still use labels; they lose them. */
static void shed_labels(struct offcpu *o)
{
	if (o->labels.count < SETS_MAX / 2)
		return;
	wait_times_unlabel(o->waits);
	string_table_done(&o->labels);
}

struct wait_at offcpu_place(struct offcpu *o, const struct record *r, bool counts)
{
	const struct record_sample *s = &r->sample;
	const struct process *p =
		counts && s->has_regs && r->pid ? process_table_find(o->sampling->processes, r->pid) : NULL;
	struct wait_at at = {0};
	if (s->has_regs)
		at = (struct wait_at){.ip = s->regs.r[UNWIND_IP], .sp = s->regs.r[UNWIND_SP]};
	if (p) {
		sample_stack_callers(o->sampling->unwind, p, s, at.callers, WAIT_CALLERS);
		at.labels = offcpu_labels(o, r);
	}
	return at;
}

/* --- the beginning ---------------------------------------------------------------------------------------- */

void offcpu_arm(struct offcpu *o)
{
	if (o)
		o->way->arm(o);
}

void offcpu_begin(struct offcpu *o)
{
	if (!o)
		return;
	wait_times_forget(o->waits);
	o->way->begin(o);
}

static void adopt_again(void *arg, uint32_t pid, uint32_t tid)
{
	offcpu_adopt(arg, pid, tid);
}

static void gap_until(struct offcpu *o, int64_t real)
{
	const uint64_t time = offcpu_time_of(o, real);
	wait_times_gap(o->waits, 0, WAIT_TIMES_ALL_CPUS, time, time);
}

/* By switch records: the next record of each thread tells whether it runs or waits. */
static void adopt_all(struct offcpu *o)
{
	process_table_each_thread(o->sampling->processes, adopt_again, o);
	if (o->way == &offcpu_by_switches)
		gap_until(o, clock_now());
}

void offcpu_attached(struct offcpu *o)
{
	if (!o)
		return;
	o->way->begin(o);
	adopt_all(o); /* from now on, however long it took to find all */
}

void offcpu_resume(struct offcpu *o)
{
	if (!o)
		return;
	wait_times_forget(o->waits);
	o->way->resume(o);
	adopt_all(o);
}

/* --- rounds ----------------------------------------------------------------------------------------------- */

static void correct_waits(struct offcpu *o)
{
	if (o->way->correct)
		o->way->correct(o);
}

int64_t offcpu_woken(struct offcpu *o, int64_t now)
{
	return o && o->sampling->started ? o->way->woken(o, now) : INT64_MAX;
}

int offcpu_round(struct offcpu *o, int64_t now)
{
	if (!o || !o->sampling->started)
		return -1;
	/* not before all records of the last phase are read: only the times of two phases are kept */
	if (o->sampling->rates->drained > o->time.since)
		o->way->look(o);
	if (now - o->told >= NSEC_PER_SEC) {
		o->told = now;
		correct_waits(o);
		wait_times_report(o->waits);
	}
	int64_t left = o->check.woken ? 0 : o->until - now;
	return left > 0 ? (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 1;
}

int offcpu_call(struct offcpu *o)
{
	return o && o->way->call ? o->way->call(o) : 0;
}

void offcpu_call_now(struct offcpu *o)
{
	for (int left; (left = offcpu_call(o)) > 0;)
		poll(NULL, 0, left);
}

/* --- records ---------------------------------------------------------------------------------------------- */

void offcpu_record(
	struct offcpu *o, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n)
{
	if (o)
		o->way->record(o, st, r, frames, n);
}

void offcpu_lost(struct offcpu *o, uint64_t count, uint32_t cpu, int64_t time)
{
	if (o && o->way->lost)
		o->way->lost(o, count, cpu, time);
}

/*
 * A thread that was born before the beginning, but is reported after it, may be on a CPU by now: its next record tells.
 */
static void add_thread(struct offcpu *o, const struct record *r, uint64_t time)
{
	struct wait_times *w = o->waits;
	const bool before = (int64_t)r->time < o->sampling->began && o->way == &offcpu_by_switches;
	wait_times_born(w, r->pid, r->tid, before ? offcpu_time_of(o, o->sampling->began) : time);
	if (before)
		gap_until(o, o->sampling->began);
}

void offcpu_sideband(struct offcpu *o, const struct record *r)
{
	if (!o)
		return;
	struct wait_times *w = o->waits;
	const uint64_t time = offcpu_time_of(o, (int64_t)r->time);
	if (r->type == PERF_RECORD_EXIT)
		wait_times_exit(w, r->tid, r->cpu, time);
	else if (r->type == PERF_RECORD_FORK && o->sampling->started)
		add_thread(o, r, time);
	else if (r->type == PERF_RECORD_COMM && r->comm.exec)
		wait_times_exec(w, r->pid, r->tid);
}

/* --- windows ---------------------------------------------------------------------------------------------- */

/* More than half of the memory for all targets' tables is used. */
static bool is_tight(const struct offcpu *o)
{
	const struct memory_limit *room = o->owner.tables;
	return *o->owner.early || (room->max && room->used > room->max / 2);
}

void offcpu_end(struct offcpu *o)
{
	if (!o)
		return;
	size_t n = 0;
	struct wait_clock none, *clocks = calloc(o->n_cpus + 1, sizeof(*clocks));
	int64_t now = clock_now();
	if (o->phase == OFFCPU_PAUSE) {
		o->sampling->tally.unrecorded += (uint64_t)(now - o->looked);
		o->looked = now;
	}
	if (clocks && o->way->clocks)
		n = o->way->clocks(o, now, clocks);
	correct_waits(o);
	if (o->way == &offcpu_by_switches && o->owner.ops->has_ended(o->owner.target))
		wait_times_over(o->waits);
	wait_times_end(o->waits, offcpu_time_of(o, now), clocks ? clocks : &none, n);
	if (is_tight(o))
		wait_times_compact(o->waits);
	shed_labels(o);
	o->sampling->tally.wait_times_lost = wait_times_lost(o->waits) - o->lost_told;
	o->lost_told += o->sampling->tally.wait_times_lost;
	free(clocks);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/offcpu/offcpu_method.h"

#include "oci/base/clock.h"
#include "profiler/inproc/inproc.h"
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
	struct target *t, struct process *p, const struct wait_total *part, struct stack_frame ret[PLACE_FRAMES])
{
	static const char *const names[] = {
		[WAIT_NOWHERE] = frame_nowhere, [WAIT_SHORT] = frame_short, [WAIT_LOST] = frame_lost};
	if (part->kind != WAIT_PLACE) {
		ret[0] = make_special_frame(names[part->kind]);
		return 1;
	}
	size_t n = 0;
	ret[n++] = sample_stack_frame(p, part->at.ip, false, &t->engine->jit_room);
	for (size_t i = 0; i < WAIT_CALLERS && part->at.callers[i]; i++)
		ret[n++] = sample_stack_frame(p, part->at.callers[i], true, &t->engine->jit_room);
	ret[n++] = make_special_frame(frame_not_sampled);
	return n;
}

static bool on_told(void *arg, const struct wait_total *part)
{
	struct target *t = arg;
	struct stack_frame own[PLACE_FRAMES];
	if (!t->started)
		return true;
	/* a process that ran in this window exists, whether or not records told of it */
	struct process *p =
		part->idle ? process_table_known(t->tasks, part->pid) : process_table_get(t->tasks, part->pid);
	if (!p)
		return false;
	if (part->idle && !t->desc.events[t->offcpu.spec].idle) {
		t->tally.idle++;
		t->tally.idle_ns += part->ns;
		return true;
	}
	bool sampled = part->kind == WAIT_STACK;
	size_t n = sampled ? part->n : frames_of(t, p, part, own);
	struct sample_origin who = {part->pid, part->tid, p->comm, process_table_thread_name(p, part->tid), p->exe,
		part->at.labels ? t->offcpu.labels.items[part->at.labels - 1].data : NULL};
	p->sampled = true;
	aggregate_add(t->counts[t->offcpu.spec], sampled ? part->frames : own, n, &who, part->count, part->ns);
	return true;
}

bool offcpu_turns(const struct target *t, uint32_t spec)
{
	const bool waits = event_kind(t->desc.events[spec].kind)->measure == MEASURES_OFFCPU;
	return waits && (t->desc.strategy == STRATEGY_CGROUP || t->desc.kernel);
}

int offcpu_new(struct target *t)
{
	const struct target_desc *d = &t->desc;
	uint32_t i = 0;
	while (i < d->n_events && event_kind(d->events[i].kind)->measure != MEASURES_OFFCPU)
		i++;
	t->offcpu.spec = i;
	t->offcpu.time = t->offcpu.time_before = (struct offcpu_time){.until = INT64_MAX, .scale = 1, .clock_scale = 1};
	if (i == d->n_events)
		return 0;
	int r = wait_times_new(d->events[i].min_us * 1000ull, &t->engine->tables, on_told, t, &t->offcpu.waits);
	t->offcpu.way = d->strategy == STRATEGY_CGROUP ? &offcpu_by_turns : &offcpu_by_switches;
	t->engine->n_offcpu += r == 0;
	return r;
}

void offcpu_free(struct target *t)
{
	t->engine->n_offcpu -= t->offcpu.waits != NULL;
	t->offcpu.waits = wait_times_free(t->offcpu.waits);
	string_table_done(&t->offcpu.labels);
}

void offcpu_close(struct target *t)
{
	free(t->offcpu.cpus);
	t->offcpu.cpus = NULL;
	t->offcpu.n_cpus = 0;
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

void offcpu_adopt(struct target *t, uint32_t pid, uint32_t tid)
{
	if (t->offcpu.waits)
		wait_times_born(t->offcpu.waits, pid, tid, offcpu_time_of(&t->offcpu, clock_now()));
}

/* --- for both ways ---------------------------------------------------------------------------------------- */

double offcpu_factor(const struct target *t)
{
	return t->rate.factor > 1 ? t->rate.factor : 1;
}

double offcpu_asked_for(const struct target *t)
{
	return (double)NSEC_PER_SEC / (double)t->desc.events[t->offcpu.spec].period *
	       cpu_rings_count(t->engine->rings) / offcpu_factor(t);
}

double offcpu_most(const struct target *t)
{
	return OFFCPU_SWITCHES / offcpu_factor(t);
}

int64_t offcpu_about(struct target *t, double ns)
{
	t->offcpu.random = t->offcpu.random * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)(ns * (0.5 + (double)(t->offcpu.random >> 33) / (double)(1u << 31)));
}

double offcpu_a_second(uint64_t n, int64_t span)
{
	return (double)n * (double)NSEC_PER_SEC / (double)(span > 0 ? span : 1);
}

/* At most a tenth of the target's life: a thread that ends in a pause has no record of its end. */
int64_t offcpu_pause_most(struct target *t, int64_t now, double ns)
{
	double most = (double)(now - t->began) / 10, longest = PAUSE_NS * offcpu_factor(t);
	longest = longest < NSEC_PER_SEC ? longest : NSEC_PER_SEC;
	most = most < longest ? most : longest;
	return offcpu_about(t, ns < most ? ns : most);
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

void offcpu_enter(struct target *t, enum offcpu_phase phase, int64_t now, int64_t in, uint64_t from, double scale,
	double clock_scale)
{
	struct offcpu *o = &t->offcpu;
	if (o->phase == OFFCPU_PAUSE)
		t->tally.unrecorded += (uint64_t)(now - o->looked);
	o->before = o->phase;
	o->phase = phase;
	o->time_before = o->time;
	o->time = (struct offcpu_time){now, phase == OFFCPU_SMALL ? now + in : INT64_MAX, from, scale, clock_scale};
	o->switches = o->switches_then = 0;
	o->woken = false;
	o->looked = now;
	o->look = in;
	o->until = now + in;
	offcpu_note_cost(o, clock_now() - now);
}

uint64_t offcpu_labels(struct target *t, const struct record *r)
{
	struct string_table *all = &t->offcpu.labels;
	const char *text = inproc_labels(t->apps, r->pid, r->tid, r->time);
	if (!*text)
		return 0;
	const size_t size = strlen(text) + 1;
	const int64_t n =
		all->count < SETS_MAX ? string_table_add(all, text, size) : string_table_find(all, text, size);
	return n < 0 ? 0 : (uint64_t)n + 1;
}

/* Waits under way may still use labels; they lose them. */
static void shed_labels(struct target *t)
{
	if (t->offcpu.labels.count < SETS_MAX / 2)
		return;
	wait_times_unlabel(t->offcpu.waits);
	string_table_done(&t->offcpu.labels);
}

struct wait_at offcpu_place(struct target *t, const struct record *r, bool counts)
{
	const struct record_sample *s = &r->sample;
	const struct process *p = counts && s->has_regs && r->pid ? process_table_find(t->tasks, r->pid) : NULL;
	struct wait_at at = {0};
	if (s->has_regs)
		at = (struct wait_at){.ip = s->regs.r[UNWIND_IP], .sp = s->regs.r[UNWIND_SP]};
	if (p) {
		sample_stack_callers(t->engine->unwind, p, s, at.callers, WAIT_CALLERS);
		at.labels = offcpu_labels(t, r);
	}
	return at;
}

/* --- the beginning ---------------------------------------------------------------------------------------- */

void offcpu_arm(struct target *t)
{
	if (t->offcpu.waits)
		t->offcpu.way->arm(t);
}

void offcpu_begin(struct target *t)
{
	if (!t->offcpu.waits)
		return;
	wait_times_forget(t->offcpu.waits);
	t->offcpu.way->begin(t);
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
static void adopt_all(struct target *t)
{
	struct offcpu *o = &t->offcpu;
	process_table_each_thread(t->tasks, adopt_again, t);
	if (o->way == &offcpu_by_switches)
		gap_until(o, clock_now());
}

void offcpu_attached(struct target *t)
{
	if (!t->offcpu.waits)
		return;
	t->offcpu.way->begin(t);
	adopt_all(t); /* from now on, however long it took to find all */
}

void offcpu_resume(struct target *t)
{
	struct wait_times *w = t->offcpu.waits;
	if (!w)
		return;
	wait_times_forget(w);
	t->offcpu.way->resume(t);
	adopt_all(t);
}

/* --- rounds ----------------------------------------------------------------------------------------------- */

static void correct_waits(struct target *t)
{
	if (t->offcpu.way->correct)
		t->offcpu.way->correct(t);
}

int64_t offcpu_woken(struct target *t, int64_t now)
{
	return t->offcpu.waits && t->started && !t->ending ? t->offcpu.way->woken(t, now) : INT64_MAX;
}

int offcpu_round(struct target *t, int64_t now)
{
	struct offcpu *o = &t->offcpu;
	if (!o->waits || !t->started)
		return -1;
	/* not before all records of the last phase are read: only the times of two phases are kept */
	if (t->engine->rates.drained > o->time.since)
		o->way->look(t);
	if (now - o->told >= NSEC_PER_SEC) {
		o->told = now;
		correct_waits(t);
		wait_times_report(o->waits);
	}
	int64_t left = o->woken ? 0 : o->until - now;
	return left > 0 ? (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 1;
}

int offcpu_call(struct target *t)
{
	return t->offcpu.waits && t->offcpu.way->call ? t->offcpu.way->call(t) : 0;
}

void offcpu_call_now(struct target *t)
{
	for (int left; (left = offcpu_call(t)) > 0;)
		poll(NULL, 0, left);
}

/* --- records ---------------------------------------------------------------------------------------------- */

void offcpu_record(
	struct target *t, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n)
{
	if (t->offcpu.waits)
		t->offcpu.way->record(t, st, r, frames, n);
}

void offcpu_lost(struct target *t, uint64_t count, uint32_t cpu, int64_t time)
{
	if (t->offcpu.waits && t->offcpu.way->lost)
		t->offcpu.way->lost(t, count, cpu, time);
}

/*
 * A thread that was born before the beginning, but is reported after it, may be on a CPU by now: its next record tells.
 */
static void add_thread(struct target *t, const struct record *r, uint64_t time)
{
	struct wait_times *w = t->offcpu.waits;
	const bool before = (int64_t)r->time < t->began && t->offcpu.way == &offcpu_by_switches;
	wait_times_born(w, r->pid, r->tid, before ? offcpu_time_of(&t->offcpu, t->began) : time);
	if (before)
		gap_until(&t->offcpu, t->began);
}

void offcpu_sideband(struct target *t, const struct record *r)
{
	struct wait_times *w = t->offcpu.waits;
	uint64_t time = offcpu_time_of(&t->offcpu, (int64_t)r->time);
	if (!w)
		return;
	if (r->type == PERF_RECORD_EXIT)
		wait_times_exit(w, r->tid, r->cpu, time);
	else if (r->type == PERF_RECORD_FORK && t->started)
		add_thread(t, r, time);
	else if (r->type == PERF_RECORD_COMM && r->comm.exec)
		wait_times_exec(w, r->pid, r->tid);
}

/* --- windows ---------------------------------------------------------------------------------------------- */

/* More than half of the memory for all targets' tables is used. */
static bool is_tight(const struct target *t)
{
	const struct memory_limit *room = &t->engine->tables;
	return t->early || (room->max && room->used > room->max / 2);
}

void offcpu_end(struct target *t)
{
	struct offcpu *o = &t->offcpu;
	size_t n = 0;
	struct wait_clock none, *clocks = o->waits ? calloc(o->n_cpus + 1, sizeof(*clocks)) : NULL;
	if (!o->waits)
		return;
	int64_t now = clock_now();
	if (o->phase == OFFCPU_PAUSE) {
		t->tally.unrecorded += (uint64_t)(now - o->looked);
		o->looked = now;
	}
	if (clocks && o->way->clocks)
		n = o->way->clocks(t, now, clocks);
	correct_waits(t);
	if (t->ending && t->offcpu.way == &offcpu_by_switches && target_has_ended(t))
		wait_times_over(o->waits);
	wait_times_end(o->waits, offcpu_time_of(o, now), clocks ? clocks : &none, n);
	if (is_tight(t))
		wait_times_compact(o->waits);
	shed_labels(t);
	t->tally.wait_times_lost = wait_times_lost(o->waits) - o->lost_told;
	o->lost_told += t->tally.wait_times_lost;
	free(clocks);
}

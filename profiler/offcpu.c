#include "profiler/offcpu.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/stack.h"
#include "profiler/target.h"
#include "profiler/waits.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#define SPECIALS 2
#define FEW_FOR 4		      /* times as many switches as stacks were asked for are few */
#define LOOK_NS (100 * NSEC_PER_MSEC) /* while they are few */
#define FIRST_NS (20 * NSEC_PER_MSEC) /* until it is known whether they are many */
#define TURN_NS (2 * NSEC_PER_MSEC)   /* of stacks, while they are many */
#define REST_NS (10 * NSEC_PER_SEC)   /* the longest between two turns */
#define TURN_STACKS 12		      /* of each CPU: three quarters of a ring */

static struct frame special(const char *name)
{
	return (struct frame){.kind = FRAME_SPECIAL, .name = name};
}

/* Leaf first; how many. */
static size_t frames_of(struct target *t, struct task *p, const struct wait_part *part, struct frame ret[SPECIALS])
{
	static const char *const names[] = {
		[WAIT_NOWHERE] = frame_nowhere, [WAIT_SHORT] = frame_short, [WAIT_LOST] = frame_lost};
	if (part->kind != WAIT_PLACE) {
		ret[0] = special(names[part->kind]);
		return 1;
	}
	ret[0] = stack_frame(p, part->ip, &t->engine->jit_room);
	ret[1] = special(frame_not_sampled);
	return 2;
}

static void on_told(void *arg, const struct wait_part *part)
{
	struct target *t = arg;
	struct frame own[SPECIALS];
	struct task *p = t->started ? tasks_get(t->tasks, part->pid) : NULL;
	if (!p)
		return;
	if (part->idle && !t->desc.events[t->offcpu.spec].idle) {
		t->tally.idle++;
		t->tally.idle_ns += part->ns;
		return;
	}
	bool sampled = part->kind == WAIT_STACK;
	size_t n = sampled ? part->n : frames_of(t, p, part, own);
	struct who who = {part->pid, part->tid, p->comm, tasks_thread_name(p, part->tid), p->exe};
	p->sampled = true;
	aggregate_add(t->counts[t->offcpu.spec], sampled ? part->frames : own, n, &who, part->count, part->ns);
}

int offcpu_new(struct target *t)
{
	const struct target_desc *d = &t->desc;
	uint32_t i = 0;
	while (i < d->n_events && event_kind(d->events[i].kind)->measure != MEASURES_WAITS)
		i++;
	t->offcpu.spec = i;
	return i < d->n_events
		       ? waits_new(d->events[i].min_us * 1000ull, &t->engine->tables, on_told, t, &t->offcpu.waits)
		       : 0;
}

void offcpu_free(struct target *t)
{
	t->offcpu.waits = waits_free(t->offcpu.waits);
}

void offcpu_adopt(struct target *t, uint32_t pid, uint32_t tid)
{
	if (t->offcpu.waits)
		waits_born(t->offcpu.waits, pid, tid, (uint64_t)clock_now());
}

/* --- the roll call ---------------------------------------------------------------------------------------- */

static void switch_seen(struct target *t, unsigned long how)
{
	for (struct stream *st = t->streams; st; st = st->next_of_target)
		if (st->role == PERF_SEEN)
			ioctl(st->fd, how, 0); /* on a CPU that is gone nobody runs */
}

int offcpu_call(struct target *t, int64_t now)
{
	if (!t->offcpu.waits)
		return 0;
	if (!t->offcpu.called) {
		t->offcpu.called = now;
		switch_seen(t, PERF_EVENT_IOC_ENABLE);
	}
	int64_t left = t->offcpu.called + OFFCPU_CALL_MS * NSEC_PER_MSEC - now;
	if (left > 0)
		return (int)(left / NSEC_PER_MSEC) + 1;
	switch_seen(t, PERF_EVENT_IOC_DISABLE);
	t->offcpu.called = 0;
	engine_drain(t->engine, true);
	return 0;
}

/* --- turns ------------------------------------------------------------------------------------------------ */

static struct stream *partner(const struct target *t, const struct stream *like, enum perf_role role)
{
	struct stream *st = t->streams;
	while (st && !(st->role == role && (st->spec == like->spec || role == PERF_SIDEBAND) && st->cpu == like->cpu))
		st = st->next_of_target;
	return st;
}

static void read_event(const struct stream *st, uint64_t ret[2])
{
	ret[0] = ret[1] = 0;
	if (st)
		fd_read_all(st->fd, ret, 2 * sizeof(ret[0]));
}

/*
 * So that no more stacks are on their way than a ring has room for: behind the last one the event switches itself off,
 * until there are more. Nobody records then: that is told by the clock.
 */
static void allow(struct stream *st, const uint64_t own[2])
{
	if (st->allowed < own[0]) /* of a predecessor's we know nothing */
		st->allowed = own[0];
	uint64_t left = st->allowed - own[0], more = left < TURN_STACKS ? TURN_STACKS - left : 0;
	if (more)
		ioctl(st->fd, PERF_EVENT_IOC_REFRESH, (unsigned long)more);
	else
		ioctl(st->fd, PERF_EVENT_IOC_ENABLE, 0);
	st->allowed += more;
}

/*
 * For a few microseconds nobody records. The target's clock of that CPU is the side-band's, which is always on: how
 * long threads ran is right in all, whatever was not recorded.
 */
static void pass_turn(struct target *t, struct stream *from, struct stream *to)
{
	uint64_t theirs[2], own[2], all[2];
	ioctl(from->fd, PERF_EVENT_IOC_DISABLE, 0);
	read_event(from, theirs);
	read_event(to, own);
	read_event(partner(t, to, PERF_SIDEBAND), all);
	to->base_before = to->base;
	to->base = (struct stream_base){clock_now(), theirs[0] + from->base.count - own[0], all[1] - own[1]};
	t->offcpu.took += from->role == PERF_SAMPLES ? theirs[0] - from->turn : 0;
	to->turn = own[0];
	if (to->role == PERF_SAMPLES)
		allow(to, own);
	else
		ioctl(to->fd, PERF_EVENT_IOC_ENABLE, 0);
}

/* True: one had none left, so somebody may have gone off since without a record. */
static bool allow_more(struct target *t)
{
	bool spent = false;
	for (struct stream *st = t->streams; st; st = st->next_of_target) {
		uint64_t own[2];
		if (st->role != PERF_SAMPLES || st->spec != t->offcpu.spec)
			continue;
		read_event(st, own);
		spent |= own[0] >= st->allowed;
		if (own[0] < st->allowed)
			allow(st, own);
	}
	return spent;
}

/* The side-band's clock has run for longer. */
void offcpu_arm(struct target *t)
{
	for (struct stream *st = t->streams; t->offcpu.waits && st; st = st->next_of_target) {
		uint64_t own[2], all[2];
		if (st->role != PERF_WAITS)
			continue;
		read_event(st, own);
		read_event(partner(t, st, PERF_SIDEBAND), all);
		st->base.ran = all[1] > own[1] ? all[1] - own[1] : 0;
	}
}

static void take_turns(struct target *t, bool stacks)
{
	enum perf_role from = stacks ? PERF_WAITS : PERF_SAMPLES, to = stacks ? PERF_SAMPLES : PERF_WAITS;
	for (struct stream *st = t->streams; st; st = st->next_of_target) {
		struct stream *other = st->spec == t->offcpu.spec && st->role == to ? partner(t, st, from) : NULL;
		if (other)
			pass_turn(t, other, st);
	}
	t->offcpu.stacks = stacks;
	t->offcpu.in_turn = 0;
}

/* Of a stream's clock and the others'. Records of before the last turn may be read behind it. */
static const struct stream_base *base_of(const struct stream *st, int64_t time)
{
	return time >= st->base.since ? &st->base : &st->base_before;
}

static double asked_for(const struct target *t)
{
	return (double)NSEC_PER_SEC / (double)t->desc.events[t->offcpu.spec].period * rings_count(t->engine->rings);
}

/* By chance 0.5 to 1.5 of it, lest it keeps step with the program. */
static int64_t about(struct target *t, double ns)
{
	t->offcpu.random = t->offcpu.random * 6364136223846793005ull + 1442695040888963407ull;
	return (int64_t)(ns * (0.5 + (double)(t->offcpu.random >> 33) / (double)(1u << 31)));
}

static void look_again(struct target *t, int64_t now, int64_t in)
{
	t->offcpu.switches = 0;
	t->offcpu.looked = now;
	t->offcpu.until = now + in;
}

/* For a stack of each. */
static bool are_few(const struct target *t, int64_t now)
{
	double span = (double)(now - t->offcpu.looked) / NSEC_PER_SEC;
	return (double)t->offcpu.switches <= span * FEW_FOR * asked_for(t);
}

static void end_stacks(struct target *t, int64_t now)
{
	t->offcpu.took = 0;
	take_turns(t, false);
	double rest = (double)t->offcpu.took / asked_for(t) * NSEC_PER_SEC;
	rest = rest < REST_NS ? rest : REST_NS;
	look_again(t, now, t->offcpu.all ? FIRST_NS : about(t, rest > TURN_NS ? rest : TURN_NS));
}

static void end_rest(struct target *t, int64_t now)
{
	t->offcpu.all = are_few(t, now);
	take_turns(t, true);
	look_again(t, now, t->offcpu.all ? LOOK_NS : TURN_NS);
}

/* By the account of its cgroup. */
static void correct(struct target *t)
{
	uint64_t truly = target_cpu_usage(t) * 1000, ran = 0, value[2];
	for (struct stream *st = t->streams; truly && st; st = st->next_of_target)
		if (st->role == PERF_SIDEBAND) {
			read_event(st, value);
			ran += value[1];
		}
	if (truly)
		waits_correct(t->offcpu.waits, truly, ran);
}

int offcpu_round(struct target *t, int64_t now)
{
	bool over = now >= t->offcpu.until;
	if (!t->offcpu.waits || !t->started)
		return -1;
	if (!t->offcpu.stacks) {
		if (over)
			end_rest(t, now);
	} else if (!t->offcpu.all) {
		if (over)
			end_stacks(t, now);
	} else if (over || t->offcpu.in_turn) {
		bool spent = allow_more(t);
		if (spent || (over && !are_few(t, now)))
			end_stacks(t, now);
		else if (over)
			look_again(t, now, LOOK_NS);
	}
	t->offcpu.in_turn = 0;
	if (now - t->offcpu.told >= NSEC_PER_SEC) {
		t->offcpu.told = now;
		correct(t);
		waits_tell(t->offcpu.waits);
	}
	int64_t left = t->offcpu.until - now;
	return left > 0 ? (int)((left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC) : 0;
}

void offcpu_begin(struct target *t)
{
	if (!t->offcpu.waits)
		return;
	waits_forget(t->offcpu.waits);
	look_again(t, clock_now(), FIRST_NS);
	correct(t);
}

void offcpu_resume(struct target *t)
{
	if (!t->offcpu.waits)
		return;
	waits_forget(t->offcpu.waits);
	waits_midway(t->offcpu.waits);
	switch_seen(t, PERF_EVENT_IOC_DISABLE);
	take_turns(t, false);
}

/* --- records ---------------------------------------------------------------------------------------------- */

void offcpu_record(
	struct target *t, const struct stream *st, const struct record *r, const struct frame *frames, size_t n)
{
	const struct record_sample *s = &r->sample;
	const struct stream_base *base = base_of(st, (int64_t)r->time);
	const uint64_t *reg = s->regs.r;
	const bool counts = t->started && (int64_t)r->time >= t->began;
	if (!t->offcpu.waits)
		return;
	if (st->role == PERF_SEEN) {
		waits_seen(t->offcpu.waits, r->tid, r->cpu, r->time);
		return;
	}
	if (counts && frames && s->has_regs)
		waits_stack(t->offcpu.waits, r->pid, r->tid, reg[UNWIND_IP], reg[UNWIND_SP], frames, n);
	/* of whom does not count there is the clock: how long others ran is told by it */
	waits_out(t->offcpu.waits, &(struct wait_out){.time = r->time,
					   .pid = r->pid,
					   .tid = counts ? r->tid : 0,
					   .cpu = (uint32_t)st->cpu,
					   .ip = s->has_regs ? reg[UNWIND_IP] : 0,
					   .sp = s->has_regs ? reg[UNWIND_SP] : 0,
					   .timed = true,
					   .count = s->value + base->count,
					   .ran = s->running + base->ran});
	t->offcpu.switches++;
	t->tally.switches += counts;
	t->tally.stacks += counts && frames;
	t->offcpu.in_turn += frames != NULL;
	if (t->offcpu.in_turn >= TURN_STACKS / 2) /* a look at whether there are too many */
		t->due = t->engine->due = 0;
}

void offcpu_sideband(struct target *t, const struct record *r)
{
	struct waits *w = t->offcpu.waits;
	if (!w)
		return;
	if (r->type == PERF_RECORD_EXIT)
		waits_exit(w, r->tid, r->cpu, r->time);
	else if (r->type == PERF_RECORD_FORK && t->started)
		waits_born(w, r->pid, r->tid, r->time);
	else if (r->type == PERF_RECORD_COMM && r->comm.exec)
		waits_exec(w, r->tid);
}

/* --- windows ---------------------------------------------------------------------------------------------- */

static size_t read_clocks(const struct target *t, struct wait_clock *ret, size_t max)
{
	size_t n = 0;
	for (struct stream *st = t->streams; st && n < max; st = st->next_of_target) {
		uint64_t value[2];
		bool counts = st->spec == t->offcpu.spec && st->role == (t->offcpu.stacks ? PERF_SAMPLES : PERF_WAITS);
		if (counts && fd_read_all(st->fd, value, sizeof(value)) == sizeof(value))
			ret[n++] = (struct wait_clock){(uint32_t)st->cpu, value[1] + st->base.ran};
	}
	return n;
}

void offcpu_end(struct target *t)
{
	struct wait_clock none, *clocks = calloc(t->n_announced + 1, sizeof(*clocks));
	size_t n = clocks && t->offcpu.waits ? read_clocks(t, clocks, t->n_announced) : 0;
	if (t->offcpu.called) /* it ends sooner than it was meant to */
		switch_seen(t, PERF_EVENT_IOC_DISABLE);
	t->offcpu.called = 0;
	if (t->offcpu.waits) {
		correct(t);
		waits_end(t->offcpu.waits, (uint64_t)clock_now(), clocks ? clocks : &none, n);
		t->tally.waits_lost = waits_lost(t->offcpu.waits) - t->offcpu.lost_told;
		t->offcpu.lost_told += t->tally.waits_lost;
	}
	free(clocks);
}

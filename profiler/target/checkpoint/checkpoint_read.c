/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/checkpoint/checkpoint_read.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/pair_table.h"
#include "profiler/inproc/inproc.h"
#include "profiler/sample/event_counts.h"
#include "profiler/target/target_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 65536

/* A target of the predecessor. */
struct ref {
	struct target *t;
	bool bad;   /* further entries are ignored */
	bool blank; /* its state was not saved */
};

/* The data that frames and processes refer to; paths lie in the journal. */
struct resume {
	struct engine *g;
	struct pair_table gone, targets, modules, jits; /* (number, 0) */
	struct pair_table code;				/* (of which target, module) */
	struct ref *refs;
	struct module_key *keys;
	struct jit **jit_list;	     /* referenced */
	struct module **module_list; /* as this target sees it; referenced, or NULL */
	size_t refs_room, keys_room, jits_room, modules_room;
	int64_t seen, now; /* CLOCK_MONOTONIC */
};

/* The target of the frames at hand. */
struct of {
	struct resume *r;
	struct target *t;
};

/* Adds a number and its place in a list; false: it is there already, or there is no memory. */
static bool add_pair(struct pair_table *numbers, void *list, size_t *room, size_t size, uint64_t a, uint64_t b)
{
	size_t had = numbers->count;
	return array_reserve(list, room, had + 1, size, 64) == 0 && pair_table_add(numbers, a, b) >= 0 &&
	       numbers->count > had;
}

static bool add_number(struct pair_table *numbers, void *list, size_t *room, size_t size, uint64_t number)
{
	return add_pair(numbers, list, room, size, number, 0);
}

static struct ref *find_ref(const struct resume *r, uint64_t serial)
{
	int64_t i = pair_table_find(&r->targets, serial, 0);
	return i < 0 ? NULL : &r->refs[i];
}

/* --- modules and code */

static void on_module(struct resume *r, struct journal_reader *s)
{
	struct module_key key;
	uint64_t number = saved_number(s);
	module_key_load(s, &key);
	if (!s->bad && add_number(&r->modules, &r->keys, &r->keys_room, sizeof(key), number))
		r->keys[r->modules.count - 1] = key;
}

static struct jit *find_jit(void *arg, uint64_t number)
{
	const struct of *of = arg;
	int64_t i = number ? pair_table_find(&of->r->jits, number, 0) : -ENOENT;
	return i < 0 ? NULL : of->r->jit_list[i];
}

static void on_jit(struct resume *r, struct journal_reader *s)
{
	struct jit *jit;
	uint64_t number = saved_number(s);
	uint32_t pid = (uint32_t)saved_below(s, 1ull << 32);
	struct jit *parent = find_jit(&(struct of){r, NULL}, saved_number(s));
	const char *path = saved_text(s, TEXT_MAX);
	uint64_t of = saved_number(s);
	if (s->bad || !number || jit_new(pid, path, parent, &r->g->symbols.jit_room, &jit) < 0)
		return;
	if (!add_number(&r->jits, &r->jit_list, &r->jits_room, sizeof(jit), number)) {
		jit_unref(jit);
		return;
	}
	r->jit_list[r->jits.count - 1] = jit;
	const struct ref *ref = of ? find_ref(r, of - 1) : NULL;
	if (!ref || !process_table_find(ref->t->sampling.processes, pid))
		return;
	struct process *p = process_table_get(ref->t->sampling.processes, pid);
	jit_unref(p->jit);
	p->jit = jit_ref(jit);
}

/* Its file is read when a sample needs it, or a window ends: there may be many, and the rings fill meanwhile. */
static int open_later(void *arg, const char *path, struct file *ret)
{
	return -EAGAIN;
}

/* Returns a borrowed module; finds each once, however many frames there are. */
static struct module *find_module(struct resume *r, struct target *t, uint64_t number)
{
	int64_t i = number ? pair_table_find(&r->modules, number, 0) : -ENOENT,
		known = pair_table_find(&r->code, t->serial, number);
	if (known >= 0)
		return r->module_list[known];
	if (i < 0 || !add_pair(&r->code, &r->module_list, &r->modules_room, sizeof(struct module *), t->serial, number))
		return NULL;
	struct module **m = &r->module_list[r->code.count - 1];
	if (target_module(t, &r->keys[i], open_later, m) < 0)
		*m = NULL;
	return *m;
}

static void find_code(void *arg, uint64_t number, struct stack_frame *f)
{
	struct of *of = arg;
	if (f->kind == FRAME_JIT)
		f->jit = find_jit(of, number);
	else
		f->module = find_module(of->r, of->t, number);
}

static void on_rates(struct resume *r, struct journal_reader *s)
{
	struct sample_rate_saved n;
	saved_numbers(s, (uint64_t *)&n, sizeof(n) / sizeof(uint64_t));
	if (!s->bad)
		sample_rate_restore_all(&r->g->rates, &n);
}

/* --- a target */

static struct target *find_target(struct engine *g, const char *id, uint64_t host_pid, uint64_t start_time)
{
	for (struct target *t = g->targets; t; t = t->next)
		if ((uint32_t)t->desc.host_pid == host_pid && t->desc.start_time == start_time &&
			!strcmp(t->desc.id, id))
			return t;
	return NULL;
}

static void on_target(struct resume *r, uint64_t serial, struct journal_reader *s)
{
	const char *id = saved_text(s, TEXT_MAX);
	uint64_t host_pid = saved_number(s), start_time = saved_number(s), plain = saved_number(s);
	struct target *t = s->bad ? NULL : find_target(r->g, id, host_pid, start_time);
	if (!t || t->saved.known || !add_number(&r->targets, &r->refs, &r->refs_room, sizeof(*r->refs), serial))
		return;
	t->saved.known = true; /* by one serial only */
	/* the saved state of a target that was quarantined since may be the cause */
	r->refs[r->targets.count - 1] = (struct ref){.t = t, .bad = t->sampling.quarantined && !plain};
}

/* Returns a time or a span, 0 if it is too large: sums must not overflow, even with a bad journal. */
static int64_t sanitize_time(uint64_t ns)
{
	return ns < 1ull << 61 ? (int64_t)ns : 0;
}

static void on_state(struct target *t, struct journal_reader *s)
{
	struct state n;
	struct sample_tally tally;
	uint64_t ladders[EVENTS_MAX];
	saved_numbers(s, (uint64_t *)&n, sizeof(n) / sizeof(uint64_t));
	saved_numbers(s, (uint64_t *)&tally, sizeof(tally) / sizeof(uint64_t));
	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		ladders[i] = saved_below(s, 2 * (PERF_RUNGS + 1));
	const char *last_profile = saved_text(s, sizeof(t->spool.last_profile) - 1);
	const char *notes = saved_text(s, sizeof(t->desc.notes) - 1);
	if (s->bad)
		return;
	t->sampling.started = n.started;
	t->window.real = sanitize_time(n.window_real);
	t->sampling.window_mono = sanitize_time(n.window_mono);
	t->window.seq = (unsigned)n.seq;
	t->sampling.samples = n.samples;
	t->sampling.cost = sanitize_time(n.cost);
	t->fs.maps_left = n.maps_left < t->fs.maps_left ? n.maps_left : t->fs.maps_left;
	t->window.past.lost = n.lost;
	t->window.past.throttled = n.throttled;
	t->usage.cpu_first = n.cpu_first;
	t->usage.cpu_last = n.cpu_last;
	t->born = sanitize_time(n.born);
	t->names.spent = sanitize_time(n.naming_spent);
	t->sampling.records = n.records;
	t->sampling.bytes = n.bytes;
	t->window.ran_then = n.ran_then;
	t->sampling.began = sanitize_time(n.began);
	sample_rate_restore(&t->sampling.rate, &n.rate);
	memcpy(t->window.kernel, n.kernel, sizeof(n.kernel));
	t->sampling.tally = tally;
	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		if (t->events.dump_sizes[i].size[ladders[i] >> 1] && ladders[i] >> 1 <= t->events.dump_sizes[i].top) {
			t->events.dump_sizes[i].at = (uint32_t)(ladders[i] >> 1);
			t->events.dump_sizes[i].rose = ladders[i] & 1;
		}
	snprintf(t->spool.last_profile, sizeof(t->spool.last_profile), "%s", last_profile);
	snprintf(t->desc.notes, sizeof(t->desc.notes), "%s", notes);
}

static void on_streams(struct resume *r, struct target *t, struct journal_reader *s)
{
	size_t n = saved_count(s, 6);
	for (size_t i = 0; i < n && !s->bad; i++) {
		uint64_t id = saved_number(s), lost = saved_number(s), value = saved_number(s);
		uint64_t enabled = saved_number(s), running = saved_number(s);
		int64_t off_since = sanitize_time(saved_number(s));
		struct open_event *st = open_events_find(r->g->perf.events, id);
		if (!s->bad && st && st->target == t) {
			st->lost_seen = lost;
			st->value_seen = value;
			st->enabled_seen = enabled;
			st->running_seen = running;
			st->off_since = off_since;
		}
	}
}

static void on_tasks(struct resume *r, struct target *t, struct journal_reader *s)
{
	if (target_tasks_new(t) < 0 ||
		process_table_restore(t->sampling.processes, s, find_jit, &(struct of){r, t}) < 0)
		s->bad = true;
}

/* The record has its size in itself; it is copied, because one in a journal is not aligned. */
static void on_replayed(struct target *t, struct journal_reader *s)
{
	_Alignas(8) uint8_t bytes[UINT16_MAX];
	struct perf_event_header h;
	size_t n;
	const uint8_t *at = saved_bytes(s, &n);
	s->bad |= n < sizeof(h) || n > sizeof(bytes);
	if (s->bad)
		return;
	memcpy(bytes, at, n);
	memcpy(&h, at, sizeof(h));
	s->bad |= h.size != n;
	if (!s->bad)
		target_replay(t, (const struct perf_event_header *)bytes);
}

/* Marks the processes that are in some profile by now. */
static void mark_sampled(struct target *t, const struct aggregate *a)
{
	struct aggregate_sample sample;
	for (size_t i = 0; i < aggregate_samples(a); i++) {
		aggregate_sample(a, i, &sample);
		if (sample.who.pid && process_table_find(t->sampling.processes, sample.who.pid))
			process_table_get(t->sampling.processes, sample.who.pid)->sampled = true;
	}
}

static void on_counts(struct resume *r, struct target *t, struct journal_reader *s)
{
	uint64_t i = saved_below(s, t->desc.n_events);
	if (s->bad || aggregate_load(t->sampling.counts[i], s, find_code, &(struct of){r, t}) < 0)
		s->bad = true;
}

static void read_window(struct window *w, struct journal_reader *s)
{
	struct window_state n;
	saved_numbers(s, (uint64_t *)&n, sizeof(n) / sizeof(uint64_t));
	saved_numbers(s, (uint64_t *)&w->tally, sizeof(w->tally) / sizeof(uint64_t));
	w->seq = (unsigned)n.seq;
	w->real = sanitize_time(n.real);
	w->duration = sanitize_time(n.duration);
	w->cpu_used = n.cpu_used;
	w->last = n.last;
	w->early = n.early;
	w->by_cap = n.by & 1;
	w->by_budget = n.by & 2;
	w->rate_most = sample_rate_double(n.rate_most, 0, 1e9);
	for (uint32_t i = 0; i < w->t->desc.n_events; i++) {
		struct kernel_state k;
		saved_numbers(s, (uint64_t *)&k, sizeof(k) / sizeof(uint64_t));
		w->kernel[i] = (struct event_totals){.lost_known = k.lost_known,
			.lost = k.lost,
			.lost_weight = k.lost_weight,
			.unsampled = k.unsampled,
			.counted = k.counted,
			.unseen = k.unseen,
			.correct = k.correct ? sample_rate_double(k.correct, 0, 1e9) : 1,
			.had_counter = sample_rate_double(k.had_counter, 0, 1)};
	}
	snprintf(w->uncovered, sizeof(w->uncovered), "%s", saved_text(s, sizeof(w->uncovered) - 1));
}

static void on_window(struct target *t, struct journal_reader *s)
{
	struct window *w = calloc(1, sizeof(*w));
	uint32_t got = 0, n = t->desc.n_events;
	if (!w) {
		s->bad = true;
		return;
	}
	w->t = t;
	read_window(w, s);
	while (!s->bad && got < n && window_counts(t, &w->counts[got]) == 0)
		got++;
	if (s->bad || got < n) {
		s->bad = true;
		for (uint32_t i = 0; i < got; i++)
			aggregate_free(w->counts[i]);
		free(w);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		struct aggregate *empty = w->counts[i];
		mark_sampled(t, t->sampling.counts[i]);
		w->counts[i] = t->sampling.counts[i];
		t->sampling.counts[i] = empty;
	}
	inproc_drop_live_heap(t->apps);
	window_restore(t, w);
}

/* The window is in the spool: drops it. */
static void on_written(struct target *t, struct journal_reader *s)
{
	unsigned seq = (unsigned)saved_number(s);
	struct window **at = &t->window.over, *w;
	while ((w = *at) && w->seq != seq)
		at = &w->next;
	if (s->bad || !w)
		return;
	*at = w->next;
	window_free(w);
}

static void forget_counts(struct target *t)
{
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		aggregate_clear(t->sampling.counts[i]);
	inproc_drop_live_heap(t->apps);
}

/* --- the journal */

static void on_target_entry(struct resume *r, uint32_t type, struct journal_reader *s)
{
	uint64_t serial = saved_number(s);
	if (pair_table_find(&r->gone, serial, 0) >= 0)
		return;
	if (type == ENTRY_TARGET) {
		on_target(r, serial, s);
		return;
	}
	struct ref *ref = find_ref(r, serial);
	if (!ref || ref->bad)
		return;
	struct target *t = ref->t;
	r->g->host.at->target = t->number; /* should this entry kill us */
	switch (type) {
	case ENTRY_STATE:
		on_state(t, s);
		break;
	case ENTRY_STREAMS:
		on_streams(r, t, s);
		break;
	case ENTRY_TASKS:
		on_tasks(r, t, s);
		break;
	case ENTRY_RECORD:
		on_replayed(t, s);
		break;
	case ENTRY_LOSSY:
		process_table_lossy(t->sampling.processes);
		break;
	case ENTRY_COUNTS:
		on_counts(r, t, s);
		break;
	case ENTRY_WINDOW:
		on_window(t, s);
		break;
	case ENTRY_WRITTEN:
		on_written(t, s);
		break;
	case ENTRY_HELD:
		inproc_load(t->apps, s);
		break;
	case ENTRY_BLANK:
		ref->blank = t->armed;
		break;
	}
	ref->bad = s->bad;
}

/* First finds the targets that are gone: another one may have come with the same name. */
static void find_gone(struct resume *r, struct journal_reader all)
{
	struct journal_reader s;
	uint32_t type;
	while (saved_next(&all, &type, &s))
		if (type == ENTRY_GONE)
			pair_table_add(&r->gone, saved_number(&s), 0);
}

static void read_all(struct resume *r, struct journal_reader all)
{
	struct journal_reader s;
	uint32_t type;
	while (saved_next(&all, &type, &s)) {
		if (type == ENTRY_MODULE)
			on_module(r, &s);
		else if (type == ENTRY_JIT)
			on_jit(r, &s);
		else if (type == ENTRY_RATES)
			on_rates(r, &s);
		else
			on_target_entry(r, type, &s);
	}
}

/* An event that was closed as superfluous (profiler/sample/event_dedup.h) comes again: its counts so far are accounted
 * already.
 */
static void read_unlisted(struct target *t)
{
	for (struct open_event *st = t->events.list; t->events.dedup && st; st = st->next_of_target) {
		if (!st->value_seen && st->role == PERF_SAMPLES)
			event_counts_rebase(st);
	}
}

static void resume_target(struct resume *r, struct ref *ref)
{
	struct target *t = ref->t;
	/* in a damaged journal it is unknown whether it has begun: its exec may be long past */
	if ((ref->blank || (ref->bad && t->armed)) && !t->sampling.started) {
		target_resume_blank(t);
		return;
	}
	if (ref->bad) {
		log_line(LOG_WARNING, "target=%s outcome=partly_lost reason=\"a damaged journal\"", t->desc.id);
		forget_counts(t);
		inproc_reset_counts(t->apps);
		process_table_lossy(t->sampling.processes);
	}
	if (t->sampling.window_mono > r->now)
		t->sampling.window_mono = r->now;
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		mark_sampled(t, t->sampling.counts[i]);
	if (t->sampling.started)
		read_unlisted(t);
	int64_t since = r->seen > t->sampling.window_mono ? r->seen : t->sampling.window_mono;
	target_resume(t, r->now > since ? r->now - since : 0);
}

static void free_resume(struct resume *r)
{
	for (size_t i = 0; i < r->jits.count; i++)
		jit_unref(r->jit_list[i]);
	for (size_t i = 0; i < r->code.count; i++)
		module_unref(r->module_list[i]);
	free(r->jit_list);
	free(r->module_list);
	pair_table_done(&r->code);
	free(r->keys);
	free(r->refs);
	pair_table_done(&r->gone);
	pair_table_done(&r->targets);
	pair_table_done(&r->modules);
	pair_table_done(&r->jits);
}

unsigned checkpoint_read(struct engine *g, struct journal_reader all, int64_t seen, int64_t now)
{
	struct resume r = {.g = g, .seen = seen, .now = now};
	find_gone(&r, all);
	read_all(&r, all);
	unsigned n = (unsigned)r.targets.count;
	for (unsigned i = 0; i < n; i++)
		resume_target(&r, &r.refs[i]);
	g->host.at->target = 0;
	free_resume(&r);
	return n;
}

unsigned checkpoint_resume(struct checkpoint *c, struct engine *g, int64_t now)
{
	uint8_t *bytes;
	size_t size;
	int64_t seen;
	unsigned n = 0;
	if (!checkpoint_waits(c))
		return 0;
	int r = checkpoint_contents(c, &bytes, &size, &seen);
	if (r == 0) {
		n = checkpoint_read(g, (struct journal_reader){.at = bytes, .end = bytes + size}, seen, now);
		free(bytes);
	}
	/* a detached target had begun, or it would not have been kept: an end not meant for it removed it */
	for (struct target *t = g->targets; t; t = t->next)
		if (t->armed && (r < 0 || (t->detached && !t->saved.known)))
			target_resume_blank(t);
	checkpoint_start(c, g, now);
	if (g->targets && r < 0)
		log_line(LOG_WARNING, "outcome=restarted_empty targets=%u reason=\"no journal: %s\"", g->n_targets,
			strerror(-r));
	else if (g->targets)
		log_line(LOG_WARNING, "outcome=resumed targets=%u of=%u gap_ms=%lld journal=%zu", n, g->n_targets,
			(long long)(seen > 0 && seen < now ? (now - seen) / NSEC_PER_MSEC : 0), size);
	return n;
}

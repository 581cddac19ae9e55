/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/checkpoint/checkpoint_write.h"

#include "oci/base/clock.h"
#include "oci/base/journal.h"
#include "oci/base/log.h"
#include "oci/base/pair_table.h"
#include "profiler/inproc/inproc.h"
#include "profiler/target/checkpoint/checkpoint_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROUND_NS (1 * NSEC_PER_SEC)
#define ROUND_FIRST_NS (50 * NSEC_PER_MSEC) /* after a restart: we may be killed again soon */
#define EARLY 10			    /* by one part of the interval earlier, at least */
#define AGAIN_NS (60 * NSEC_PER_SEC)	    /* state that did not fit may have shrunk */
#define TARGET_MAX (8u << 20)		    /* bytes of one target: beyond it, this target is left out, not another */
#define SNAPSHOT_MAX (24u << 20)	    /* of all: the rest is for the entries until the next one */
#define GROWTH (512u << 10)		    /* bytes beyond twice a snapshot until the next one */
#define JIT_PARENTS 8			    /* as many as are looked into (profiler/symbol/jit_symbols.c) */

_Static_assert(sizeof(struct sample_tally) % sizeof(uint64_t) == 0, "it is written as numbers");
#define TALLY_NUMBERS (sizeof(struct sample_tally) / sizeof(uint64_t))

struct checkpoint {
	struct journal *journal;
	bool resumed, off;	 /* off: it did not fit, the journal is invalid */
	size_t snapshot;	 /* bytes of the last one */
	unsigned left_out;	 /* targets left out of it */
	int64_t last, again;	 /* when counts were written; when a snapshot is tried again */
	int64_t round;		 /* from one time to the next */
	uint64_t rated;		 /* seconds of the budget that are saved */
	struct pair_table known; /* (kind, number): modules and code that are saved */
};

enum { KNOWN_MODULE, KNOWN_JIT };

int checkpoint_new(int a, int b, struct checkpoint **ret)
{
	struct journal *j;
	int r = journal_open_take(a, b, &j);
	struct checkpoint *c = r < 0 ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		if (r == 0)
			journal_close(j);
		return r < 0 ? r : -ENOMEM;
	}
	c->journal = j;
	*ret = c;
	return 0;
}

struct checkpoint *checkpoint_free(struct checkpoint *c)
{
	if (c) {
		pair_table_done(&c->known);
		journal_close(c->journal);
	}
	free(c);
	return NULL;
}

bool checkpoint_waits(const struct checkpoint *c)
{
	return c && !c->resumed;
}

uint64_t checkpoint_bytes(const struct checkpoint *c)
{
	return c ? journal_used(c->journal) : 0;
}

/* --- modules and code, which frames and processes refer to */

static bool is_new(struct checkpoint *c, uint64_t kind, uint64_t number)
{
	size_t had = c->known.count;
	return number && (pair_table_add(&c->known, kind, number) < 0 || c->known.count > had);
}

static void save_module(struct checkpoint *c, const struct module *m)
{
	struct journal *j = c->journal;
	if (!is_new(c, KNOWN_MODULE, module_id(m)))
		return;
	journal_begin(j, ENTRY_MODULE);
	journal_number(j, module_id(m));
	module_key_save(module_key(m), j);
	journal_end(j);
}

/* A process's current code is saved as its own: it was made when a sample came, and no record tells of it. */
static void save_one_jit(struct checkpoint *c, struct target *t, struct jit *jit)
{
	struct journal *j = c->journal;
	if (!is_new(c, KNOWN_JIT, jit_serial(jit)))
		return;
	const struct process *p = process_table_find(t->sampling.processes, jit_pid(jit));
	journal_begin(j, ENTRY_JIT);
	journal_number(j, jit_serial(jit));
	journal_number(j, jit_pid(jit));
	journal_number(j, jit_serial(jit_parent(jit)));
	journal_text(j, jit_dump_path(jit));
	journal_number(j, p && p->jit == jit ? t->serial + 1 : 0);
	journal_end(j);
}

/* Parents first. */
static void save_jit(struct checkpoint *c, struct target *t, struct jit *jit)
{
	struct jit *line[JIT_PARENTS];
	unsigned n = 0;
	for (; jit && n < JIT_PARENTS; jit = jit_parent(jit))
		line[n++] = jit;
	while (n)
		save_one_jit(c, t, line[--n]);
}

struct saving {
	struct checkpoint *c;
	struct target *t;
};

static void save_task_jit(void *arg, struct process *p)
{
	const struct saving *s = arg;
	save_jit(s->c, s->t, p->jit);
}

/* --- a target */

static void start_entry(struct checkpoint *c, const struct target *t, uint32_t type)
{
	journal_begin(c->journal, type);
	journal_number(c->journal, t->serial);
}

static void save_identity(struct checkpoint *c, struct target *t)
{
	struct journal *j = c->journal;
	if (t->saved.known)
		return;
	t->saved.known = true;
	start_entry(c, t, ENTRY_TARGET);
	journal_text(j, t->desc.id);
	journal_number(j, (uint32_t)t->desc.host_pid);
	journal_number(j, t->desc.start_time);
	journal_number(j, t->sampling.quarantined);
	journal_end(j);
}

static void save_state(struct checkpoint *c, struct target *t)
{
	struct journal *j = c->journal;
	struct state s = {
		.started = t->sampling.started,
		.window_real = (uint64_t)t->window.real,
		.window_mono = (uint64_t)t->sampling.window_mono,
		.seq = t->window.seq,
		.samples = t->sampling.samples,
		.cost = (uint64_t)t->sampling.cost,
		.maps_left = t->fs.maps_left,
		.lost = t->window.past.lost,
		.throttled = t->window.past.throttled,
		.cpu_first = t->usage.cpu_first,
		.cpu_last = t->usage.cpu_last,
		.born = (uint64_t)t->born,
		.naming_spent = (uint64_t)t->names.spent,
		.records = t->sampling.records,
		.bytes = t->sampling.bytes,
		.ran_then = t->window.ran_then,
		.began = (uint64_t)t->sampling.began,
	};
	sample_rate_save(&t->sampling.rate, &s.rate);
	memcpy(s.kernel, t->window.kernel, sizeof(s.kernel));
	start_entry(c, t, ENTRY_STATE);
	journal_numbers(j, (const uint64_t *)&s, sizeof(s) / sizeof(uint64_t));
	journal_numbers(j, (const uint64_t *)&t->sampling.tally, TALLY_NUMBERS);
	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		journal_number(j, (uint64_t)t->events.dump_sizes[i].at << 1 | t->events.dump_sizes[i].rose);
	journal_text(j, t->spool.last_profile);
	journal_text(j, t->desc.notes);
	journal_end(j);
}

static void save_streams(struct checkpoint *c, struct target *t)
{
	struct journal *j = c->journal;
	size_t n = 0;
	for (const struct open_event *st = t->events.list; st; st = st->next_of_target)
		n++;
	start_entry(c, t, ENTRY_STREAMS);
	journal_number(j, n);
	for (const struct open_event *st = t->events.list; st; st = st->next_of_target) {
		journal_number(j, st->id);
		journal_number(j, st->lost_seen);
		journal_number(j, st->value_seen);
		journal_number(j, st->enabled_seen);
		journal_number(j, st->running_seen);
		journal_number(j, (uint64_t)st->off_since);
	}
	journal_end(j);
	t->saved.streams = false;
}

static void save_tasks(struct checkpoint *c, struct target *t)
{
	process_table_each(t->sampling.processes, save_task_jit, &(struct saving){c, t});
	start_entry(c, t, ENTRY_TASKS);
	process_table_save(t->sampling.processes, c->journal);
	journal_end(c->journal);
	t->sampling.processes_changed = false;
}

static void save_counts(struct checkpoint *c, struct target *t, struct aggregate *const *counts)
{
	for (uint32_t i = 0; i < t->desc.n_events; i++) {
		struct aggregate *a = counts[i];
		if (!aggregate_changed(a))
			continue;
		for (size_t k = aggregate_unsaved(a); k < aggregate_frames(a); k++) {
			const struct stack_frame *f = aggregate_frame(a, (uint32_t)k);
			save_module(c, f->module);
			save_jit(c, t, f->jit);
		}
		start_entry(c, t, ENTRY_COUNTS);
		journal_number(c->journal, i);
		aggregate_save(a, c->journal);
		journal_end(c->journal);
	}
}

static void save_window(struct checkpoint *c, struct target *t, const struct window *w)
{
	struct journal *j = c->journal;
	const struct window_state s = {w->seq, (uint64_t)w->real, (uint64_t)w->duration, w->cpu_used, w->last, w->early,
		(w->by_cap ? 1 : 0) | (w->by_budget ? 2 : 0), sample_rate_bits(w->rate_most)};
	save_counts(c, t, w->counts);
	start_entry(c, t, ENTRY_WINDOW);
	journal_numbers(j, (const uint64_t *)&s, sizeof(s) / sizeof(uint64_t));
	journal_numbers(j, (const uint64_t *)&w->tally, TALLY_NUMBERS);
	for (uint32_t i = 0; i < t->desc.n_events; i++) {
		const struct event_totals *k = &w->kernel[i];
		const struct kernel_state n = {k->lost_known, k->lost, k->lost_weight, k->unsampled, k->counted,
			k->unseen, sample_rate_bits(k->correct), sample_rate_bits(k->had_counter)};
		journal_numbers(j, (const uint64_t *)&n, sizeof(n) / sizeof(uint64_t));
	}
	journal_text(j, w->uncovered);
	journal_end(j);
}

/* Saves the changes since the last time. */
static void save_changes(struct checkpoint *c, struct target *t)
{
	save_identity(c, t);
	if (t->sampling.processes_changed)
		save_tasks(c, t);
	save_counts(c, t, t->sampling.counts);
	inproc_save(t->apps, c->journal, ENTRY_HELD, t->serial);
	if (t->saved.streams)
		save_streams(c, t);
	save_state(c, t);
	t->sampling.changed = false;
}

static void save_anew(const struct target *t, struct aggregate *const *counts)
{
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		aggregate_save_anew(counts[i]);
}

static void save_parts(struct checkpoint *c, struct target *t)
{
	t->saved.known = t->saved.lossy = false;
	t->saved.streams = t->sampling.processes_changed = true;
	save_identity(c, t);
	for (struct window *w = t->window.over; w; w = w->next) {
		save_anew(t, w->counts);
		save_window(c, t, w);
	}
	save_anew(t, t->sampling.counts);
	inproc_save_anew(t->apps);
	save_changes(c, t);
}

/* Saves the whole target, or that it was left out. */
static void save_whole(struct checkpoint *c, struct target *t)
{
	size_t used = journal_used(c->journal), room = used < SNAPSHOT_MAX ? SNAPSHOT_MAX - used : 0;
	bool was = t->saved.left_out;
	journal_part(c->journal, room < TARGET_MAX ? room : TARGET_MAX);
	save_parts(c, t);
	t->saved.left_out = !journal_part_done(c->journal);
	if (!t->saved.left_out)
		return;
	c->left_out++;
	if (!was)
		log_line(LOG_WARNING,
			"target=%s outcome=no_checkpoint reason=\"it takes more than %zu "
			"MiB\"",
			t->desc.id, (room < TARGET_MAX ? room : TARGET_MAX) >> 20);
	pair_table_done(&c->known); /* some entries are gone with it; the others may come twice */
	t->saved.known = false;
	save_identity(c, t);
	start_entry(c, t, ENTRY_BLANK);
	journal_end(c->journal);
}

/* Saves the CPU budget spent by all targets and the lowered rates; without a bound nothing. */
static void save_rates(struct checkpoint *c, const struct engine *g)
{
	struct sample_rate_saved s;
	if (!g->rates.allowed || c->rated == g->rates.allowance.seconds)
		return;
	c->rated = g->rates.allowance.seconds;
	sample_rate_save_all(&g->rates, &s);
	journal_begin(c->journal, ENTRY_RATES);
	journal_numbers(c->journal, (const uint64_t *)&s, sizeof(s) / sizeof(uint64_t));
	journal_end(c->journal);
}

/* --- the journal */

/* An invalid journal is better than an outdated one: a successor then begins anew. */
static void give_up(struct checkpoint *c, int64_t now)
{
	journal_invalidate(c->journal);
	if (!c->off)
		log_line(LOG_WARNING, "outcome=no_checkpoint reason=\"it takes more than %zu MiB\"", JOURNAL_MAX >> 20);
	c->off = true;
	c->again = now + AGAIN_NS;
}

static void write_snapshot(struct checkpoint *c, struct engine *g, int64_t now)
{
	pair_table_done(&c->known);
	c->left_out = 0;
	c->again = now + AGAIN_NS;
	journal_snapshot(c->journal);
	c->rated = 0;
	save_rates(c, g);
	for (struct target *t = g->targets; t; t = t->next)
		save_whole(c, t);
	if (!journal_snapshot_done(c->journal, now)) {
		give_up(c, now);
		return;
	}
	c->off = false;
	c->last = now;
	c->snapshot = journal_used(c->journal);
}

static bool is_large(const struct checkpoint *c)
{
	return journal_used(c->journal) > 2 * c->snapshot + GROWTH;
}

static bool is_in(const struct checkpoint *c, const struct target *t)
{
	return c && c->resumed && !c->off && !t->saved.left_out;
}

int checkpoint_contents(const struct checkpoint *c, uint8_t **ret, size_t *ret_size, int64_t *ret_seen)
{
	return journal_read(c->journal, ret, ret_size, ret_seen);
}

void checkpoint_start(struct checkpoint *c, struct engine *g, int64_t now)
{
	c->resumed = true;
	c->round = g->targets ? ROUND_FIRST_NS : ROUND_NS;
	write_snapshot(c, g, now);
}

static bool any_changed(const struct engine *g)
{
	const struct target *t = g->targets;
	while (t && !(t->sampling.changed && !t->saved.left_out))
		t = t->next;
	return t;
}

static void commit_checkpoint(struct checkpoint *c, struct engine *g, int64_t now)
{
	save_rates(c, g);
	for (struct target *t = g->targets; t; t = t->next)
		if (t->sampling.changed && !t->saved.left_out)
			save_changes(c, t);
	c->last = now;
	if (!journal_commit(c->journal) || is_large(c))
		write_snapshot(c, g, now);
	else
		journal_seen(c->journal, now);
	for (struct target *t = g->targets; t; t = t->next)
		inproc_saved(t->apps);
}

/* Returns how much earlier counts may be written: it would be our next wake-up, or a look takes place anyway. */
static int64_t get_early_margin(const struct checkpoint *c, const struct engine *g)
{
	return g->round.pause > c->round / EARLY ? g->round.pause : c->round / EARLY;
}

void checkpoint_flush(struct checkpoint *c, struct engine *g, int64_t now)
{
	if (c && c->resumed && !c->off)
		commit_checkpoint(c, g, now);
}

int checkpoint_round(struct checkpoint *c, struct engine *g, int64_t now)
{
	if (!c || !c->resumed)
		return -1;
	if ((c->off || c->left_out) && now >= c->again)
		write_snapshot(c, g, now);
	if (c->off)
		return -1;
	if (now - c->last >= c->round - get_early_margin(c, g)) {
		commit_checkpoint(c, g, now);
		c->round = 2 * c->round < ROUND_NS ? 2 * c->round : ROUND_NS;
	}
	return any_changed(g) ? (int)((c->last + c->round - now) / NSEC_PER_MSEC) + 1 : -1;
}

/* A child has its parent's code, which was made when a sample came, perhaps a moment ago. */
static void save_inherited(struct checkpoint *c, struct target *t, const struct record *r)
{
	const struct process *parent =
		r->type == PERF_RECORD_FORK ? process_table_find(t->sampling.processes, r->task.ppid) : NULL;
	if (parent)
		save_jit(c, t, parent->jit);
}

void checkpoint_record(
	struct checkpoint *c, struct target *t, const struct record *r, const struct perf_event_header *h)
{
	if (!is_in(c, t))
		return;
	t->saved.lossy = false;
	for (unsigned pass = 0; pass < 2; pass++) {
		save_identity(c, t);
		save_inherited(c, t, r);
		start_entry(c, t, ENTRY_RECORD);
		journal_bytes(c->journal, h, h->size);
		journal_end(c->journal);
		if (journal_commit(c->journal) && !is_large(c))
			return;
		if (!pass) /* before the record: so the record comes after the state that it changes */
			write_snapshot(c, t->engine, clock_now());
		if (!is_in(c, t))
			return;
	}
}

void checkpoint_lossy(struct checkpoint *c, struct target *t)
{
	if (!is_in(c, t) || t->saved.lossy)
		return;
	t->saved.lossy = t->sampling.changed = true;
	save_identity(c, t);
	start_entry(c, t, ENTRY_LOSSY);
	journal_end(c->journal);
}

/*
 * If the entry does not fit, the journal is invalid until the next round: without the window's end a successor would
 * count its samples twice.
 */
static void checkpoint_at_once(struct checkpoint *c)
{
	if (journal_commit(c->journal))
		return;
	int64_t now = clock_now();
	give_up(c, now);
	c->again = now;
}

void checkpoint_tasks(struct checkpoint *c, struct target *t)
{
	if (!is_in(c, t))
		return;
	save_changes(c, t);
	checkpoint_at_once(c);
}

void checkpoint_window(struct checkpoint *c, struct window *w)
{
	if (!is_in(c, w->t))
		return;
	save_identity(c, w->t);
	save_window(c, w->t, w);
	save_changes(c, w->t);
	checkpoint_at_once(c);
}

void checkpoint_written(struct checkpoint *c, struct target *t, unsigned seq)
{
	if (!is_in(c, t))
		return;
	t->sampling.changed = true;
	save_identity(c, t);
	start_entry(c, t, ENTRY_WRITTEN);
	journal_number(c->journal, seq);
	journal_end(c->journal);
	checkpoint_at_once(c);
}

/* The target is already off the engine's list. */
void checkpoint_gone(struct checkpoint *c, struct target *t)
{
	if (!c || !c->resumed || c->off || !t->saved.known)
		return;
	if (!t->engine->targets) {
		write_snapshot(c, t->engine, clock_now()); /* all memory back */
		return;
	}
	start_entry(c, t, ENTRY_GONE);
	journal_end(c->journal);
	checkpoint_at_once(c);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/engine.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "profiler/inproc/inproc.h"
#include "profiler/offcpu/offcpu.h"
#include "profiler/sample/cpu_coverage.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/exporter_link.h"
#include "profiler/target/limits.h"
#include "profiler/target/target_coverage.h"
#include "profiler/target/target_rate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * While programs begin, map files and end, records are read soon: a file may be gone later. While there are only
 * samples, the rings wake us when they fill up: a round then finds cold caches, and costs more than its samples.
 */
#define PARK_NS (5 * NSEC_PER_SEC)
#define ROUND_CALM_MS 1000
/* A record is stamped, then written, then published: within microseconds, unless its CPU is taken away (a VM). */
#define PUBLISH_NS (2 * NSEC_PER_MSEC)
/*
 * A ring wakes us once for each PERF_RING_MARK bytes, not while it is full: with more than this left after a drain, it
 * may fill up before it wakes us, and then never does.
 */
#define CROWDED(size) ((size) / 8)
/* Longest drain; then connections and other targets' windows have their turn. */
#define DRAIN_NS (20 * NSEC_PER_MSEC)

static void on_ring(void *arg, uint32_t events)
{
	struct engine *g = arg;
	if (g->perf.progress.behind) /* every round drains */
		return;
	engine_drain(g, false);
	int64_t now = clock_now(), due = INT64_MAX;
	for (struct target *t = g->n_offcpu ? g->targets : NULL; t; t = t->next) {
		int64_t its = t->ending ? INT64_MAX : offcpu_woken(t->offcpu, now);
		due = its < due ? its : due;
	}
	g->round.due = due < g->round.due ? due : g->round.due; /* and drains again */
}

int engine_init(struct engine *g, struct err *e)
{
	static struct crash_marker nobody_looks;
	int r = open_events_new(&g->perf.events);
	g->drain = engine_drain_rings;
	g->host.at = g->host.at ? g->host.at : &nobody_looks;
	if (r == 0)
		r = modules_new(g->limits.modules, &g->symbols.modules);
	if (r == 0)
		modules_guard(g->symbols.modules, g->host.at, &g->host.quarantine);
	g->symbols.jit_room.left = g->limits.jit;
	if (r == 0)
		r = unwind_new(&g->symbols.unwind);
	for (unsigned i = 0; r == 0 && i < cpu_rings_count(g->perf.rings); i++)
		r = event_loop_add(
			g->loop, &g->perf.ring_sources[i], cpu_rings_fd(g->perf.rings, i), EPOLLIN, on_ring, g);
	if (!g->role.node[0] && gethostname(g->role.node, sizeof(g->role.node) - 1) < 0)
		g->role.node[0] = 0;
	return r < 0 ? err_set(e, r, "cannot set up the profiler") : 0;
}

static bool any_ending(const struct engine *g)
{
	const struct target *t = g->targets;
	while (t && !t->ending)
		t = t->next;
	return t;
}

static int on_ending_round(void *arg)
{
	struct engine *g = arg;
	int wait = engine_round(g), other = exporter_link_round(g, clock_now());
	wait = wait < 0 || (other >= 0 && other < wait) ? other : wait;
	if (!any_ending(g))
		event_loop_stop(g->loop);
	return wait;
}

void engine_end(struct engine *g)
{
	for (struct target *t = g->targets; t; t = t->next)
		if (t->armed && t->sampling.started && !t->ending)
			offcpu_call(t->offcpu); /* all at once: each would take milliseconds */
	do {
		for (struct target *t = g->targets, *next; t; t = next) {
			next = t->next;
			if (t->armed)
				target_end(t);
		}
		/* last windows that wait for names, for a bounded time: their deadlines alone end that */
	} while (any_ending(g) && event_loop_run(g->loop, on_ending_round, g) == 0);
}

static bool any_unwritten(const struct engine *g)
{
	const struct target *t = g->targets;
	while (t && !t->window.over && !t->crash.records && !t->spool.unwritten)
		t = t->next;
	return t;
}

static int write_out(void *arg)
{
	struct engine *g = arg;
	int wait = event_loop_sooner(engine_round(g), exporter_link_round(g, clock_now()));
	if (!any_unwritten(g) || clock_now() > g->round.flush_by)
		event_loop_stop(g->loop);
	return event_loop_sooner(wait, deadline_left_ms(g->round.flush_by));
}

void engine_flush_for_handover(struct engine *g)
{
	g->round.flush_by = deadline_in(PARK_NS);
	for (struct target *t = g->targets; t; t = t->next)
		if (t->armed && t->sampling.started && !t->ending)
			offcpu_call(t->offcpu);
	engine_drain(g, true);
	for (struct target *t = g->targets; t; t = t->next)
		if (t->armed && t->sampling.started && !t->ending)
			window_close(t, false);
	if (any_unwritten(g))
		event_loop_run(g->loop, write_out, g);
	engine_drain(g, true);
	checkpoint_flush(g->commit, g, clock_now());
}

void engine_done(struct engine *g)
{
	symbolizer_free(g->symbols.symbolizer);
	target_files_free(g->symbols.files);
	fd_close(g->symbols.root);
	unwind_free(g->symbols.unwind);
	modules_free(g->symbols.modules);
	open_events_free(g->perf.events);
	kallsyms_free(g->symbols.kallsyms);
	kallsyms_free(g->symbols.kallsyms_partial);
	checkpoint_free(g->commit);
	cpu_coverage_free(g->perf.coverage);
	cpu_rings_close(g->perf.rings);
	exporter_link_flush(g);
	fd_close(g->symbols.kallsyms_fd);
	sample_rate_close_account(&g->rates);
	event_loop_free(g->loop);
}

/* A LOST record carries the id of the event that met the full ring; on a shared ring any target may have losses. */
static void on_lost(struct engine *g, struct target *t, const struct perf_event_header *h)
{
	struct record r;
	struct perf_layout none = {0};
	if (record_parse(h, &none, &r) < 0)
		return;
	if (g->role.single && t)
		target_lost(t, r.lost.count, r.cpu, (int64_t)r.time, false);
	else
		for (struct target *each = g->targets; each; each = each->next)
			target_lost(each, r.lost.count, r.cpu, (int64_t)r.time, true);
}

static void hand_over(struct engine *g, struct open_event *st, const struct perf_event_header *h)
{
	struct target *t = st->target;
	if (!t->turn.records++) {
		t->turn.next = g->round.turn;
		g->round.turn = t;
	}
	g->host.at->target = t->number;
	target_record(t, st, h);
}

/* Shares out a drain's CPU time among the targets, by their records in it. */
static void share_out(struct engine *g, int64_t cpu, uint64_t records)
{
	while (g->round.turn) {
		struct target *t = g->round.turn;
		g->round.turn = t->turn.next;
		t->sampling.cost += cpu * (int64_t)t->turn.records / (int64_t)records;
		t->turn.records = 0;
	}
}

static void on_record(void *arg, const struct perf_event_header *h, uint64_t id)
{
	struct engine *g = arg;
	struct open_event *st = open_events_find(g->perf.events, id);
	g->perf.records++;
	g->round.restless |= h->type == PERF_RECORD_MMAP2 || h->type == PERF_RECORD_COMM || h->type == PERF_RECORD_FORK;
	if (h->type == PERF_RECORD_LOST || h->type == PERF_RECORD_LOST_SAMPLES)
		on_lost(g, st ? st->target : g->targets, h);
	else if (st)
		hand_over(g, st, h);
	else
		g->perf.unknown++; /* of a target that was freed a moment ago */
}

/* Records that a ring skipped may be of any target, and their number is unknown. */
static void note_damage(struct engine *g, int64_t now)
{
	const uint64_t n = cpu_rings_damaged(g->perf.rings);
	for (struct target *t = g->targets; n && t; t = t->next)
		target_damaged(t, n, now);
}

void engine_drain_rings(struct engine *g, bool all)
{
	int64_t now = clock_now(), cpu = clock_cpu(), began = sample_rate_cpu(&g->rates);
	int64_t until = all ? now : now - PUBLISH_NS;
	const uint32_t at = g->host.at->target;
	uint64_t n;
	if (checkpoint_waits(g->commit)) /* the targets of the records are not known yet */
		return;
	for (struct target *t = g->targets; t; t = t->next)
		inproc_read_labels(t->apps, (uint64_t)g->rates.drained);
	g->perf.progress.behind =
		!cpu_rings_drain(g->perf.rings, until, all ? INT64_MAX : now + DRAIN_NS, on_record, g, &n);
	note_damage(g, now);
	if (g->perf.progress.behind && cpu_rings_oldest(g->perf.rings) < until)
		until = cpu_rings_oldest(g->perf.rings);
	g->rates.drained = until > g->rates.drained ? until : g->rates.drained;
	g->perf.progress.drain_again =
		cpu_rings_left(g->perf.rings) > CROWDED(cpu_rings_size(g->perf.rings)) ? now + PUBLISH_NS : INT64_MAX;
	g->host.at->target = at;
	g->perf.progress.had_room = clock_now();
	sample_rate_drained(&g->rates, began);
	share_out(g, clock_cpu() - cpu, n);
}

/*
 * Reads kernel names, which takes tens of milliseconds, while the program still runs: a runtime waits for a session's
 * end. In slices with pauses: at 999 Hz a ring is full after 15 ms. True: there is more to do.
 */
static bool read_ahead(struct engine *g)
{
	const struct target *t = g->targets;
	return t && g->role.single && g->symbols.kallsyms_fd >= 0 && t->sampling.started && t->desc.kernel &&
	       engine_read_some_kallsyms(g);
}

/* Returns milliseconds to the next look at all targets. */
static int update_round_interval(struct engine *g)
{
	int calmer = g->round.interval_ms + g->round.interval_ms / 8;
	g->round.interval_ms = g->round.restless || !g->round.interval_ms ? ENGINE_ROUND_MS
			       : calmer < ROUND_CALM_MS			  ? calmer
									  : ROUND_CALM_MS;
	g->round.restless = false;
	return g->round.interval_ms;
}

static int64_t in_ms(int64_t now, int ms)
{
	return ms < 0 ? INT64_MAX : now + ms * NSEC_PER_MSEC;
}

/*
 * Looks at all targets, or at those with work due: a look reads files of a target, and of a thousand
 * targets the window of one always ends. Returns when the next look is due.
 */
static int64_t check_targets(struct engine *g, int64_t now, bool at_all)
{
	int64_t first = INT64_MAX;
	for (struct target *t = g->targets, *next; t; t = next) {
		unsigned n = g->n_targets;
		next = t->next;
		if (!at_all && t->turn.due > now)
			continue;
		g->host.at->target = t->number;
		t->turn.due = INT64_MAX; /* records that are read meanwhile may make it sooner */
		int64_t due = in_ms(now, target_round(t, now));
		if (g->n_targets == n && due < t->turn.due) /* else the target is gone */
			t->turn.due = due;
	}
	g->host.at->target = 0;
	for (const struct target *t = g->targets; t; t = t->next)
		first = t->turn.due < first ? t->turn.due : first;
	return first;
}

int engine_round(struct engine *g)
{
	if (!g->targets || checkpoint_waits(g->commit))
		return -1;
	bool more = read_ahead(g);
	int64_t now = clock_now();
	int rates = target_rate_round(g, now);
	/* a service is woken often enough, and its rates go by whole seconds */
	g->round.pause = g->round.woken && g->role.single ? now - g->round.woken : 0;
	g->round.woken = now;
	/* sooner than due, if it would be our next wake-up */
	bool at_all = now + g->round.pause >= g->round.look_again;
	if (g->perf.progress.behind || at_all || now >= g->round.due || now >= g->perf.progress.drain_again)
		engine_drain(g, false);
	if (at_all) {
		target_rate_look(g, now);
		rates = target_rate_round(g, now); /* of intervals that begin with it, too */
		limits_enforce_memory(g);
		target_coverage_look(g, now);
		g->round.look_again = in_ms(now, update_round_interval(g));
	}
	if (at_all || now >= g->round.due) { /* rings wake us far more often than targets change */
		g->round.due = check_targets(g, now, at_all);
		int64_t commit = in_ms(now, checkpoint_round(g->commit, g, now));
		g->round.due = commit < g->round.due ? commit : g->round.due;
	}
	int64_t next = g->round.due < g->round.look_again ? g->round.due : g->round.look_again;
	next = g->perf.progress.drain_again < next ? g->perf.progress.drain_again : next;
	int wait = event_loop_sooner(deadline_left_ms(next), rates);
	return !g->targets ? -1 : g->perf.progress.behind ? 0 : more ? 1 : wait;
}

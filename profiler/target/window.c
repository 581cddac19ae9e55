/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/window.h"

#include "oci/base/clock.h"
#include "oci/base/log.h"
#include "profiler/inproc/inproc.h"
#include "profiler/offcpu/offcpu.h"
#include "profiler/pprof/pprof.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/crash_record.h"
#include "profiler/target/profile/profile_build.h"
#include "profiler/target/symbol_requests.h"
#include "profiler/target/target_counts.h"
#include "profiler/target/target_coverage.h"
#include "profiler/target/target_open.h"
#include "profiler/target/target_rate.h"
#include "profiler/target/target_usage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_NS (4 * NSEC_PER_SEC)	     /* for the symbolizer: a window lasts 5 s at least */
#define NAMES_LAST_NS (1500 * NSEC_PER_MSEC) /* a tree pins a file system: it is closed 2 s after the target's end */

/* --- the file ------------------------------------------------------------------------------------------ */

/* t NULL: the target is gone. */
static void note_lost(struct target *t, const struct export_profile *p, const struct err *e)
{
	log_line(LOG_ERR, "target=%s event=%s outcome=lost samples=%" PRIu64 " reason=\"%s\"", p->id, p->event,
		p->samples, e->text);
	if (t)
		t->window.past.lost += p->samples;
}

void window_written(void *engine, void *of, const struct export_profile *p, const char *path, const struct err *e)
{
	struct target *t = of;
	if (p->head.type == EXPORT_CRASH) {
		crash_record_written(t, p, path, e);
		return;
	}
	if (path)
		log_line(LOG_INFO, "target=%s event=%s outcome=written file=\"%s\" bytes=%" PRIu64, p->id, p->event,
			path, p->bytes);
	else
		note_lost(t, p, e);
	if (!t)
		return;
	if (path)
		snprintf(t->spool.last_profile, sizeof(t->spool.last_profile), "%s", path);
	t->spool.unwritten--;
	if (!p->rest || !t->spool.unwritten) /* answered in order; the last profiles may never have been handed over */
		checkpoint_written(t->engine->commit, t, p->seq);
	target_free_if_done(t);
}

static void describe_profile(const struct window *w, uint32_t profile, struct export_profile *ret)
{
	const struct target_desc *d = &w->t->desc;
	*ret = (struct export_profile){.start_ns = w->real, .duration_ns = w->duration, .seq = w->seq};
	snprintf(ret->event, sizeof(ret->event), "%s",
		profile == PROFILE_BUILD_WALL ? EVENT_WALL : event_name(&d->events[profile]));
	snprintf(ret->id, sizeof(ret->id), "%s", d->id);
	snprintf(ret->name, sizeof(ret->name), "%s", d->name);
	snprintf(ret->pod, sizeof(ret->pod), "%s", d->pod);
	snprintf(ret->pod_namespace, sizeof(ret->pod_namespace), "%s", d->pod_namespace);
}

/* Takes the bytes. */
static int hand_over(struct target *t, struct export_profile *p, uint8_t *bytes, struct err *e)
{
	struct exporter_client *c = t->engine->spool.exporter;
	if (!c) {
		free(bytes);
		return err_say(e, -EPIPE, "there is no exporter");
	}
	int r = exporter_write(c, p, bytes, t, e);
	t->spool.unwritten += r == 0;
	t->spool.handed |= r == 0;
	return r;
}

/* False: no answer will come. */
static bool write_profile(const struct window *w, uint32_t profile, uint32_t rest)
{
	struct profile *built;
	struct export_profile p;
	uint8_t *bytes = NULL;
	size_t len = 0;
	struct err e = {0};
	describe_profile(w, profile, &p);
	int r = profile_build(w, profile, &built, &p.samples);
	if (r == 0)
		r = pprof_write(built, &bytes, &len);
	p.bytes = len;
	p.rest = rest;
	if (r < 0)
		err_set(&e, r, "cannot build the profile");
	else
		r = hand_over(w->t, &p, bytes, &e);
	if (r < 0)
		note_lost(w->t, &p, &e);
	profile_free(built);
	return r == 0;
}

/* True: it ran only on CPUs without events, by its CPU account. */
static bool ran_unseen(const struct window *w, uint32_t spec)
{
	return w->uncovered[0] && w->cpu_used * 1000 >= PROFILE_BUILD_UNCLOCKED_NS &&
	       event_kind(w->t->desc.events[spec].kind)->measure == MEASURES_CPU;
}

/* A window without samples is written only if it is the only one, or the kernel knows of lost samples or used time. */
static bool is_worth_it(const struct window *w, uint32_t spec)
{
	const struct event_totals *k = &w->kernel[spec];
	return aggregate_samples(w->counts[spec]) || k->lost || k->unsampled || k->unseen || ran_unseen(w, spec) ||
	       (w->last && !w->t->spool.handed && !w->t->window.over);
}

/* Reads the programs' descriptions of their code: at the end of a window, as they may be thrown away later. */
static void refresh_jits(struct window *w)
{
	int64_t now = clock_now();
	for (uint32_t i = 0; i < w->t->desc.n_events; i++)
		for (size_t k = 0; k < aggregate_frames(w->counts[i]); k++) {
			const struct stack_frame *f = aggregate_frame(w->counts[i], (uint32_t)k);
			if (f->kind == FRAME_JIT)
				jit_refresh(f->jit, now, target_open_named, w->t);
		}
}

/*
 * Loads modules of which a predecessor saved the name alone, and modules whose files did not answer at first. A
 * loaded module stays loaded.
 */
static void load_modules(struct window *w)
{
	struct pair_table seen = {0};
	for (uint32_t i = 0; i < w->t->desc.n_events; i++)
		for (size_t k = 0; k < aggregate_frames(w->counts[i]); k++) {
			struct module *m = aggregate_frame(w->counts[i], (uint32_t)k)->module;
			size_t had = seen.count;
			if (module_state(m) == MODULE_UNREADABLE && pair_table_add(&seen, module_id(m), 0) >= 0 &&
				seen.count > had && target_module(w->t, module_key(m), target_open_file, &m) == 0)
				module_unref(m);
		}
	pair_table_done(&seen);
}

static bool is_due(const struct window *w, uint32_t profile)
{
	for (uint32_t i = 0; i < w->t->desc.n_events; i++)
		if (profile_build_has(w->t, profile, i) && is_worth_it(w, i))
			return true;
	return false;
}

static void write_all(const struct window *w)
{
	uint32_t due[PROFILE_BUILD_WALL + 1], n = 0;
	bool told = false;
	for (uint32_t i = 0; i <= PROFILE_BUILD_WALL; i++)
		if ((i < w->t->desc.n_events || i == PROFILE_BUILD_WALL) && is_due(w, i))
			due[n++] = i;
	for (uint32_t i = 0; i < n; i++)
		told |= write_profile(w, due[i], n - 1 - i);
	if (!told)
		checkpoint_written(w->t->engine->commit, w->t, w->seq);
}

/* --- the end of a window -------------------------------------------------------------------------------- */

int window_counts(struct target *t, struct aggregate **ret)
{
	int r = aggregate_new(ret);
	if (r == 0)
		aggregate_share(*ret, &t->engine->tables);
	return r;
}

/* Moves the counts to the window; the target goes on with new ones. False: no memory, they are shared. */
static bool take_counts(struct window *w)
{
	struct aggregate *fresh[EVENTS_MAX] = {0};
	uint32_t n = w->t->desc.n_events, got = 0;
	memcpy(w->counts, w->t->sampling.counts, sizeof(w->counts));
	while (got < n && window_counts(w->t, &fresh[got]) == 0)
		got++;
	if (got == n)
		memcpy(w->t->sampling.counts, fresh, sizeof(fresh));
	for (uint32_t i = 0; got < n && i < got; i++)
		aggregate_free(fresh[i]);
	return got == n;
}

static void next_window(struct target *t)
{
	t->window.past.throttled += t->sampling.tally.throttled;
	memset(&t->sampling.tally, 0, sizeof(t->sampling.tally));
	t->sampling.tally.cpu_usage = t->usage.cpu_last;
	t->usage.cpu_weight = 0;
	target_rate_next_window(t);
	t->early = false;
	t->window.seq++;
}

static uint64_t lost_in(const struct window *w)
{
	bool known = false;
	uint64_t n = 0;
	for (uint32_t i = 0; i < w->t->desc.n_events; i++) {
		known |= w->kernel[i].lost_known;
		n += w->kernel[i].lost;
	}
	return known ? n : w->tally.lost; /* which every event of a session has */
}

static void fill_window(struct window *w, struct target *t, bool last)
{
	offcpu_end(t->offcpu);
	inproc_drain(t->apps, t->engine->rates.drained, last);
	inproc_window(t->apps, last);
	t->sampling.tally.inproc_lost += inproc_lost(t->apps);
	t->sampling.tally.labels_lost += inproc_labels_lost(t->apps);
	*w = (struct window){.t = t,
		.last = last,
		.early = t->early,
		.by_cap = t->sampling.rate.by_cap,
		.by_budget = t->sampling.rate.by_budget,
		.rate_most = t->sampling.rate.most,
		.seq = t->window.seq,
		.real = t->window.real};
	w->tally = t->sampling.tally;
	w->cpu_used = target_cpu_used(t);
	target_counts_window(t, w);
	const int64_t now = clock_now(); /* the counts are from the time up to here, however long the readings took */
	w->duration = now - t->sampling.window_mono;
	target_coverage_look(t->engine, now);
	target_coverage_list(t, t->sampling.window_mono, w->uncovered);
	t->window.past.lost += lost_in(w);
	w->owns_counts = take_counts(w);
	inproc_next_window(t->apps, w->counts, t->sampling.counts);
	if (w->tally.restarts || t->fs.account.silent || t->fs.opener.account.silent ||
		target_files_broken(t->engine->symbols.files))
		load_modules(w);
	refresh_jits(w);
	target_set_window_start(t, now);
	next_window(t);
	checkpoint_window(t->engine->commit, w);
}

static void let_go(struct window *w)
{
	symbol_requests_free(w->naming);
	for (uint32_t i = 0; i < w->t->desc.n_events; i++)
		w->owns_counts ? (void)aggregate_free(w->counts[i]) : aggregate_clear(w->counts[i]);
}

void window_free(struct window *w)
{
	let_go(w);
	free(w);
}

static enum symbol_requests_use use_of(const struct window *w)
{
	return w->last ? SYMBOL_REQUESTS_LAST_WINDOW : SYMBOL_REQUESTS_WINDOW;
}

static void on_named(void *arg)
{
	struct window *w = arg;
	struct target *t = w->t;
	int64_t cpu = clock_cpu();
	for (struct window **at = &t->window.over; *at; at = &(*at)->next)
		if (*at == w) {
			*at = w->next;
			break;
		}
	w->unnamed = symbol_requests_left(w->naming);
	w->unasked = w->naming ? 0 : symbol_requests_put_off(t, w->counts, t->desc.n_events, use_of(w));
	write_all(w);
	window_free(w);
	t->sampling.cost += clock_cpu() - cpu;
	target_free_if_done(t);
}

static struct symbol_request *start_naming(struct window *w, int64_t deadline)
{
	return symbol_requests_start(w->t, w->counts, w->t->desc.n_events, use_of(w), deadline, on_named, w);
}

static void append_window(struct target *t, struct window *w)
{
	struct window **at = &t->window.over;
	while (*at)
		at = &(*at)->next;
	*at = w;
}

void window_restore(struct target *t, struct window *w)
{
	w->t = t;
	w->owns_counts = true;
	append_window(t, w);
}

/* A predecessor's window: loads its modules and code now, and asks for names. */
static void ask_names(struct window *w)
{
	load_modules(w);
	refresh_jits(w);
	w->naming = start_naming(w, clock_now() + NAMES_NS);
	if (!w->naming)
		on_named(w);
}

static void end_window(struct target *t, bool last)
{
	struct window now, *w = malloc(sizeof(*w));
	if (!t->sampling.started) {
		log_line(engine_peer_level(t->engine),
			"target=%s outcome=empty reason=\"the container ended before its program started\"",
			t->desc.id);
		free(w);
		return;
	}
	t->names.ahead = symbol_requests_free(t->names.ahead); /* fill asks for the same */
	fill_window(&now, t, last);
	for (struct window *other = last ? t->window.over : NULL; other; other = other->next)
		if (other->naming)
			symbol_requests_hurry(other->naming, clock_now() + NAMES_LAST_NS);
	if (w && now.owns_counts) {
		*w = now;
		w->naming = start_naming(w, clock_now() + (last ? NAMES_LAST_NS : NAMES_NS));
	}
	if (w && now.owns_counts && w->naming) {
		append_window(t, w);
		return;
	}
	now.unasked = symbol_requests_put_off(t, now.counts, t->desc.n_events, use_of(&now));
	write_all(&now);
	let_go(&now);
	free(w);
}

void window_close(struct target *t, bool last)
{
	int64_t cpu = clock_cpu();
	end_window(t, last);
	t->sampling.cost += clock_cpu() - cpu;
}

int window_round(struct target *t, int64_t now)
{
	int wait = -1;
	for (struct window *w = t->window.over, *next; w; w = next) {
		next = w->next;
		const bool last = t->ending && w == t->window.over && !next; /* the target is freed with it */
		bool asked = w->naming;
		if (!asked)
			ask_names(w);
		int left = asked ? symbol_requests_round(w->naming, now) : 0;
		if (left < 0 && last)
			return -1;
		if (left >= 0 && (wait < 0 || left < wait))
			wait = left;
	}
	return wait;
}

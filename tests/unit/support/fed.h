/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fed - an engine without rings, its targets without events: records are made here and handed to target_record. And
 * everything that is known and counted, as text: two engines that print alike are alike.
 */
#pragma once

#include "oci/base/fd.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/engine.h"
#include "profiler/target/exporter_link.h"
#include "profiler/target/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FED_FIXED (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)
#define FED_INIT 5000 /* the init's pid in its namespace: records of others are of processes like any */

/* A record being put together. */
struct fed {
	uint64_t words[1024];
	size_t n;
};

static inline void fed_u64(struct fed *r, uint64_t v)
{
	r->words[r->n++] = v;
}

static inline void fed_two(struct fed *r, uint32_t a, uint32_t b)
{
	fed_u64(r, a | (uint64_t)b << 32);
}

static inline void fed_string(struct fed *r, const char *s)
{
	size_t words = strlen(s) / 8 + 1;
	memset(&r->words[r->n], 0, words * 8);
	memcpy(&r->words[r->n], s, strlen(s));
	r->n += words;
}

static inline void fed_begin(struct fed *r)
{
	r->n = 1;
}

static inline const struct perf_event_header *fed_end(struct fed *r, uint32_t type, uint16_t misc)
{
	struct perf_event_header h = {.type = type, .misc = misc, .size = (uint16_t)(8 * r->n)};
	memcpy(r->words, &h, sizeof(h));
	return (const struct perf_event_header *)r->words;
}

/* The trailer of what is no sample. */
static inline const struct perf_event_header *fed_side(
	struct fed *r, uint32_t type, uint16_t misc, uint32_t pid, uint32_t tid, uint64_t time, uint64_t id)
{
	fed_two(r, pid, tid);
	fed_u64(r, time);
	fed_two(r, 0, 0);
	fed_u64(r, id);
	return fed_end(r, type, misc);
}

static inline void fed_comm(struct target *t, uint64_t time, uint32_t pid, uint32_t tid, const char *name, bool exec)
{
	struct fed r;
	fed_begin(&r);
	fed_two(&r, pid, tid);
	fed_string(&r, name);
	target_record(t, t->events.list,
		fed_side(&r, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0, pid, tid, time,
			t->events.list->id));
}

static inline void fed_task(struct target *t, uint32_t type, uint64_t time, uint32_t pid, uint32_t tid, uint32_t ppid)
{
	struct fed r;
	fed_begin(&r);
	fed_two(&r, pid, ppid);
	fed_two(&r, tid, ppid);
	fed_u64(&r, time);
	target_record(t, t->events.list, fed_side(&r, type, 0, ppid, ppid, time, t->events.list->id));
}

static inline void fed_map(
	struct target *t, uint64_t time, uint32_t pid, uint64_t start, uint64_t len, const char *path)
{
	struct fed r;
	fed_begin(&r);
	fed_two(&r, pid, pid);
	fed_u64(&r, start);
	fed_u64(&r, len);
	fed_u64(&r, 0);
	fed_two(&r, 8, 1);
	fed_u64(&r, 77); /* inode */
	fed_u64(&r, 0);
	fed_two(&r, PROT_EXEC, 0);
	fed_string(&r, path);
	target_record(t, t->events.list, fed_side(&r, PERF_RECORD_MMAP2, 0, pid, pid, time, t->events.list->id));
}

static inline void fed_sample(struct target *t, struct open_event *st, uint64_t time, uint32_t pid, uint32_t tid,
	const uint64_t *chain, size_t n)
{
	struct fed r;
	fed_begin(&r);
	fed_u64(&r, st->id);
	fed_u64(&r, n ? chain[n - 1] : 0);
	fed_two(&r, pid, tid);
	fed_u64(&r, time);
	fed_two(&r, 0, 0);
	fed_u64(&r, n);
	for (size_t i = 0; i < n; i++)
		fed_u64(&r, chain[i]);
	target_record(t, st, fed_end(&r, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER));
}

/* A stream that nobody reads, of a descriptor that is none. */
static inline struct open_event *fed_stream(struct target *t, enum perf_role role, uint32_t spec, uint64_t id)
{
	struct open_event *st = calloc(1, sizeof(*st));
	if (!st)
		abort();
	*st = (struct open_event){.id = id, .fd = -1, .role = role, .spec = spec, .target = t};
	st->layout.sample_type = FED_FIXED | PERF_SAMPLE_CALLCHAIN;
	st->next_of_target = t->events.list;
	t->events.list = st;
	t->engine->n_events++;
	if (open_events_add(t->engine->perf.events, st) < 0)
		abort();
	return st;
}

static unsigned fed_n_events = 2;

/* The side-band is the first of its streams. Armed, as a program that is yet to begin. */
static inline struct target *fed_target_of(struct engine *g, unsigned number, const char *events)
{
	struct target_desc d = {.init_pid = FED_INIT,
		.host_pid = (int32_t)number,
		.start_time = 1,
		.strategy = STRATEGY_CGROUP,
		.kernel = 1,
		.window_s = 60};
	struct target *t;
	struct err e = {0};
	size_t n;
	snprintf(d.id, sizeof(d.id), "c%u", number);
	snprintf(d.name, sizeof(d.name), "c%u", number);
	if (event_spec_parse(events, 999, d.events, &n, &(bool){false}, &e) < 0)
		abort();
	d.n_events = (uint32_t)n;
	if (target_new(g, &d, NULL, &t, &e) < 0)
		abort();
	for (unsigned i = 0; i < n; i++)
		fed_stream(t, PERF_SAMPLES, i, 10 * number + 2 + i);
	fed_stream(t, PERF_SIDEBAND, 0, 10 * number + 1);
	t->armed = true;
	return t;
}

/* So many events of its own. */
static inline struct target *fed_target(struct engine *g, unsigned number)
{
	return fed_target_of(g, number, fed_n_events > 1 ? "cpu,page-faults" : "cpu");
}

static inline struct open_event *fed_events(struct target *t, unsigned spec)
{
	struct open_event *st = t->events.list;
	while (!(st->role == PERF_SAMPLES && st->spec == spec))
		st = st->next_of_target;
	return st;
}

static inline void fed_engine(struct engine *g)
{
	static struct crash_marker nobody_looks;
	*g = (struct engine){
		.symbols.kallsyms_fd = -1, .symbols.root = -1, .spool.path = "/spool", .host.at = &nobody_looks};
	g->spool.exporter_sock = -1;
	g->symbols.symbolizer_sockets = (struct symbolizer_sockets){-1, -1};
	g->symbols.jit_room.left = 1 << 20;
	g->drain = engine_drain_rings;
	if (event_loop_new(&g->loop) < 0 || open_events_new(&g->perf.events) < 0 ||
		modules_new(64 << 20, &g->symbols.modules) < 0 || unwind_new(&g->symbols.unwind) < 0 ||
		target_files_new(-1, &g->symbols.files) < 0)
		abort();
}

static inline void fed_engine_done(struct engine *g)
{
	while (g->targets)
		target_forget(g->targets);
	checkpoint_free(g->commit);
	target_files_free(g->symbols.files);
	unwind_free(g->symbols.unwind);
	modules_free(g->symbols.modules);
	open_events_free(g->perf.events);
	exporter_link_flush(g);
	event_loop_free(g->loop);
}

/* --- everything, as text */

static inline void fed_dump_frame(FILE *f, const struct stack_frame *fr)
{
	fprintf(f, " %d:%" PRIx64, fr->kind, fr->vaddr);
	if (fr->name)
		fprintf(f, "%s@%p", fr->name, (const void *)fr->name);
	if (fr->module)
		fprintf(f, "(%s)", module_name(fr->module));
	for (struct jit *j = fr->jit; j; j = jit_parent(j))
		fprintf(f, "<jit %u %s>", jit_pid(j), jit_dump_path(j));
}

static inline void fed_dump_counts(FILE *f, const struct aggregate *a)
{
	static struct aggregate_sample s;
	for (size_t i = 0; i < aggregate_samples(a); i++) {
		aggregate_sample(a, i, &s);
		fprintf(f, "  %zu %" PRIu64 " %" PRIu64 " %u/%u %s %s %s at %u/%u:", i, s.count, s.weight, s.who.pid,
			s.who.tid, s.who.process, s.who.thread, s.who.exe, s.when.cpu, s.when.us);
		for (size_t k = 0; k < s.n; k++)
			fed_dump_frame(f, aggregate_frame(a, s.frames[k]));
		fputc('\n', f);
	}
	fprintf(f, "  overflow %" PRIu64 " untimed %" PRIu64 "\n", aggregate_overflow(a), aggregate_untimed(a));
}

static inline int fed_by_pid(const void *a, const void *b)
{
	const struct process *x = *(struct process *const *)a, *y = *(struct process *const *)b;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

struct fed_list {
	struct process *all[PROCESS_TABLE_MAX + 1];
	size_t n;
};

static inline void fed_keep(void *arg, struct process *p)
{
	struct fed_list *l = arg;
	l->all[l->n++] = p;
}

static inline void fed_dump_task(FILE *f, const struct process *p)
{
	fprintf(f, " task %u %s %s exited %" PRIu64 " sampled %d gone %d threads %u lossy %d dropped %" PRIu64, p->pid,
		p->comm, p->exe, p->exited, p->sampled, p->leader_gone, p->n_threads, address_space_lossy(p->space),
		address_space_dropped(p->space));
	for (struct jit *j = p->jit; j; j = jit_parent(j))
		fprintf(f, " <jit %u>", jit_pid(j));
	fputc('\n', f);
	for (uint32_t tid = p->pid; p->n_threads && tid < p->pid + 300; tid++)
		fprintf(f, " %s", process_table_thread_name(p, tid));
	for (size_t i = 0; i < address_space_count(p->space); i++) {
		const struct mapping *m = address_space_at(p->space, i);
		fprintf(f, "  %" PRIx64 "-%" PRIx64 " %" PRIx64 " %s %" PRIu64 " %" PRIu64 "\n", m->start, m->end,
			m->pgoff, mapping_key(m)->path, mapping_key(m)->ino, m->born);
	}
}

static inline void fed_dump_tally(FILE *f, const struct sample_tally *y)
{
	struct sample_tally same = *y;
	same.restarts = same.gap = 0;
	for (size_t i = 0; i < sizeof(same) / 8; i++)
		fprintf(f, " %" PRIu64, ((const uint64_t *)&same)[i]);
	fputc('\n', f);
}

static inline void fed_dump_target(FILE *f, const struct target *t)
{
	static struct fed_list list;
	fprintf(f,
		"%s started %d began %" PRId64 " window %" PRId64 " %" PRId64 " seq %u samples %" PRIu64
		" last %s notes %s\n",
		t->desc.id, t->sampling.started, t->sampling.began, t->window.real, t->sampling.window_mono,
		t->window.seq, t->sampling.samples, t->spool.last_profile, t->desc.notes);
	fed_dump_tally(f, &t->sampling.tally);
	list.n = 0;
	process_table_each(t->sampling.processes, fed_keep, &list);
	if (list.n)
		qsort(list.all, list.n, sizeof(list.all[0]), fed_by_pid);
	for (size_t i = 0; i < list.n; i++)
		fed_dump_task(f, list.all[i]);
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		fed_dump_counts(f, t->sampling.counts[i]);
	for (const struct window *w = t->window.over; w; w = w->next) {
		fprintf(f, " window %u %" PRId64 " %" PRId64 " %d\n", w->seq, w->real, w->duration, w->last);
		fed_dump_tally(f, &w->tally);
		for (uint32_t i = 0; i < t->desc.n_events; i++)
			fed_dump_counts(f, w->counts[i]);
	}
}

/* By their ids, which are in the order of their numbers up to 9. To be freed. */
static inline char *fed_dump(const struct engine *g)
{
	char *text = NULL, id[16];
	size_t size;
	FILE *f = open_memstream(&text, &size);
	if (!f)
		abort();
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(id, sizeof(id), "c%u", i);
		const struct target *t = target_find((struct engine *)g, id);
		if (t)
			fed_dump_target(f, t);
	}
	fclose(f);
	return text;
}

/* Two memory files, as a supervisor has them. */
static inline void fed_files(int ret[2])
{
	for (int i = 0; i < 2; i++)
		if ((ret[i] = memfd_create("journal", MFD_CLOEXEC)) < 0)
			abort();
}

/* Such as a new process gets. */
static inline void fed_commit(struct engine *g, const int files[2])
{
	if (checkpoint_new(dup(files[0]), dup(files[1]), &g->commit) < 0)
		abort();
}

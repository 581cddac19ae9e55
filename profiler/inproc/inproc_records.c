/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/inproc_process.h"

#include "oci/base/clock.h"
#include "oci/base/log.h"
#include "profiler/inproc/calltree_counts.h"
#include "profiler/inproc/inproc_arch.h"
#include "profiler/sample/sample_stack.h"

#include <string.h>

#define UNKNOWN_NS (1 * NSEC_PER_SEC)	 /* between two requests for mappings */
#define WEIGHT_MAX (3600 * NSEC_PER_SEC) /* of one sample, at most */

/* Converts a record to the form of a kernel record. */
static void as_record(const struct inproc_process *p, const struct shm_record *from, struct record *ret)
{
	const struct shm_more *more = shm_reader_more(from);
	memset(ret, 0, sizeof(*ret));
	ret->misc = PERF_RECORD_MISC_USER;
	ret->time = from->time;
	ret->pid = p->inbox.pid;
	ret->tid = from->tid;
	ret->sample.ip = from->regs.ip;
	inproc_regs_take(&from->regs, more ? &more->regs : NULL, &ret->sample.regs);
	ret->sample.has_regs = true;
	ret->sample.stack = shm_reader_stack(from);
	ret->sample.stack_size = from->stack;
}

/* Takes the thread's name from the record, where no kernel record tells it. */
static void name_thread(const struct inproc_process *p, const struct shm_record *from)
{
	struct sampling *sampling = p->apps->sampling;
	const struct shm_more *more = shm_reader_more(from);
	char name[sizeof(more->name)];
	const struct process *task = process_table_find(sampling->processes, p->inbox.pid);
	snprintf(name, sizeof(name), "%.15s", more ? more->name : "");
	if (!p->apps->timers || sampling->quarantined || !name[0] ||
		(task && !strcmp(process_table_thread_name(task, from->tid), name)))
		return;
	process_table_adopt(sampling->processes, p->inbox.pid, from->tid, name);
	sampling_processes_changed(sampling);
}

static void on_maps(const struct inproc_process *p, const struct shm_record *from)
{
	struct sampling *sampling = p->apps->sampling;
	char text[SHM_RECORD_MAX];
	const size_t n = from->stack < sizeof(text) ? from->stack : sizeof(text) - 1;
	if ((!p->apps->timers && p->apps->crash == sampling->desc->n_events) || sampling->quarantined)
		return;
	memcpy(text, shm_reader_stack(from), n);
	text[n] = 0;
	process_table_adopt_text(sampling->processes, p->inbox.pid, text);
	sampling_processes_changed(sampling);
}

struct taken {
	struct process *task;
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	size_t n;
	enum unwind_stop stop;
	struct sample_origin who;
};

/* Takes the stack of a record, and counts it as a sample. */
static void unwind_record(struct inproc_process *p, const struct shm_record *from, struct process *task,
	const struct record *r, struct taken *ret)
{
	const struct inproc *a = p->apps;
	static const struct perf_layout layout = {.sample_type = PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_USER};
	struct sampling *sampling = a->sampling;
	ret->stop = UNWIND_END;
	ret->n = sampling->quarantined ? sample_stack_plain(r, ret->frames)
				       : sampling_stack(sampling, task, r, &layout, ret->frames, &ret->stop);
	ret->who = (struct sample_origin){r->pid, r->tid, task->comm, process_table_thread_name(task, r->tid),
		task->exe, label_history_of(&p->labels, p->inbox.memory, from->labels)};
	sampling->tally.samples++;
	sampling->samples++;
	task->sampled = true;
	sampling->changed = true;
}

/* Asks for the mappings if the stack has code that was mapped after the last report. */
static void ask_maps(struct inproc_process *p, const struct taken *s)
{
	const bool known =
		s->stop != UNWIND_UNKNOWN_MAPPING && (s->frames[0].kind != FRAME_USER || s->frames[0].module);
	const int64_t now = known ? 0 : clock_now();
	if (known || p->apps->sampling->quarantined || now - p->asked < UNKNOWN_NS)
		return;
	p->asked = now;
	shm_reader_want_maps(&p->inbox);
}

static void on_cpu(
	struct inproc_process *p, const struct shm_record *from, struct process *task, const struct record *r)
{
	struct inproc *a = p->apps;
	struct sampling *sampling = a->sampling;
	struct taken s;
	const uint64_t weight = from->bytes < WEIGHT_MAX ? from->bytes : WEIGHT_MAX;
	sampling_note_record(sampling, true, sizeof(*from) + from->stack);
	if (!sampling_take(sampling, a->cpu, (int64_t)r->time, weight, from->stack))
		return;
	const uint64_t worth = live_heap_scaled(sample_rate_scale(&sampling->rate, (int64_t)r->time), weight);
	const struct sample_detail when = {0, sampling_detail(sampling, r).us};
	a->sampled += !p->sampled;
	p->sampled = true;
	unwind_record(p, from, task, r, &s);
	ask_maps(p, &s);
	aggregate_add_at(sampling->counts[a->cpu], s.frames, s.n, &s.who, &when, 1, worth);
	sampling->tally.weight[a->cpu] += worth;
}

static void on_alloc(
	struct inproc_process *p, const struct shm_record *from, struct process *task, const struct record *r)
{
	struct inproc *a = p->apps;
	struct sampling *sampling = a->sampling;
	struct taken s;
	const double by = live_heap_stands_for(from->bytes, a->mean);
	unwind_record(p, from, task, r, &s);
	ask_maps(p, &s);
	const size_t own = s.n > 1; /* the allocator's own function: the leaf is its caller */
	aggregate_add(sampling->counts[a->alloc], s.frames + own, s.n - own, &s.who, live_heap_parts(by),
		live_heap_scaled(by, from->bytes));
	sampling->tally.taken[a->alloc]++;
	sampling->tally.weight[a->alloc] += live_heap_scaled(by, from->bytes);
	sampling->tally.counted[a->alloc] += live_heap_parts(by);
	if (from->id && apps_heap(a))
		live_heap_add(&p->inuse, &p->inbox, from->id, from->bytes,
			aggregate_put_of(apps_heap(a), s.frames + own, s.n - own, &s.who));
}

void inproc_process_record(void *arg, const struct shm_record *from)
{
	struct inproc_process *p = arg;
	const struct inproc *a = p->apps;
	struct sampling *sampling = a->sampling;
	struct record r;
	name_thread(p, from);
	if (from->kind == SHM_MAPS) {
		on_maps(p, from);
		return;
	}
	as_record(p, from, &r);
	struct process *task = process_table_get(sampling->processes, r.pid);
	if (sampling->started && task && from->kind == SHM_CRASH && a->crash < sampling->desc->n_events)
		a->owner.ops->crash(a->owner.target, a->crash, task, &r, from);
	if (!sampling->started || !task || !from->bytes)
		return;
	if (from->kind == SHM_ALLOC && a->alloc < sampling->desc->n_events)
		on_alloc(p, from, task, &r);
	else if (from->kind == SHM_CPU && a->cpu < sampling->desc->n_events)
		on_cpu(p, from, task, &r);
}

/* --- calls --------------------------------------------------------------------------------------------------- */

void inproc_process_look_at_calls(struct inproc_process *p)
{
	const struct inproc *a = p->apps;
	bool unknown = false;
	if (p->called.memory < 0 || !a->sampling->started)
		return;
	const bool skip = !p->called.n && p->called.born < a->blank;
	const int r = skip ? calltree_reader_skip(&p->called)
			   : calltree_count(&p->called, &a->owner, a->calls, p->inbox.pid, &unknown);
	if (r < 0) {
		log_line(a->owner.ops->log_level(a->owner.target),
			"target=%s pid=%u outcome=calls_refused reason=\"%s\"", a->sampling->desc->id, p->inbox.pid,
			strerror(-r));
		calltree_reader_close(&p->called);
	}
	if (unknown && a->timers)
		shm_reader_want_maps(&p->inbox);
}

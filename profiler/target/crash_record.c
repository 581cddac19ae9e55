/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/crash_record.h"

#include "oci/base/clock.h"
#include "oci/base/log.h"
#include "profiler/inproc/shm_reader.h"
#include "profiler/sample/sample_stack.h"
#include "profiler/target/symbol_requests.h"
#include "profiler/target/target_open.h"
#include "profiler/target/window.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_NS (1500 * NSEC_PER_MSEC) /* a tree pins a file system: it is closed 2 s after the target's end */
#define OVER_BELOW (64u << 10)		/* how far below the stack pointer a function's variables may reach */
#define OVER_ABOVE 4096u

/* --- the stack ------------------------------------------------------------------------------------------- */

static bool is_nowhere(const struct stack_frame *f)
{
	return f->kind == FRAME_USER && !f->module;
}

/* After a call of a bad address: unwinds as if the call itself had failed. */
static void from_caller(struct crash_record *c, struct process *task, const struct record *r)
{
	static const struct perf_layout layout = {.sample_type = PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_USER};
	struct record back = *r;
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	enum unwind_stop stop;
	if (!unwind_undo_call(&back.sample.regs, &back.sample.stack, &back.sample.stack_size))
		return;
	back.sample.ip = back.sample.regs.r[UNWIND_IP];
	const size_t n = sample_stack_frames(
		c->target->sampling.unwind, task, &back, &layout, c->target->sampling.jit_room, frames, &stop);
	if (is_nowhere(&frames[0]))
		return;
	c->report.n = n < AGGREGATE_STACK_MAX ? n + 1 : n;
	memcpy(c->report.frames + 1, frames, (c->report.n - 1) * sizeof(frames[0]));
	c->report.stop = stop;
}

static void find_frames(struct crash_record *c, struct process *task, const struct record *r)
{
	static const struct perf_layout layout = {.sample_type = PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_USER};
	struct target *t = c->target;
	c->report.n = sample_stack_frames(
		t->sampling.unwind, task, r, &layout, t->sampling.jit_room, c->report.frames, &c->report.stop);
	c->report.nowhere = is_nowhere(&c->report.frames[0]);
	if (c->report.nowhere)
		from_caller(c, task, r);
}

static void find_calls(struct crash_record *c, struct process *task)
{
	const uint64_t n = c->report.says.calls_n < SHM_CALLS_MAX ? c->report.says.calls_n : SHM_CALLS_MAX;
	for (uint64_t i = 0; i < n; i++)
		c->report.calls[c->report.n_calls++] =
			sample_stack_frame(task, c->report.says.calls[i], false, c->target->sampling.jit_room);
}

static void find_mappings(struct crash_record *c, const struct address_space *s)
{
	const size_t all = s ? address_space_count(s) : 0,
		     n = all < CRASH_RECORD_MAPPINGS_MAX ? all : CRASH_RECORD_MAPPINGS_MAX;
	c->report.mappings = calloc(n + 1, sizeof(c->report.mappings[0]));
	for (size_t i = 0; c->report.mappings && i < n; i++) {
		const struct mapping *m = address_space_at(s, i);
		const struct module_key *key = mapping_key(m);
		struct crash_mapping *to = &c->report.mappings[c->report.n_mappings];
		char id[2 * ELF_BUILD_ID_MAX + 1] = "";
		for (size_t k = 0; k < key->build_id_len && k < ELF_BUILD_ID_MAX; k++)
			snprintf(id + 2 * k, 3, "%02x", key->build_id[k]);
		*to = (struct crash_mapping){m->start, m->end, m->pgoff, strdup(key->path), strdup(id)};
		c->report.n_mappings++;
	}
}

/* --- a report of it -------------------------------------------------------------------------------------- */

static struct crash_record *crash_record_free(struct crash_record *c)
{
	if (!c)
		return NULL;
	symbol_requests_free(c->naming);
	aggregate_free(c->counts);
	for (size_t i = 0; i < c->report.n_mappings; i++) {
		free(c->report.mappings[i].path);
		free(c->report.mappings[i].build_id);
	}
	free(c->report.mappings);
	free(c);
	return NULL;
}

static void say_lost(const struct target *t, uint32_t pid, const char *why)
{
	log_line(LOG_ERR, "target=%s pid=%u outcome=crash_not_reported reason=\"%s\"", t ? t->desc.id : "", pid, why);
}

void crash_record_written(struct target *t, const struct export_profile *p, const char *path, const struct err *e)
{
	if (path)
		log_line(LOG_INFO, "target=%s pid=%u outcome=crashed file=\"%s\"", p->id, p->seq, path);
	else
		say_lost(t, p->seq, e->text);
	if (!t)
		return;
	t->spool.unwritten--;
	target_free_if_done(t);
}

static void hand_over(struct crash_record *c)
{
	struct target *t = c->target;
	const struct target_desc *d = &t->desc;
	struct export_profile p = {.head.type = EXPORT_CRASH,
		.start_ns = c->report.real,
		.duration_ns = 0,
		.samples = 1,
		.seq = c->report.pid};
	struct err e = {0};
	char *text = NULL;
	size_t len = 0;
	snprintf(p.event, sizeof(p.event), "crash");
	snprintf(p.id, sizeof(p.id), "%s", d->id);
	snprintf(p.name, sizeof(p.name), "%s", d->name);
	snprintf(p.pod, sizeof(p.pod), "%s", d->pod);
	snprintf(p.pod_namespace, sizeof(p.pod_namespace), "%s", d->pod_namespace);
	FILE *out = open_memstream(&text, &len);
	int r = out ? crash_report_json(&c->report, out) : -ENOMEM;
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	p.bytes = len;
	if (r < 0 || !t->engine->spool.exporter) {
		free(text);
		say_lost(t, c->report.pid, r < 0 ? strerror(-r) : "there is no exporter");
		return;
	}
	r = exporter_write(t->engine->spool.exporter, &p, (uint8_t *)text, t, &e);
	if (r < 0)
		say_lost(t, c->report.pid, e.text);
	t->spool.unwritten += r == 0;
}

static void refresh_code(const struct crash_record *c)
{
	const int64_t now = clock_now();
	for (size_t i = 0; i < c->report.n; i++)
		if (c->report.frames[i].kind == FRAME_JIT)
			jit_refresh(c->report.frames[i].jit, now, target_open_named, c->target);
}

/* The target may end with this report, but not here: engine_schedule_target checks. */
static void finish_crash(struct crash_record *c)
{
	struct target *t = c->target;
	for (struct crash_record **at = &t->crash.records; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	refresh_code(c);
	hand_over(c);
	crash_record_free(c);
	engine_schedule_target(t->engine, t, 0);
}

static void on_named(void *arg)
{
	finish_crash(arg);
}

/* True: the fault is near the stack pointer, just above which there is a stack. */
static bool is_stack_over(const struct crash_record *c, uint64_t copied)
{
	const uint64_t sp = c->report.regs.r[UNWIND_SP], at = c->report.says.address;
	return copied && c->report.says.signal == SIGSEGV && c->report.says.code > 0 && at && at + OVER_BELOW >= sp &&
	       at < sp + OVER_ABOVE;
}

static void fill_crash_record(
	struct crash_record *c, const struct process *task, const struct record *r, const struct shm_record *from)
{
	const int64_t ago = clock_now() - (int64_t)r->time;
	c->report.real = clock_real() - (ago > 0 && (int64_t)r->time > 0 ? ago : 0);
	c->report.pid = r->pid;
	c->report.tid = r->tid;
	c->report.says = *shm_reader_crash(from);
	c->report.regs = r->sample.regs;
	snprintf(c->report.process, sizeof(c->report.process), "%.15s", task->comm);
	snprintf(c->report.exe, sizeof(c->report.exe), "%.63s", task->exe);
	snprintf(c->report.thread, sizeof(c->report.thread), "%.15s", c->report.says.more.name);
	c->report.stack_is_over = is_stack_over(c, r->sample.stack_size);
}

static unsigned count_pending(const struct target *t)
{
	unsigned n = 0;
	for (const struct crash_record *c = t->crash.records; c; c = c->next)
		n++;
	return n;
}

static void count_crash(const struct crash_record *c, uint32_t event, const struct process *task)
{
	const struct sample_origin who = {c->report.pid, c->report.tid, task->comm, c->report.thread, task->exe, NULL};
	aggregate_add(c->counts, c->report.frames, c->report.n, &who, 1, 1);
	aggregate_add(c->counts, c->report.calls, c->report.n_calls, &who, 1, 1);
	aggregate_add(c->target->sampling.counts[event], c->report.frames, c->report.n, &who, 1, 1);
	c->target->sampling.tally.weight[event]++;
	c->target->sampling.changed = true;
}

static bool may_report(struct target *t)
{
	const int64_t now = clock_now(), least = now - CRASH_RECORD_BURST * CRASH_RECORD_EVERY_NS;
	t->crash.credit = t->crash.credit > least ? t->crash.credit : least;
	if (t->crash.credit + CRASH_RECORD_EVERY_NS > now)
		return false;
	t->crash.credit += CRASH_RECORD_EVERY_NS;
	return true;
}

void crash_record_take(
	struct target *t, uint32_t event, struct process *task, const struct record *r, const struct shm_record *from)
{
	struct crash_record *c = calloc(1, sizeof(*c));
	if (c && aggregate_new(&c->counts) < 0)
		c = crash_record_free(c);
	if (!c) {
		say_lost(t, r->pid, "there is no memory");
		return;
	}
	c->target = t;
	c->report.desc = &t->desc;
	fill_crash_record(c, task, r, from);
	if (t->sampling.quarantined) {
		c->report.n = sample_stack_plain(r, c->report.frames);
	} else {
		find_frames(c, task, r);
		find_calls(c, task);
		find_mappings(c, task->space);
	}
	count_crash(c, event, task);
	if (!may_report(t)) {
		log_line(engine_peer_level(t->engine),
			"target=%s pid=%u outcome=crash_not_reported reason=\"there were %d at once\"", t->desc.id,
			c->report.pid, CRASH_RECORD_BURST);
		crash_record_free(c);
		return;
	}
	const bool many = count_pending(t) >= CRASH_RECORD_PENDING_MAX;
	c->next = t->crash.records;
	t->crash.records = c;
	if (!many)
		c->naming = symbol_requests_start(
			t, &c->counts, 1, SYMBOL_REQUESTS_CRASH, clock_now() + NAMES_NS, on_named, c);
	if (!c->naming)
		finish_crash(c);
}

int crash_record_round(struct target *t, int64_t now)
{
	int wait = -1;
	for (struct crash_record *c = t->crash.records, *next; c; c = next) {
		next = c->next;
		wait = event_loop_sooner(wait, symbol_requests_round(c->naming, now));
	}
	return wait;
}

void crash_record_forget(struct target *t)
{
	while (t->crash.records) {
		struct crash_record *c = t->crash.records;
		t->crash.records = c->next;
		crash_record_free(c);
	}
}

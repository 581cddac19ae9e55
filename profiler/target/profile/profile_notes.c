/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/profile/profile_builder.h"

#include "oci/base/clock.h"
#include "profiler/inproc/inproc.h"
#include "profiler/process/supervisor_link.h"
#include "profiler/sample/event_counts.h"
#include "profiler/target/symbolizer_link.h"
#include "profiler/target/target_rate.h"
#include "shim/attach/file_opener.h"
#include "shim/event/attach_strategy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

static int add_loss(struct profile_builder *b, const char *frame, uint64_t count, uint64_t weight)
{
	static const struct sample_origin nobody = {.process = "", .thread = "", .exe = ""};
	static const struct sample_detail any_time;
	int64_t loc = profile_named_location(b->p, PROFILE_NONE, 0, frame);
	int64_t set = loc < 0 ? loc : profile_labels_add(b, &nobody, &any_time);
	/* processes with libpillion write some of these numbers: no value is negative */
	int64_t values[PROFILE_BUILDER_TYPES] = {
		count < INT64_MAX ? (int64_t)count : INT64_MAX, weight < INT64_MAX ? (int64_t)weight : INT64_MAX};
	return set < 0 ? (int)set : profile_sample_of(b->p, (uint32_t[]){(uint32_t)loc}, 1, values, (uint32_t)set);
}

static int add_comment(struct profile_builder *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int add_comment(struct profile_builder *b, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return profile_comment(b->p, text);
}

/* Returns the value of `weight` events without a sample: if the event has a value field, by the average of samples. */
static uint64_t scale_weight(const struct profile_builder *b, uint64_t weight)
{
	const struct sample_tally *y = &b->w->tally;
	const uint64_t seen = y->weight[b->spec];
	if (!b->t->desc.events[b->spec].value_size)
		return weight;
	return seen ? event_counts_scaled(weight, (double)y->value[b->spec] / (double)seen) : 0;
}

static int add_unsampled(struct profile_builder *b)
{
	const struct event_spec *spec = &b->t->desc.events[b->spec];
	const bool timers = b->t->desc.strategy == STRATEGY_TIMERS;
	const bool clock = event_kind(spec->kind)->measure == MEASURES_CPU,
		   user = clock && !timers && !b->t->desc.kernel;
	if (!b->kernel->unsampled)
		return 0;
	int r = add_loss(b, user ? "[kernel, not permitted]" : "[unsampled]", b->kernel->unsampled / spec->period,
		scale_weight(b, b->kernel->unsampled));
	if (r == 0 && user)
		return add_comment(b,
			"[kernel, not permitted] is CPU time by the kernel's count without a sample: code that "
			"kernel.perf_event_paranoid hides, or threads that ended between two samples");
	if (r == 0 && timers)
		return add_comment(b,
			"[unsampled] is CPU time by the processes' own account without a sample: of threads that ended "
			"before they were seen, of programs that began or ended between two samples, of those that "
			"block "
			"all signals");
	return r < 0 ? r
		     : add_comment(b, "[unsampled] is %s: a %s shows more of it, and attaching by cgroup all",
			       clock ? "CPU time of threads that ended between two samples"
				     : "what threads did behind their last samples",
			       clock ? "higher rate" : "shorter period");
}

static int add_unseen(struct profile_builder *b)
{
	const struct sample_tally *y = &b->w->tally;
	uint64_t period = b->t->desc.events[b->spec].period;
	int r = 0;
	if (!y->restarts)
		return 0;
	if (b->kernel->unseen)
		r = add_loss(b, "[lost: profiler restarted]", b->kernel->unseen / period,
			scale_weight(b, b->kernel->unseen));
	return r < 0 ? r
		     : add_comment(b, "the profiler was restarted %" PRIu64 " times: up to %.2f s of samples were lost",
			       y->restarts, (double)y->gap / NSEC_PER_SEC);
}

/* Adds lost samples of memory, each with the average of this window, and memory that could not be sampled. */
static int add_lost_memory(struct profile_builder *b)
{
	const struct sample_tally *y = &b->w->tally;
	const struct event_spec *spec = &b->t->desc.events[b->spec];
	const double taken = (double)y->taken[b->spec], lost = (double)y->inproc_lost;
	if (event_kind(spec->kind)->measure != MEASURES_ALLOC)
		return 0;
	int r = y->inproc_awaited ? add_loss(b, frame_lost, 0, y->inproc_awaited) : 0;
	if (r < 0 || !y->inproc_lost)
		return r;
	if (!y->taken[b->spec])
		return add_loss(b, frame_lost, y->inproc_lost, y->inproc_lost * spec->period);
	return add_loss(b, frame_lost, (uint64_t)((double)y->counted[b->spec] / LIVE_HEAP_PART / taken * lost),
		event_counts_scaled(y->weight[b->spec], lost / taken));
}

int profile_notes_add_losses(struct profile_builder *b)
{
	const struct sample_tally *y = &b->w->tally;
	uint64_t overflow = aggregate_overflow(b->counts);
	int r = 0;
	if (b->kernel->lost)
		r = add_loss(b, frame_lost, b->kernel->lost, scale_weight(b, b->kernel->lost_weight));
	if (r == 0)
		r = add_lost_memory(b);
	if (r == 0)
		r = add_unseen(b);
	if (r == 0)
		r = add_unsampled(b);
	if (r == 0 && !b->kernel->lost_known && y->lost_shared)
		r = add_comment(b,
			"lost on rings shared with other targets: %" PRIu64 " records, of which targets is unknown",
			y->lost_shared);
	if (r == 0 && y->throttled)
		r = add_comment(b, "throttled by the kernel %" PRIu64 " times: kernel.perf_event_max_sample_rate",
			y->throttled);
	if (r == 0 && b->kernel->had_counter <= 0)
		r = add_comment(b, "never counted: the CPU has fewer counters than there are events");
	else if (r == 0 && b->kernel->had_counter < EVENT_COUNTS_ALWAYS)
		r = add_comment(b,
			"counted for %.1f %% of the time, as the CPU has fewer counters than there are events: scaled "
			"up",
			100 * b->kernel->had_counter);
	if (r == 0 && y->doubled)
		r = add_comment(b, "events of threads that were attached to twice and then once: %" PRIu64, y->doubled);
	if (r == 0 && overflow)
		r = add_comment(b,
			"[lost: table full] %" PRIu64 " samples of stacks that were new: there was no room for more "
			"(setting table_size, or %u stacks)",
			overflow, AGGREGATE_SAMPLES_MAX);
	if (r == 0 && aggregate_untimed(b->counts))
		r = add_comment(b,
			"%" PRIu64 " samples have no time and no CPU: %u of a window have them at most; a shorter "
			"window shows more",
			aggregate_untimed(b->counts), AGGREGATE_TIMED_MAX);
	if (r == 0 && y->malformed)
		r = add_comment(b, "malformed records: %" PRIu64, y->malformed);
	if (r == 0 && y->damaged)
		r = add_comment(b,
			"skipped a ring %" PRIu64
			" times, as it held what no kernel writes: the records behind that, nobody knows how "
			"many, are in no profile",
			y->damaged);
	if (r == 0 && b->w->uncovered[0])
		r = add_comment(b,
			"not covered: CPU %s, which came up after events were opened, or went and came back: what runs "
			"there has no sample",
			b->w->uncovered);
	return r;
}

/* Names processes in the container's cgroup that were not sampled so far. */
static int name_unseen(struct profile_builder *b)
{
	char text[PROCESS_LIST_MAX], list[512] = "", *save = NULL, *name;
	size_t at = 0;
	if (supervisor_list_processes(b->t->engine->host.channel, b->t->number, text, sizeof(text)) < 0)
		return 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		unsigned long pid = strtoul(line, &name, 10);
		const struct process *p = process_table_find(b->t->sampling.processes, (uint32_t)pid);
		if (!(p && p->sampled) && at < sizeof(list))
			at += (size_t)snprintf(
				list + at, sizeof(list) - at, "%s%s (pid %lu)", at ? ", " : "", name + 1, pid);
	}
	return list[0] ? add_comment(b, "in the container but not sampled so far: %s", list) : 0;
}

/* Returns CPU time (ns) of the container's account that is not in the profile already. */
static uint64_t beyond_account(const struct profile_builder *b)
{
	const struct sample_tally *y = &b->w->tally;
	uint64_t used = b->w->cpu_used * 1000, sampled = event_counts_scaled(y->weight[b->spec], b->kernel->correct) +
							 b->kernel->lost_weight + b->kernel->unsampled +
							 b->kernel->unseen + y->before_weight[b->spec];
	return b->t->usage.cpu_stat >= 0 && b->t->desc.kernel && used > sampled ? used - sampled : 0;
}

/*
 * The strategy `process` misses processes that the init did not fork (exec sessions), and programs that are setuid or
 * unreadable (the kernel detaches events at their exec).
 */
static int add_not_covered(struct profile_builder *b)
{
	uint64_t missing = beyond_account(b), used = b->w->cpu_used * 1000;
	int r = add_comment(
		b, "strategy process: exec sessions and setuid or unreadable programs are not in this profile");
	if (r < 0 || b->t->usage.cpu_stat < 0)
		return r;
	if (missing > 50 * NSEC_PER_MSEC && missing > used / 20)
		r = add_loss(b, "[lost: not covered by strategy process]", missing / b->t->desc.events[b->spec].period,
			missing);
	return r < 0 ? r : name_unseen(b);
}

/*
 * The strategy `cgroup` misses only CPUs without an event, and the time until an event's clock begins after it has been
 * put on the CPU: for a thread that goes on and off all the time that is a good part. These causes cannot be told
 * apart, so the largest one is named for all of it.
 */
static int add_unclocked(struct profile_builder *b)
{
	const struct window *w = b->w;
	uint64_t missing = beyond_account(b), used = w->cpu_used * 1000;
	char bare[sizeof("[lost: cpu  not covered]") + CPU_COVERAGE_LIST_MAX];
	const char *frame = "[unsampled]", *why = "going on a CPU, mostly";
	if (missing < PROFILE_BUILD_UNCLOCKED_NS || missing < used / 50)
		return 0;
	if (w->uncovered[0]) {
		snprintf(bare, sizeof(bare), "[lost: cpu %s not covered]", w->uncovered);
		frame = bare;
		why = "there was no event of the container's, mostly";
	} else if (w->tally.throttled) {
		frame = "[throttled]";
		why = "the kernel had stopped sampling";
	}
	int r = add_loss(b, frame, missing / b->t->desc.events[b->spec].period, missing);
	return r < 0 ? r
		     : add_comment(b, "%s is CPU time by the container's account that no clock saw: %s", frame, why);
}

int profile_notes_add_account(struct profile_builder *b)
{
	if (event_kind(b->t->desc.events[b->spec].kind)->measure != MEASURES_CPU)
		return 0;
	switch (b->t->desc.strategy) {
	case STRATEGY_CGROUP:
		return add_unclocked(b);
	case STRATEGY_PROCESS:
		return add_not_covered(b);
	default:
		return 0;
	}
}

/* "stack snapshots: 1530 of 8 KiB, 412 of 32 KiB" */
static int add_snapshots(struct profile_builder *b)
{
	const uint64_t *rungs = b->w->tally.rungs[b->spec];
	char list[128] = "";
	for (uint32_t i = 1; i <= PERF_RUNGS; i++) {
		size_t at = strlen(list);
		if (rungs[i])
			snprintf(list + at, sizeof(list) - at, "%s%" PRIu64 " of %u KiB", at ? ", " : "", rungs[i],
				b->t->events.dump_sizes[b->spec].size[i] / 1024);
	}
	return list[0] ? add_comment(b, "stack snapshots: %s", list) : 0;
}

/* Comments on lowered sampling: by how much, how, and why. Weights are right without it. */
static int add_rate(struct profile_builder *b)
{
	const struct window *w = b->w;
	const struct rate_control *all = &b->t->engine->rates;
	int r = 0;
	if (w->rate_most > 1)
		r = add_comment(b,
			"rate lowered: sampled at 1/%.1f of the rate that was asked for, by %s; weights are scaled",
			w->rate_most, target_rate_way_name(b->t));
	if (r == 0 && w->by_cap)
		r = add_comment(b,
			"rate lowered: more than target_rate (%" PRIu64 " samples) or target_bytes (%" PRIu64
			") a second",
			all->limits.samples, all->limits.bytes);
	if (r == 0 && w->by_budget)
		r = add_comment(b,
			"rate lowered: sampling all targets costs more than cpu_budget has for it (%.2f s a minute)",
			(double)all->allowed * CPU_BUDGET_SECONDS / NSEC_PER_SEC);
	if (r == 0 && w->early)
		r = add_comment(b,
			"this window ended early: stacks of all targets took more than three quarters of table_size");
	if (r == 0 && w->tally.labels_lost)
		r = add_comment(b,
			"labels changed more often than they were read, %" PRIu64
			" times unseen: then their threads have none, until their next one",
			w->tally.labels_lost);
	return r;
}

/* Comments on processes with libpillion that are not in the profile, or says that no process has it. */
static int add_missing(struct profile_builder *b)
{
	int error, r = 0;
	const unsigned unable = inproc_unable(b->t->apps, &error);
	if (unable)
		r = add_comment(b,
			"%u processes with libpillion so far are not in this profile: they have no memory to share "
			"(%s)",
			unable, strerror(-error));
	else if (!inproc_seen(b->t->apps))
		r = add_comment(b,
			"no process has libpillion: a static program loads no library, and one that was given another "
			"environment does not know of it");
	return r;
}

/* Comments on memory, calls and crashes: the number of processes, and the losses. */
static int add_apps(struct profile_builder *b)
{
	const struct sample_tally *y = &b->w->tally;
	const struct event_spec *spec = &b->t->desc.events[b->spec];
	const enum event_measure measure = event_kind(spec->kind)->measure;
	const unsigned seen = inproc_seen(b->t->apps);
	int r = 0;
	if (measure == MEASURES_CRASH)
		r = add_comment(b, "crashes: of %u processes with libpillion so far", seen);
	else if (measure == MEASURES_ALLOC)
		r = add_comment(b, "memory: %u processes with libpillion so far, a sample every %" PRIu64 " bytes",
			seen, spec->period);
	else if (measure == MEASURES_CALLS)
		r = add_comment(b, "calls: all, in %u processes with libpillion so far", seen);
	else
		return 0;
	if (r == 0 && measure == MEASURES_CALLS && seen && !aggregate_samples(b->counts))
		r = add_comment(
			b, "there were none: functions are counted that are compiled with -finstrument-functions");
	if (r == 0)
		r = add_missing(b);
	if (r == 0 && measure == MEASURES_ALLOC && y->inproc_awaited)
		r = add_comment(b,
			"[lost] includes %" PRIu64
			" bytes that were allocated before the profiler had answered their process; "
			"the number of objects is unknown",
			y->inproc_awaited);
	if (r == 0 && inproc_turned_away(b->t->apps))
		r = add_comment(b,
			"more than %u processes with libpillion at a time, or no descriptors for them: %" PRIu64
			" times one more was turned away so far",
			INPROC_MAX, inproc_turned_away(b->t->apps));
	if (r == 0 && measure != MEASURES_CALLS && y->inproc_lost)
		r = add_comment(b,
			"[lost] %" PRIu64 " %s: there was no room in their process' area, or it ended as it wrote them",
			y->inproc_lost, measure == MEASURES_CRASH ? "crashes" : "samples of memory");
	return r;
}

/* Comments on CPU time by timers. */
static int add_timers(struct profile_builder *b)
{
	const struct target *t = b->t;
	if (t->desc.strategy != STRATEGY_TIMERS || event_kind(t->desc.events[b->spec].kind)->measure != MEASURES_CPU)
		return 0;
	int r = add_comment(b,
		"timers: %u processes with libpillion so far, %u of them with a sample, by CPU timers of their "
		"threads, as "
		"perf events are refused; what the kernel did for them is at the system call; programs without it are "
		"not "
		"in this profile, nor are those that handle every signal (Go's)",
		inproc_seen(t->apps), inproc_sampled(t->apps));
	return r < 0 ? r : add_missing(b);
}

/* Comments on a profile of waits: its contents, and its losses. */
static int add_waits(struct profile_builder *b)
{
	const struct event_spec *spec = &b->t->desc.events[b->spec];
	const struct sample_tally *y = &b->w->tally;
	if (event_kind(spec->kind)->measure != MEASURES_OFFCPU)
		return 0;
	const bool cgroup = b->t->desc.strategy == STRATEGY_CGROUP;
	int r = 0;
	if (cgroup || b->t->desc.kernel)
		r = add_comment(b, "threads went off their CPUs %" PRIu64 " times; of %" PRIu64 " there is a stack",
			y->switches, y->stacks);
	else
		r = add_comment(b,
			"threads went off their CPUs %" PRIu64 " times; %s: where they were seen last before, as "
			"kernel.perf_event_paranoid hides where they waited",
			y->switches, frame_approximate);
	if (r == 0 && spec->min_us)
		r = add_comment(b, "%s is waits of less than %u us: offcpu:min=0 shows where they are", frame_short,
			spec->min_us);
	if (r == 0 && y->idle)
		r = add_comment(b,
			"%" PRIu64 " threads that never ran in this window are left out (%.2f s): "
			"offcpu:idle shows where",
			y->idle, (double)y->idle_ns / NSEC_PER_SEC);
	if (r == 0 && y->unrecorded && cgroup)
		r = add_comment(b,
			"for %.2f s of the window switches were not recorded, as there were more than %u a second, %u "
			"on a CPU, or they cost too much; those that were stand for them",
			(double)y->unrecorded / NSEC_PER_SEC, OFFCPU_SWITCHES, OFFCPU_SWITCHES_CPU);
	else if (r == 0 && y->unrecorded)
		r = add_comment(b,
			"for %.2f s of the window switches were not recorded, as there were more than %u a second, or "
			"they cost too much; those that were stand for them",
			(double)y->unrecorded / NSEC_PER_SEC, OFFCPU_SWITCHES);
	if (r == 0 && y->restarts)
		r = add_comment(
			b, "waits under way when the profiler was restarted count from then on, as %s", frame_nowhere);
	if (r == 0 && y->wait_times_lost && !cgroup)
		r = add_comment(b,
			"of %" PRIu64 " records there was no room in the ring: what threads did then is taken from "
			"what they did before and behind",
			y->wait_times_lost);
	else if (r == 0 && y->wait_times_lost)
		r = add_comment(
			b, "%s of %" PRIu64 " switches there was no room in the ring", frame_lost, y->wait_times_lost);
	return r;
}

int profile_notes_add_comments(struct profile_builder *b)
{
	struct target *t = b->t;
	const struct sample_tally *y = &b->w->tally;
	struct utsname u = {0};
	uname(&u);
	int r = add_comment(b, "pillion %s, kernel %s, strategy %s, %s", VERSION, u.release,
		strategy_name(t->desc.strategy), t->desc.kernel ? "user and kernel code" : "user code only");
	if (r == 0 && t->desc.notes[0])
		r = add_comment(b, "%s", t->desc.notes);
	if (r == 0 && t->engine->perf.rings_note[0])
		r = add_comment(b, "%s", t->engine->perf.rings_note);
	if (r == 0)
		r = add_comment(b,
			"samples: %" PRIu64 ", before the program started (not counted): %" PRIu64
			", outside of the pid namespace: %" PRIu64,
			y->samples, y->before, y->outside);
	for (uint32_t i = 0; r == 0 && i < t->desc.n_events; i++) {
		if (!profile_build_has(t, b->profile, i))
			continue;
		b->spec = i;
		r = add_snapshots(b);
		if (r == 0)
			r = add_waits(b);
		if (r == 0)
			r = add_apps(b);
		if (r == 0)
			r = add_timers(b);
	}
	if (r == 0)
		r = add_rate(b);
	if (r == 0 && t->fs.account.silent)
		r = add_comment(
			b, "[unreadable] files were not read, or not to their end: the file system does not answer");
	if (r == 0 && (t->fs.opener.account.silent || t->fs.opener.ended))
		r = add_comment(b, "[unreadable] " FILE_OPENER_NONE "the process that opens them %s",
			t->fs.opener.ended ? "has ended" : "does not answer");
	if (r == 0 && t->sampling.quarantined)
		r = add_comment(b, "[quarantined] addresses only: profiling it has ended the profiler again and again");
	for (unsigned i = 0; r == 0 && i < b->n_quarantined; i++)
		r = add_comment(b,
			"quarantined, as reading it has ended the profiler again and again: functions are addresses "
			"only in %s",
			module_name(b->quarantined[i]));
	if (r == 0 && b->kernel_nameless && t->engine->symbols.kallsyms_none.code)
		r = add_comment(b, "functions of the kernel have no names, [kernel] alone: %s",
			t->engine->symbols.kallsyms_none.text);
	if (r == 0 && b->jit_denied[0])
		r = add_comment(b,
			"[anon] code made at run time has no names, as the profiler may not read them (%s); it may if "
			"others may, as with umask 022: %s",
			strerror(EACCES), b->jit_denied);
	if (r == 0 && t->desc.detail & DETAIL_CGROUP && !t->desc.cgroup[0])
		r = add_comment(b, "no label cgroup: what is profiled is processes, not a cgroup");
	if (r == 0 && target_files_broken(t->engine->symbols.files))
		r = add_comment(b, "[unreadable] files were not read: no process could be had for it");
	if (r == 0 && !symbolizer_link_works(t->engine))
		r = add_comment(b, "no source lines, no demangled names: the symbolizer has ended");
	if (r == 0 && b->w->unnamed)
		r = add_comment(b,
			"up to %zu addresses were not looked up in time: `pillion symbolize` adds their lines",
			b->w->unnamed);
	if (r == 0 && b->w->unasked)
		r = add_comment(b,
			"up to %zu addresses were not looked up: names have cost what this target, or cpu_budget, has "
			"for "
			"them; `pillion symbolize` adds their lines",
			b->w->unasked);
	if (r == 0 && y->code_stacks)
		r = add_comment(b,
			"%" PRIu64 " of %" PRIu64
			" stacks go through code without unwind tables: the way to its callers was read from the "
			"code itself",
			y->code_stacks, y->samples);
	for (unsigned i = UNWIND_END + 1; r == 0 && i < UNWIND_STOPS; i++)
		if (y->stops[i])
			r = add_comment(b, "%s %" PRIu64 " of %" PRIu64 " stacks", unwind_stop_name(i), y->stops[i],
				y->samples);
	return r;
}

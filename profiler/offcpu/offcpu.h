/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offcpu - a target's profile of waits: from records to profiler/offcpu/wait_times.h, from there to its counts.
 *
 * Each switch leaves a record: with a stack as long as switches are few, else a small one, and then for a few
 * milliseconds at a time with a stack, so that there are about as many stacks a second as were asked for (the events
 * take turns). Where there are more small records than OFFCPU_SWITCHES a second, or on a CPU OFFCPU_SWITCHES_CPU, or
 * cpu_budget lowers that, nothing is recorded for part of the time, and the records stand for that, too: their time
 * goes on faster (struct offcpu_time).
 *
 * Where events are inherited (profiler/offcpu/offcpu_inherited.c) records tell of both ends of a wait, and the same is
 * done for places and stacks; the stacks of a plain user's profile show where a thread was last seen on a CPU.
 *
 * When a window ends, a thread that has not gone off its CPU since its last record may wait or run. So a moment before,
 * the threads on a CPU are made to report: the events of PERF_ROLL_CALL are enabled for OFFCPU_CALL_MS.
 */
#pragma once

#include "profiler/perf/cpu_rings.h"
#include "profiler/perf/record.h"
#include "profiler/sample/sampling.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFCPU_CALL_MS 4	   /* periods of PERF_SEEN_NS */
#define OFFCPU_SWITCHES 100000u	   /* recorded of one target, a second, */
#define OFFCPU_SWITCHES_CPU 12000u /* and of one CPU: above it a part is recorded, a sixth at least */

struct offcpu;
struct open_event;

/* What offcpu has its target do. `target` is that of struct offcpu_owner. */
struct offcpu_ops {
	void (*drain)(void *target);	      /* reads the records of all events up to now */
	void (*hurry)(void *target);	      /* its next round is now */
	uint64_t (*cpu_usage)(void *target);  /* us, by the account of its cgroup; 0: unknown */
	bool (*all_cpus)(const void *target); /* each CPU has events of it */
	bool (*has_ended)(void *target);
	const char *(*labels)(const void *target, const struct record *r); /* of a thread, at a time */
};

/* The target that it measures. The pointers stay valid until offcpu_free. */
struct offcpu_owner {
	struct sampling *sampling;
	struct open_event *const *events; /* its first one */
	struct cpu_rings *const *rings;
	const struct cpu_rings_progress *progress;
	struct memory_limit *tables; /* of all targets */
	const unsigned *n_offcpu;    /* targets with wait times */
	const bool *early;	     /* the window under way ends for want of room */
	void *target;
	const struct offcpu_ops *ops;
};

/* True: its events are switched here, and nowhere else. False for a clock that stands in for them. */
bool offcpu_turns(const struct target_desc *d, uint32_t spec);
/* 0 or -ENOMEM. *ret is NULL where no event measures waits: then each function below does nothing. */
int offcpu_new(const struct offcpu_owner *owner, struct offcpu **ret);
struct offcpu *offcpu_free(struct offcpu *o);
size_t offcpu_memory(const struct offcpu *o); /* bytes */
void offcpu_arm(struct offcpu *o);	      /* all its events are open */
/* Its program begins: waits before that are the runtime's. */
void offcpu_begin(struct offcpu *o);
void offcpu_attached(struct offcpu *o); /* it runs already */
/*
 * A ring has woken the worker. Returns when all records that it was woken for can be read, INT64_MAX: nothing hurries.
 */
int64_t offcpu_woken(struct offcpu *o, int64_t now);
void offcpu_close(struct offcpu *o); /* its streams are about to be closed */
/* Adds a thread that was there before, and may have been off its CPU for long. */
void offcpu_adopt(struct offcpu *o, uint32_t pid, uint32_t tid);
/* After a worker was killed: the counts of its events so far are of before. */
void offcpu_resume(struct offcpu *o);

/*
 * A sample by one of its events: PERF_OFFCPU_SMALL, PERF_ROLL_CALL, or of PERF_SAMPLES with these frames; a record of
 * PERF_SWITCHES; a sample of its CPU time.
 */
void offcpu_record(
	struct offcpu *o, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n);
/* The rings had no room for `count` records before `time`; 0: for some, maybe another target's. */
void offcpu_lost(struct offcpu *o, uint64_t count, uint32_t cpu, int64_t time);
/* FORK, EXIT, COMM: before the process table gets them. */
void offcpu_sideband(struct offcpu *o, const struct record *r);

/*
 * Switches phases, and adds the waits known by now to its counts. Returns milliseconds until the next call, -1: never.
 */
int offcpu_round(struct offcpu *o, int64_t now);
/* Its window is about to end: returns milliseconds until it can, 0 = now. */
int offcpu_call(struct offcpu *o);
void offcpu_call_now(struct offcpu *o); /* waits for it */
void offcpu_end(struct offcpu *o);	/* adds all waits of the window to its counts */

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

#include "oci/base/string_table.h"
#include "profiler/perf/record.h"
#include "profiler/sample/aggregate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFCPU_CALL_MS 4	   /* periods of PERF_SEEN_NS */
#define OFFCPU_SWITCHES 100000u	   /* recorded of one target, a second, */
#define OFFCPU_SWITCHES_CPU 12000u /* and of one CPU: above it a part is recorded, a sixth at least */

#define OFFCPU_RECENT 16

struct target;
struct open_event;

enum offcpu_phase {
	OFFCPU_SMALL, /* records without stacks */
	OFFCPU_TURN,  /* records with stacks, for a moment */
	OFFCPU_ALL,   /* records with stacks, as long as there are few */
	OFFCPU_PAUSE  /* no records */
};

/*
 * The time of waits. It stands still in a pause, and catches up behind it; then it goes like any other. So do the
 * clocks of CPUs, by a scale of their own: a recorded program runs longer for each switch than in the pause for which
 * the records stand, and how long it ran then is known.
 */
struct offcpu_time {
	int64_t since, until;
	uint64_t from;
	double scale, clock_scale;
};

/* Of one target. */
struct offcpu {
	const struct offcpu_method *way;
	struct wait_times *waits; /* NULL: no event measures waits */
	uint32_t spec;		  /* which of its events */
	struct offcpu_cpu {
		struct open_event *small, *stacks, *sideband, *seen;
		struct open_event *active;	 /* small or stacks; NULL: in a pause */
		uint64_t count, ran, clock_then; /* when its turn began: records, clock, the side-band's clock */
		uint64_t switched_then;		 /* and its count of switches; 0: it has none */
		uint64_t own[2];		 /* the values of the active one then, */
		int64_t read;			 /* and when they were read */
	} * cpus;
	size_t n_cpus;
	enum offcpu_phase phase, before;
	double running;	     /* CPU time per time, when small records were last made */
	struct offcpu_pace { /* how long they ran from switch to switch, */
		double switches, ran;
	} recorded, unrecorded;		      /* with small records, and without any */
	struct offcpu_time time, time_before; /* now, and before the last change */
	int64_t looked;			      /* time of the last look; since then: */
	uint64_t switches;
	bool woken;	 /* by a ring, which switches may fill */
	int64_t checked; /* when it was last checked whether they do, */
	uint64_t switches_then;
	int64_t cost;	     /* of a change of phases, ns: calls for each CPU */
	bool too_many;	     /* lately */
	int64_t until, look; /* the end of the phase; OFFCPU_ALL: how long it was meant to be */
	int64_t turn_due;    /* of stacks, the next one */
	uint64_t took;	     /* stacks, in the last turn */
	int64_t called;	     /* when the roll call began, 0: it has not */
	int64_t told;
	uint64_t lost_told, random;
	int64_t recent[OFFCPU_RECENT]; /* by switches: when the last ones were, a ring buffer */
	unsigned n_recent;
	int64_t rest; /* from one turn of stacks to the next */
	struct string_table
		labels; /* that threads had when they went off: wait_at.labels is one more than the index here */
	bool own_clock; /* a plain user's: it has a clock beside that of `cpu`, which gives no stacks then */
};

/* True: its events are switched here, and nowhere else. False for a clock that stands in for them. */
bool offcpu_turns(const struct target *t, uint32_t spec);
int offcpu_new(struct target *t); /* where one of its events measures waits; 0, -ENOMEM */
void offcpu_free(struct target *t);
void offcpu_arm(struct target *t); /* all its events are open */
/* Its program begins: waits before that are the runtime's. */
void offcpu_begin(struct target *t);
void offcpu_attached(struct target *t); /* it runs already */
/*
 * A ring has woken the worker. Returns when all records that it was woken for can be read, INT64_MAX: nothing hurries.
 */
int64_t offcpu_woken(struct target *t, int64_t now);
void offcpu_close(struct target *t); /* its streams are about to be closed */
/* Adds a thread that was there before, and may have been off its CPU for long. */
void offcpu_adopt(struct target *t, uint32_t pid, uint32_t tid);
/* After a worker was killed: the counts of its events so far are of before. */
void offcpu_resume(struct target *t);

/*
 * A sample by one of its events: PERF_OFFCPU_SMALL, PERF_ROLL_CALL, or of PERF_SAMPLES with these frames; a record of
 * PERF_SWITCHES; a sample of its CPU time.
 */
void offcpu_record(
	struct target *t, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n);
/* The rings had no room for `count` records before `time`; 0: for some, maybe another target's. */
void offcpu_lost(struct target *t, uint64_t count, uint32_t cpu, int64_t time);
/* FORK, EXIT, COMM: before the process table gets them. */
void offcpu_sideband(struct target *t, const struct record *r);

/*
 * Switches phases, and adds the waits known by now to its counts. Returns milliseconds until the next call, -1: never.
 */
int offcpu_round(struct target *t, int64_t now);
/* Its window is about to end: returns milliseconds until it can, 0 = now. */
int offcpu_call(struct target *t);
void offcpu_call_now(struct target *t); /* waits for it */
void offcpu_end(struct target *t);	/* adds all waits of the window to its counts */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offcpu - a target's profile of waits: from records to profiler/offcpu/wait_times.h, from there to what it counts.
 *
 * Each switch leaves a record: with a stack as long as there are few, else a small one, and then for a few milliseconds
 * at a time with a stack, so that there are about as many of them a second as were asked for (the events take turns).
 * Where there are more of the small ones than OFFCPU_SWITCHES a second, or on a CPU OFFCPU_SWITCHES_CPU, or cpu_budget
 * lowers that, nothing is recorded for part of the time, and what is stands for that, too: its time goes on faster
 * (struct offcpu_time).
 *
 * Where events are inherited (profiler/offcpu/offcpu_inherited.c) records tell of both ends of a wait, and the same is
 * done for places and stacks; a plain user's are where a thread was seen on a CPU last.
 *
 * When a window ends, who has not gone off his CPU since the last record may wait or run. So a moment before, who is on
 * a CPU is called upon to say so: the events of PERF_ROLL_CALL are enabled for OFFCPU_CALL_MS.
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
#define OFFCPU_SWITCHES_CPU 12000u /* of one CPU: above, a part, a sixth at least */

#define OFFCPU_RECENT 16

struct target;
struct open_event;

enum offcpu_phase {
	OFFCPU_SMALL, /* records without stacks */
	OFFCPU_TURN,  /* with, for a moment */
	OFFCPU_ALL,   /* with, as long as there are few */
	OFFCPU_PAUSE  /* none */
};

/*
 * The time that waits are told. It stands still in a pause, and catches up behind it; then it goes like any other. So
 * do the clocks of CPUs, by a scale of their own: a program for which records are made runs longer for each switch than
 * in the pause for which they stand, and how long it ran then is known.
 */
struct offcpu_time {
	int64_t since, until;
	uint64_t from;
	double scale, clock_scale;
};

/* Of one target. */
struct offcpu {
	const struct offcpu_method *way;
	struct wait_times *waits; /* NULL: nobody asked */
	uint32_t spec;		  /* which of its events */
	struct offcpu_cpu {
		struct open_event *small, *stacks, *sideband, *seen;
		struct open_event *active;	 /* small or stacks; NULL: in a pause */
		uint64_t count, ran, clock_then; /* when its turn began: records, clock, the side-band's, */
		uint64_t switched_then;		 /* and that's count of switches; 0: it has none */
		uint64_t own[2];		 /* what the active one said then, */
		int64_t read;			 /* and when */
	} * cpus;
	size_t n_cpus;
	enum offcpu_phase phase, before;
	double running;	     /* CPUs' time in time, while small records were made last */
	struct offcpu_pace { /* how long they ran from switch to switch, */
		double switches, ran;
	} recorded, unrecorded;		      /* with small records, and without any */
	struct offcpu_time time, time_before; /* now, and before the last change */
	int64_t looked;			      /* since then: */
	uint64_t switches;
	bool woken;	 /* by a ring, which they may fill */
	int64_t checked; /* whether they do, */
	uint64_t switches_then;
	int64_t cost;	     /* of a change of phases, ns: calls for each CPU */
	bool too_many;	     /* lately */
	int64_t until, look; /* the end of the phase; OFFCPU_ALL: how long it was meant to be */
	int64_t turn_due;    /* of stacks, again */
	uint64_t took;	     /* stacks, in the last turn */
	int64_t called;	     /* the roll call has begun */
	int64_t told;
	uint64_t lost_told, random;
	int64_t recent[OFFCPU_RECENT]; /* by switches: when the last ones were, in a circle */
	unsigned n_recent;
	int64_t rest; /* from one turn of stacks to the next */
	struct string_table
		labels; /* that threads had when they went off: wait_at.labels is one more than the number there */
	bool own_clock; /* of a plain user's: there is one beside that of `cpu`, whose stacks are others */
};

/* Its events are switched here, and by nobody else. Not a clock that stands in for them. */
bool offcpu_turns(const struct target *t, uint32_t spec);
int offcpu_new(struct target *t); /* where one of its events measures waits; 0, -ENOMEM */
void offcpu_free(struct target *t);
void offcpu_arm(struct target *t); /* all its events are there */
/* Its program begins: what was before is the runtime's. */
void offcpu_begin(struct target *t);
void offcpu_attached(struct target *t); /* it runs already */
/* A ring has woken us up. When all that it was woken for can be read, INT64_MAX: nothing hurries. */
int64_t offcpu_woken(struct target *t, int64_t now);
void offcpu_close(struct target *t); /* its streams are about to go */
/* One that was there before, and may have been off its CPU for long. */
void offcpu_adopt(struct target *t, uint32_t pid, uint32_t tid);
/* Behind a worker that was killed: what its events have counted is of before. */
void offcpu_resume(struct target *t);

/*
 * A sample by one of its events: PERF_OFFCPU_SMALL, PERF_ROLL_CALL, or of PERF_SAMPLES with these frames; a record of
 * PERF_SWITCHES; a sample of its CPU time.
 */
void offcpu_record(
	struct target *t, struct open_event *st, const struct record *r, const struct stack_frame *frames, size_t n);
/* There was no room for so many records before then: 0: some, maybe others'. */
void offcpu_lost(struct target *t, uint64_t count, uint32_t cpu, int64_t time); /* by then */
/* FORK, EXIT, COMM: before the processes hear of it. */
void offcpu_sideband(struct target *t, const struct record *r);

/* Whose turn it is, and into its counts what is known by now. Milliseconds until it is to be called again, -1: never.
 */
int offcpu_round(struct target *t, int64_t now);
/* Its window is about to end: milliseconds until it can, 0 = now. */
int offcpu_call(struct target *t);
void offcpu_call_now(struct target *t); /* waits for it */
void offcpu_end(struct target *t);	/* all of the window, into its counts */

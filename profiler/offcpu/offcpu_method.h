/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offcpu_method - the state of a target's profile of waits, for the files that make up offcpu.h alone; the functions of
 * profiler/offcpu/offcpu.c that both ways of measuring waits share, and the functions of each way:
 *
 *	by turns	(strategy `cgroup`) records of each switch, which tell how long the target ran on that CPU
 *	by switches	(events that are inherited) records of going off and of coming back
 */
#pragma once

#include "oci/base/string_table.h"
#include "profiler/offcpu/offcpu.h"
#include "profiler/offcpu/wait_times.h"
#include "profiler/perf/open_events.h"

#define OFFCPU_RECENT 16

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

struct offcpu_cpu {
	struct open_event *small, *stacks, *sideband, *seen;
	struct open_event *active;	 /* small or stacks; NULL: in a pause */
	uint64_t count, ran, clock_then; /* when its turn began: records, clock, the side-band's clock */
	uint64_t switched_then;		 /* and its count of switches; 0: it has none */
	uint64_t own[2];		 /* the values of the active one then, */
	int64_t read;			 /* and when they were read */
};

struct offcpu_pace {
	double running;	    /* CPU time per time, when small records were last made */
	struct offcpu_run { /* how long threads ran from switch to switch, */
		double switches, ran;
	} recorded, unrecorded; /* with small records, and without any */
};

struct offcpu_check {
	bool woken;   /* by a ring, which switches may fill */
	int64_t last; /* when it was last checked whether they do, */
	uint64_t switches;
};

struct offcpu_turn { /* of stacks */
	int64_t due;
	uint64_t took; /* in the last one */
	int64_t rest;  /* from one to the next */
};

struct offcpu_recent { /* by switches: when the last ones were, a ring buffer */
	int64_t times[OFFCPU_RECENT];
	unsigned n;
};

/* Of one target. */
struct offcpu {
	struct offcpu_owner owner;
	struct sampling *sampling; /* the owner's */
	const struct offcpu_method *way;
	struct wait_times *waits;
	uint32_t spec; /* which of its events */
	struct offcpu_cpu *cpus;
	size_t n_cpus;
	enum offcpu_phase phase, before;
	struct offcpu_pace pace;
	struct offcpu_time time, time_before; /* now, and before the last change */
	int64_t looked;			      /* time of the last look; since then: */
	uint64_t switches;
	struct offcpu_check check;
	int64_t cost;	     /* of a change of phases, ns: calls for each CPU */
	bool too_many;	     /* lately */
	int64_t until, look; /* the end of the phase; OFFCPU_ALL: how long it was meant to be */
	struct offcpu_turn turn;
	int64_t called; /* when the roll call began, 0: it has not */
	int64_t told;
	uint64_t lost_told, random;
	struct offcpu_recent last;
	struct string_table
		labels; /* that threads had when they went off: wait_at.labels is one more than the index here */
	bool own_clock; /* a plain user's: it has a clock beside that of `cpu`, which gives no stacks then */
};

struct offcpu_method {
	void (*arm)(struct offcpu *o);	 /* all its events are open */
	void (*begin)(struct offcpu *o); /* the number of switches is not known yet */
	int64_t (*woken)(struct offcpu *o, int64_t now);
	void (*look)(struct offcpu *o);	   /* begins another phase when it is due */
	void (*correct)(struct offcpu *o); /* by the account of its cgroup, or NULL */
	int (*call)(struct offcpu *o);	   /* the roll, or NULL */
	void (*resume)(struct offcpu *o);  /* after a worker was killed */
	void (*record)(struct offcpu *o, struct open_event *st, const struct record *r,
		const struct stack_frame *frames, size_t n);
	void (*lost)(struct offcpu *o, uint64_t count, uint32_t cpu, int64_t time); /* or NULL: records show losses */
	size_t (*clocks)(struct offcpu *o, int64_t now, struct wait_clock *ret);    /* at most o->n_cpus, or NULL */
};
extern const struct offcpu_method offcpu_by_turns, offcpu_by_switches;

uint64_t offcpu_scaled(uint64_t from, int64_t span, double scale);
uint64_t offcpu_time_of(const struct offcpu *o, int64_t real);	  /* the time of waits */
uint64_t offcpu_labels(struct offcpu *o, const struct record *r); /* wait_at.labels */
struct wait_at offcpu_place(struct offcpu *o, const struct record *r, bool counts);

double offcpu_factor(const struct offcpu *o);	   /* by which the target's rate is lowered, >= 1 */
double offcpu_asked_for(const struct offcpu *o);   /* stacks a second */
double offcpu_most(const struct offcpu *o);	   /* switches a second that are recorded */
int64_t offcpu_about(struct offcpu *o, double ns); /* 0.5 to 1.5 of it at random, not to keep step with the program */
double offcpu_a_second(uint64_t n, int64_t span);
int64_t offcpu_pause_most(struct offcpu *o, int64_t now, double ns); /* `ns`, or the longest possible pause */
/* Returns the scale by which `in` makes up for `behind`, the time that was not recorded before. */
double offcpu_catch_up(double behind, double in, double least, double most);
void offcpu_note_cost(struct offcpu *o, int64_t cost);
/* Begins a phase; from: its beginning in the time of waits. */
void offcpu_enter(struct offcpu *o, enum offcpu_phase phase, int64_t now, int64_t in, uint64_t from, double scale,
	double clock_scale);

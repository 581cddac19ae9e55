/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offcpu_method - the functions of profiler/offcpu/offcpu.c that both ways of measuring waits share, and the functions
 * of each way:
 *
 *	by turns	(strategy `cgroup`) records of each switch, which tell how long the target ran on that CPU
 *	by switches	(events that are inherited) records of going off and of coming back
 */
#pragma once

#include "profiler/offcpu/offcpu.h"
#include "profiler/offcpu/wait_times.h"
#include "profiler/target/target.h"

struct offcpu_method {
	void (*arm)(struct target *t);	 /* all its events are open */
	void (*begin)(struct target *t); /* the number of switches is not known yet */
	int64_t (*woken)(struct target *t, int64_t now);
	void (*look)(struct target *t);	   /* begins another phase when it is due */
	void (*correct)(struct target *t); /* by the account of its cgroup, or NULL */
	int (*call)(struct target *t);	   /* the roll, or NULL */
	void (*resume)(struct target *t);  /* after a worker was killed */
	void (*record)(struct target *t, struct open_event *st, const struct record *r,
		const struct stack_frame *frames, size_t n);
	void (*lost)(struct target *t, uint64_t count, uint32_t cpu, int64_t time); /* or NULL: records show losses */
	size_t (*clocks)(struct target *t, int64_t now, struct wait_clock *ret);    /* at most o->n_cpus, or NULL */
};
extern const struct offcpu_method offcpu_by_turns, offcpu_by_switches;

uint64_t offcpu_scaled(uint64_t from, int64_t span, double scale);
uint64_t offcpu_time_of(const struct offcpu *o, int64_t real);	  /* the time of waits */
uint64_t offcpu_labels(struct target *t, const struct record *r); /* wait_at.labels */
struct wait_at offcpu_place(struct target *t, const struct record *r, bool counts);

double offcpu_factor(const struct target *t);	   /* by which the target's rate is lowered, >= 1 */
double offcpu_asked_for(const struct target *t);   /* stacks a second */
double offcpu_most(const struct target *t);	   /* switches a second that are recorded */
int64_t offcpu_about(struct target *t, double ns); /* 0.5 to 1.5 of it at random, not to keep step with the program */
double offcpu_a_second(uint64_t n, int64_t span);
int64_t offcpu_pause_most(struct target *t, int64_t now, double ns); /* `ns`, or the longest possible pause */
/* Returns the scale by which `in` makes up for `behind`, the time that was not recorded before. */
double offcpu_catch_up(double behind, double in, double least, double most);
void offcpu_note_cost(struct offcpu *o, int64_t cost);
/* Begins a phase; from: its beginning in the time of waits. */
void offcpu_enter(struct target *t, enum offcpu_phase phase, int64_t now, int64_t in, uint64_t from, double scale,
	double clock_scale);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * offcpu_method - what profiler/offcpu/offcpu.c has in common for the two ways of measuring waits, and what each does
 * by itself:
 *
 *	by turns	(strategy `cgroup`) records of each switch, which tell how long the target ran on that CPU
 *	by switches	(events that are inherited) records of going off and of coming back
 */
#pragma once

#include "profiler/offcpu/offcpu.h"
#include "profiler/offcpu/wait_times.h"
#include "profiler/target/target.h"

struct offcpu_method {
	void (*arm)(struct target *t);	 /* all its events are there */
	void (*begin)(struct target *t); /* nothing is known yet of how many switches there are */
	int64_t (*woken)(struct target *t, int64_t now);
	void (*look)(struct target *t);	   /* whether another phase is to begin */
	void (*correct)(struct target *t); /* by the account of its cgroup, or NULL */
	int (*call)(struct target *t);	   /* the roll, or NULL */
	void (*resume)(struct target *t);  /* behind a worker that was killed */
	void (*record)(struct target *t, struct open_event *st, const struct record *r,
		const struct stack_frame *frames, size_t n);
	void (*lost)(
		struct target *t, uint64_t count, uint32_t cpu, int64_t time);	 /* or NULL: records count themselves */
	size_t (*clocks)(struct target *t, int64_t now, struct wait_clock *ret); /* at most o->n_cpus, or NULL */
};
extern const struct offcpu_method offcpu_by_turns, offcpu_by_switches;

uint64_t offcpu_scaled(uint64_t from, int64_t span, double scale);
uint64_t offcpu_time_of(const struct offcpu *o, int64_t real);	  /* what waits are told */
uint64_t offcpu_labels(struct target *t, const struct record *r); /* wait_at.labels */
struct wait_at offcpu_place(struct target *t, const struct record *r, bool counts);

double offcpu_factor(const struct target *t);	   /* by which cpu_budget lowers all of these, >= 1 */
double offcpu_asked_for(const struct target *t);   /* stacks a second */
double offcpu_most(const struct target *t);	   /* switches a second that are recorded */
int64_t offcpu_about(struct target *t, double ns); /* by chance 0.5 to 1.5 of it, lest it keeps step with the program */
double offcpu_a_second(uint64_t n, int64_t span);
int64_t offcpu_pause_most(struct target *t, int64_t now, double ns); /* as long as a pause may be */
/* So that in this time is made up for what was not recorded before. */
double offcpu_catch_up(double behind, double in, double least, double most);
void offcpu_note_cost(struct offcpu *o, int64_t cost);
/* The phase that begins, from that time that waits are told. */
void offcpu_enter(struct target *t, enum offcpu_phase phase, int64_t now, int64_t in, uint64_t from, double scale,
	double clock_scale);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_rate - how often a service samples its targets: less than they asked for where one target would fill the rings
 * of all (profiler/sample/rate_cap.h), or sampling all of them costs more than it may (profiler/sample/cpu_budget.h). A
 * session serves one target, which gets what it asked for.
 *
 * Lowered by F, a target's sample stands for F times the time, so that sums stay what they were. The way depends on how
 * its events are attached (kernel/events/core.c; tests/unit/profiler/sample/test_sample_rate.c asks the kernel):
 *
 * cgroup: PERF_EVENT_IOC_PERIOD, in nanoseconds for a clock, also where it was opened by frequency.
 *
 * process: PERIOD does not reach events that children have inherited by now, ENABLE and DISABLE do: they are on for 1/F
 * of the time. What is left of a period when they are switched off is there when they are switched on, so no sample is
 * missing but of the time between. Intervals are of random length, lest they keep step with the program. What they
 * stand for is not the share of the time but that of the target's CPU time, by the kernel's count: its side-band is
 * never off, and tells how long it ran (PERF_FORMAT_TOTAL_TIME_RUNNING).
 *
 * threads: the same events carry the side-band, which must not be missed: one of F samples is kept, before it is
 * unwound. That lowers our cost, not that of the samples.
 *
 * A sample has the weight of the time at which it was taken, which may be long before it is read: the last changes are
 * kept. Who comes behind a worker that was killed has struct rate_saved of each target and struct sample_rate_saved
 * from the journal (profiler/target/checkpoint_read.h); then sample_rate_resume(), also of a target of which nothing is
 * known, sets its events to what is meant, whatever they were left at.
 */
#pragma once

#include "profiler/sample/cpu_budget.h"
#include "profiler/sample/rate_cap.h"
#include "shim/event/event_spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct target;
struct settings;

#define RATE_STEPS 16

enum rate_way { RATE_PERIOD, RATE_DUTY_CYCLE, RATE_DROP_SAMPLES };

/* Of one target. */
struct target_rate { /* all zero: as asked for */
	struct rate_cap cap;
	double factor;		 /* in effect; 0 and 1: nothing is lowered */
	double most;		 /* of this window */
	bool by_cap, by_budget;	 /* what lowered it in this window */
	uint64_t samples, bytes; /* that came since the last look */
	struct rate_step {
		int64_t since; /* CLOCK_MONOTONIC */
		double scale;  /* of the weights of what is sampled from then on */
	} steps[RATE_STEPS];   /* in a circle */
	unsigned n_steps;
	uint32_t skipped[EVENTS_MAX]; /* RATE_DROP_SAMPLES: by event, since the last one that was kept */
	struct {
		bool on, off;	       /* there are intervals; in one without samples */
		int64_t since, next;   /* ns: it began, and is to end */
		double rest;	       /* ns without samples, for those with them that there have been */
		int64_t cost;	       /* of switching, ns of CPU time */
		uint64_t ran, counted; /* ns of CPU time: all; while they were on */
		double owed;	       /* of that, which samples have yet to stand for */
		double stretch;	       /* the one to the other, against what was meant */
		double second;	       /* what is counted from look to look */
	} intervals;
};

/* Of the whole service. */
struct rate_control {
	struct rate_limits limits; /* of each target */
	uint64_t allowed;	   /* ns of CPU time a second, 0 = no bound */
	/*
	 * cpu.stat of the cgroup of all our processes, owned: opened by the supervisor, for a worker has no paths. None
	 * (0, -1): the worker's own clock has to do; supervisor, exporter, symbolizer and readers are not counted then.
	 */
	int account;
	struct cpu_budget allowance;
	int64_t looked;	   /* ns */
	uint64_t spent;	   /* by the account, when last looked at */
	uint64_t sampling; /* ns: what samples cost where they were taken, since then: an estimate */
	uint64_t drains;   /* ns: what the worker spent on them, since then */
	int64_t loading; /* ns: what it spent on files of modules, ever: each is read once, however seldom it is hit */
	uint64_t n_samples, n_records; /* of the drain under way, by what they take */
	unsigned n_switched;
	int64_t drained; /* all records of before have been read */
	uint64_t random;
};

/* For a journal: numbers of 64 bits alone, doubles by their bits. What is read back may be anything. */
#define RATE_KEPT 4 /* changes, the oldest first: more than there are between two commits */
struct rate_saved {
	uint64_t factor, most, by, cap, stretch; /* by: 1 cap, 2 budget */
	uint64_t n_steps, steps[RATE_KEPT][2];	 /* since, scale */
};
struct sample_rate_saved {
	uint64_t factor, since, seconds;
	uint64_t sampling[CPU_BUDGET_SECONDS], other[CPU_BUDGET_SECONDS]; /* the oldest first */
};
uint64_t sample_rate_bits(double value);
double sample_rate_double(uint64_t bits, double least, double most);
void sample_rate_save(const struct target_rate *r, struct rate_saved *ret);
void sample_rate_restore(struct target_rate *r, const struct rate_saved *s);
void sample_rate_save_all(const struct rate_control *r, struct sample_rate_saved *ret);
void sample_rate_restore_all(struct rate_control *r, const struct sample_rate_saved *s);

/* The settings of a service; also again, when they have changed. */
void sample_rate_use(struct engine *g, const struct settings *set);
/* cpu.stat of the cgroup that pilliond has for itself, or -1. While privileged. */
int sample_rate_open_account(void);
void sample_rate_close_account(struct rate_control *r);

/* A record of a target's came. */
void sample_rate_record(struct target *t, bool sample, size_t bytes);
/* A small one of a switch: profiler/offcpu/offcpu.h has a bound of its own for these. */
void sample_rate_switch(struct target *t, size_t bytes);
/* The worker's CPU time so far but for `loading`, ns. */
int64_t sample_rate_cpu(const struct rate_control *r);
/* The records that came since the last call are drained; sample_rate_cpu() as that began. */
void sample_rate_drained(struct rate_control *r, int64_t began);
/* Whether there is room in the budget for what is no sampling, and can be put off. */
bool sample_rate_have_room(const struct engine *g);
/* What the weight of a sample of then is to be multiplied by. */
double sample_rate_scale(const struct target_rate *r, int64_t time);
/* What a sample of then stands for, where `period` was asked for. */
uint64_t sample_rate_weight(const struct target_rate *r, uint64_t period, int64_t time);
/* A sample that counts came, with so much stack. False: leave it out, another one stands for it. */
bool sample_rate_take(struct target *t, uint32_t spec, int64_t time, uint64_t weight, size_t stack);

/* What is due; milliseconds until more is, -1: with the next look at the targets. */
int sample_rate_round(struct engine *g, int64_t now);
void sample_rate_look(struct engine *g, int64_t now); /* at all of them; not more than once a second */
bool sample_rate_paused(const struct target *t);      /* its events are off for the moment */
/* CPU time of all its threads so far; false: not known, or nothing was lowered by intervals in this window. */
bool sample_rate_ran(const struct target *t, uint64_t *ret);
double sample_rate_stands_for(const struct target *t); /* what is counted now, for how much it stands on average */
void sample_rate_next_window(struct target *t);
void sample_rate_resume(struct target *t);  /* events that a predecessor left as they are now */
void sample_rate_release(struct target *t); /* it goes */
const char *sample_rate_way_name(const struct target *t);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_rate - how often a service samples its targets: less than they asked for where one target would fill the rings
 * of all (profiler/sample/rate_cap.h), or sampling all of them costs more than it may (profiler/sample/cpu_budget.h). A
 * session serves one target, at the rate that it asked for.
 *
 * Lowered by F, a target's sample stands for F times the time, so that sums stay the same. The way depends on how its
 * events are attached (kernel/events/core.c; tests/unit/profiler/sample/test_sample_rate.c asks the kernel):
 *
 * cgroup: PERF_EVENT_IOC_PERIOD, in nanoseconds for a clock, also where it was opened by frequency.
 *
 * process: PERIOD does not reach events that children have inherited by now, ENABLE and DISABLE do: events are on for
 * 1/F of the time. The rest of a period is kept while they are off, so only samples of the time between are missing.
 * Intervals are of random length, lest they keep step with the program. Samples stand for the share of the target's CPU
 * time, not of the time, by the kernel's count: its side-band is never off, and tells how long it ran
 * (PERF_FORMAT_TOTAL_TIME_RUNNING).
 *
 * threads: the same events carry the side-band, which must not be missed: one of F samples is kept, before it is
 * unwound. That lowers our cost, not that of the samples.
 *
 * A sample has the weight of the time at which it was taken, which may be long before it is read: the last changes are
 * kept. The successor of a killed worker has struct rate_saved of each target and struct sample_rate_saved from the
 * journal (profiler/target/checkpoint_read.h); then sample_rate_resume(), also of a target without saved data, sets its
 * events as intended, whatever state they were left in.
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
	bool by_cap, by_budget;	 /* the reasons for lowering in this window */
	uint64_t samples, bytes; /* that came since the last look */
	struct rate_step {
		int64_t since; /* CLOCK_MONOTONIC */
		double scale;  /* of the weights of samples from then on */
	} steps[RATE_STEPS];   /* a ring buffer */
	unsigned n_steps;
	uint32_t skipped[EVENTS_MAX]; /* RATE_DROP_SAMPLES: by event, since the last one that was kept */
	struct {
		bool on, off;	       /* intervals are in use; in one without samples */
		int64_t since, next;   /* ns: when it began, and is to end */
		double rest;	       /* ns without samples that are due for the intervals so far */
		int64_t cost;	       /* of switching, ns of CPU time */
		uint64_t ran, counted; /* ns of CPU time: all; while events were on */
		double owed;	       /* of that, not yet in the weights of samples */
		double stretch;	       /* ran to counted, relative to the intended factor */
		double second;	       /* counted from look to look, on average */
	} intervals;
};

/* Of the whole service. */
struct rate_control {
	struct rate_limits limits; /* of each target */
	uint64_t allowed;	   /* ns of CPU time a second, 0 = no bound */
	/*
	 * cpu.stat of the cgroup of all our processes, owned: opened by the supervisor, for a worker has no paths. None
	 * (0, -1): only the worker's own clock is used; supervisor, exporter, symbolizer and readers are not counted
	 * then.
	 */
	int account;
	struct cpu_budget allowance;
	int64_t looked;	   /* ns */
	uint64_t spent;	   /* by the account, at the last look */
	uint64_t sampling; /* ns: estimated cost of taking samples, since then */
	uint64_t drains;   /* ns: the worker's time for samples, since then */
	int64_t loading;   /* ns: the worker's time for files of modules, ever: each is read once, at any rate */
	uint64_t n_samples, n_records; /* of the drain under way, weighted by cost */
	unsigned n_switched;
	int64_t drained; /* all records from before this time have been read */
	uint64_t random;
};

/* For a journal: only 64-bit numbers, doubles by their bits. Values read back may be anything. */
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

/* Applies the settings of a service; also again, when they have changed. */
void sample_rate_use(struct engine *g, const struct settings *set);
/* Opens cpu.stat of pilliond's own cgroup, or returns -1. Call while privileged. */
int sample_rate_open_account(void);
void sample_rate_close_account(struct rate_control *r);

/* Notes a record of a target. */
void sample_rate_record(struct target *t, bool sample, size_t bytes);
/* Notes a small record of a switch: profiler/offcpu/offcpu.h has a bound of its own for these. */
void sample_rate_switch(struct target *t, size_t bytes);
/* Returns the worker's CPU time so far without `loading`, ns. */
int64_t sample_rate_cpu(const struct rate_control *r);
/* Notes that the records since the last call are drained. began: sample_rate_cpu() at the beginning of the drain. */
void sample_rate_drained(struct rate_control *r, int64_t began);
/* Returns whether the budget has room for work other than sampling, which can be put off. */
bool sample_rate_have_room(const struct engine *g);
/* Returns the factor for the weight of a sample taken at `time`. */
double sample_rate_scale(const struct target_rate *r, int64_t time);
/* Returns the weight of a sample taken at `time`, where `period` was asked for. */
uint64_t sample_rate_weight(const struct target_rate *r, uint64_t period, int64_t time);
/* Notes a sample that counts, with `stack` bytes of stack. False: drop it, another one stands for it. */
bool sample_rate_take(struct target *t, uint32_t spec, int64_t time, uint64_t weight, size_t stack);

/*
 * Begins and ends intervals that are due. Returns milliseconds until the next one, -1: at the next look at the targets.
 */
int sample_rate_round(struct engine *g, int64_t now);
void sample_rate_look(struct engine *g, int64_t now); /* at all targets; not more than once a second */
bool sample_rate_paused(const struct target *t);      /* its events are off for the moment */
/*
 * Reads the CPU time of all its threads so far; false: not known, or nothing was lowered by intervals in this window.
 */
bool sample_rate_ran(const struct target *t, uint64_t *ret);
double sample_rate_stands_for(const struct target *t); /* for how much a count stands now, on average */
void sample_rate_next_window(struct target *t);
void sample_rate_resume(struct target *t);  /* sets events that a killed worker left in any state */
void sample_rate_release(struct target *t); /* the target goes */
const char *sample_rate_way_name(const struct target *t);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_rate - how much a sample stands for, at the time at which it was taken, and what the service spends on
 * sampling (profiler/sample/cpu_budget.h). profiler/target/target_rate.h says when and how a target is sampled less
 * often.
 */
#pragma once

#include "profiler/sample/cpu_budget.h"
#include "profiler/sample/rate_cap.h"
#include "shim/event/event_spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	/* the oldest first; a journal of 0.1.0 has one array, of all cost, which must lower no rate: it is `other` */
	uint64_t other[CPU_BUDGET_SECONDS], sampling[CPU_BUDGET_SECONDS];
};
uint64_t sample_rate_bits(double value);
double sample_rate_double(uint64_t bits, double least, double most);
void sample_rate_save(const struct target_rate *r, struct rate_saved *ret);
void sample_rate_restore(struct target_rate *r, const struct rate_saved *s);
void sample_rate_save_all(const struct rate_control *r, struct sample_rate_saved *ret);
void sample_rate_restore_all(struct rate_control *r, const struct sample_rate_saved *s);

/* Opens cpu.stat of pilliond's own cgroup, or returns -1. Call while privileged. */
int sample_rate_open_account(void);
void sample_rate_close_account(struct rate_control *r);

/* Returns the worker's CPU time so far without `loading`, ns. */
int64_t sample_rate_cpu(const struct rate_control *r);
/* Notes that the records since the last call are drained. began: sample_rate_cpu() at the beginning of the drain. */
void sample_rate_drained(struct rate_control *r, int64_t began);
/* Returns the factor for the weight of a sample taken at `time`. */
double sample_rate_scale(const struct target_rate *r, int64_t time);
/* Returns the weight of a sample taken at `time`, where `period` was asked for. */
uint64_t sample_rate_weight(const struct target_rate *r, uint64_t period, int64_t time);
/* Returns `period` times the factor, rounded. */
uint64_t sample_rate_period(uint64_t period, double factor);
/* RATE_DROP_SAMPLES: returns whether this sample is the one of so many that is kept. */
bool sample_rate_keep(struct target_rate *r, uint32_t spec, int64_t time);
/* Returns the cost since the last call: CPU time of our processes, and of taking samples. */
struct cpu_budget_cost sample_rate_spent(struct rate_control *r);

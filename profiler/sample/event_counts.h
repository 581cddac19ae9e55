/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_counts - what the kernel says beside the samples: what its events counted, which samples it could not write,
 * and so what is missing of a window, and why.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct target;
struct window;

#define EVENT_COUNTS_ALWAYS 0.995 /* of the time, but for what it takes to switch it on */

/* What the kernel says of an event of this window. */
struct event_totals {
	bool lost_known;
	uint64_t lost, lost_weight; /* samples that it could not write */
	uint64_t unsampled;	    /* ns of CPU time that no sample stands for */
	uint64_t counted;	    /* ns of CPU time in all */
	uint64_t unseen;	    /* in its unit: while there was no profiler */
	double correct;		    /* what weights are to be multiplied by */
	double had_counter;	    /* part of the time in which it had one: what is counted is scaled up by that */
};

/* What read(2) tells of an event of PERF_SAMPLES; false: nothing. Times are 0 where it does not tell them. */
struct event_reading {
	uint64_t value, lost, enabled, running;
};
struct open_event;
bool event_counts_read(const struct open_event *st, struct event_reading *ret);
/* What was counted so far is in the books, or of before. */
void event_counts_rebase(struct open_event *st);
/* Before another rate: what the kernel counted so far goes with the samples that came so far. */
void event_counts_rate(struct target *t);
/* A window is over: what is there for each of its events, and the next one begins. Its tally is there. */
void event_counts_window(struct target *t, struct window *w);
uint64_t event_counts_scaled(uint64_t value, double scale);

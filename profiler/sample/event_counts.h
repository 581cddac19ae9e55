/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_counts - reads what the kernel has counted for an event, beside its samples (read(2) of perf_event_open(2)).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define EVENT_COUNTS_ALWAYS 0.995 /* of the time: switching it on takes some */

/* The kernel's figures for an event in this window. */
struct event_totals {
	bool lost_known;
	uint64_t lost, lost_weight; /* samples that it could not write */
	uint64_t unsampled;	    /* ns of CPU time that no sample stands for */
	uint64_t counted;	    /* ns of CPU time in all */
	uint64_t unseen;	    /* in its unit: while there was no profiler */
	double correct;		    /* factor for the weights */
	double had_counter;	    /* part of the time with a counter: counts are scaled up by it */
};

/* The values of read(2) for an event of PERF_SAMPLES; false: none. Times are 0 if it returns none. */
struct event_reading {
	uint64_t value, lost, enabled, running;
};
struct open_event;
bool event_counts_read(const struct open_event *st, struct event_reading *ret);
void event_counts_store(struct open_event *st, const struct event_reading *now); /* as the base of the next reading */
/* Makes the present counts the base: they are accounted for, or from before. */
void event_counts_rebase(struct open_event *st);
uint64_t event_counts_scaled(uint64_t value, double scale); /* rounded; at most INT64_MAX */

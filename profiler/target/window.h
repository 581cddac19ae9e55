/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window - turns counts into a finished profile in the spool: names, labels, losses, comments.
 */
#pragma once

#include "profiler/sample/cpu_coverage.h"
#include "profiler/sample/event_counts.h"
#include "profiler/spool/exporter_client.h"
#include "profiler/target/target.h"

/* A span of time that is over; it waits for names. The journal reads it, too
 * (profiler/target/checkpoint/checkpoint_write.h). */
struct window {
	struct target *t;
	struct window *next;
	struct symbol_request *naming; /* NULL: a predecessor's window, names not asked for yet */
	bool last, owns_counts, early;
	bool by_cap, by_budget; /* sampling was lowered */
	double rate_most;
	unsigned seq;
	size_t unnamed; /* addresses without a name in time */
	size_t unasked; /* addresses that the symbolizer was not asked about: the cost of names was used up */
	int64_t real, duration;
	uint64_t cpu_used; /* us, by the container's own account */
	char uncovered[CPU_COVERAGE_LIST_MAX];
	struct sample_tally tally;
	struct aggregate *counts[EVENTS_MAX];
	struct event_totals kernel[EVENTS_MAX];
};

/* Makes the counts of one event for the next window. */
int window_counts(struct target *t, struct aggregate **ret);
/*
 * Turns the counts into a window and begins the next one. The window is written (one file per event) when its names are
 * there, at once or from the loop: handed to the exporter. After the exporter's answer: target_free_if_done(). `last`:
 * also without any counts.
 */
void window_close(struct target *t, bool last);
/* Writes windows that have waited long enough for names. Returns milliseconds until the next one, -1: none. */
int window_round(struct target *t, int64_t now);
/* exporter_owner.done of a profile. of: its target, or NULL when that is gone. */
void window_written(void *engine, void *of, const struct export_profile *p, const char *path, const struct err *e);
/* Adds a predecessor's window, with its counts: asks for its names, then writes it. */
void window_restore(struct target *t, struct window *w);
void window_free(struct window *w); /* unwritten; it is in no list */

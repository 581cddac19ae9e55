/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window - from counts to a finished profile in the spool: names, labels, losses, comments.
 */
#pragma once

#include "profiler/sample/cpu_coverage.h"
#include "profiler/sample/event_counts.h"
#include "profiler/spool/exporter_client.h"
#include "profiler/target/target.h"

/* A span of time that is over; it waits for names. Others see it for a journal (profiler/target/checkpoint_write.h). */
struct window {
	struct target *t;
	struct window *next;
	struct symbol_request *naming; /* NULL: of a predecessor, nobody has asked yet */
	bool last, owns_counts, early;
	bool by_cap, by_budget; /* sampling was lowered */
	double rate_most;
	unsigned seq;
	size_t unnamed; /* addresses whose names did not come in time */
	size_t unasked; /* addresses that the symbolizer was not asked about: names had cost what they may */
	int64_t real, duration;
	uint64_t cpu_used; /* us, by the container's own account */
	char uncovered[CPU_COVERAGE_LIST_MAX];
	struct target_tally tally;
	struct aggregate *counts[EVENTS_MAX];
	struct event_totals kernel[EVENTS_MAX];
};

/* What counts the next window of one of its events. */
int window_counts(struct target *t, struct aggregate **ret);
/*
 * What was counted becomes a window and the next one begins. It is written (one file per event) when its names are
 * there, at once or from the loop: handed to the exporter. When that has answered, target_free_if_done(). `last`: also
 * when nothing was counted.
 */
void window_close(struct target *t, bool last);
/* Those that wait for names: write what has waited long enough. Milliseconds until there is more to do, -1 = none. */
int window_round(struct target *t, int64_t now);
/* What became of a profile: exporter_owner.done. of: its target, or NULL when that is gone. */
void window_written(void *engine, void *of, const struct export_profile *p, const char *path, const struct err *e);
/* One that a predecessor has left, with its counts: it is asked for its names, then written. */
void window_restore(struct target *t, struct window *w);
void window_free(struct window *w); /* unwritten; it is in nobody's list */

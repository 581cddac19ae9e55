/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restart - when a child that has ended is started again: with an exponential backoff (pauses that double up to a
 * maximum), so that one that fails at its start does not take a CPU. The caller forks, waits and logs.
 *
 * Times are clock_now()'s, and an argument.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct restart_rule {
	int64_t steady;		/* ns: a child that lived longer did not fail at its start: the row of failures ends */
	unsigned steady_counts; /* the length of the row then: 1: its end begins the next one */
	bool steady_waits;	/* its end is followed by a pause, too: as if it had been one failure more */
	unsigned free;		/* so many failures in a row are followed by no pause */
	int64_t pause, most;	/* ns: the first pause, and the longest */
	bool from_start;	/* pauses count from the child's start, not from its end */
};

struct restart {
	int64_t started, due; /* start of the present child or the last; of the next one, 0: there is one */
	unsigned failures;    /* in a row */
};

void restart_started(struct restart *r, int64_t now);
/* The child has ended: sets `due` and `failures`. Returns the pause, ns. */
int64_t restart_ended(struct restart *r, const struct restart_rule *rule, int64_t now);
bool restart_is_due(const struct restart *r, int64_t now);

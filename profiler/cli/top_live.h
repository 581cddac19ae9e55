/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_live - `pillion top` on a terminal: the functions of a loader's profile, drawn again as it changes and as keys
 * are pressed. Ends by q, Ctrl-C or the signals that end a program; the terminal is as it was (terminal.h).
 */
#pragma once

#include "profiler/pprof/profile.h"
#include "profiler/pprof/profile_filter.h"

#include <stdbool.h>
#include <stdint.h>

struct top_live_source {
	/* Returns a number that changes when there is new data to load. */
	uint64_t (*changed)(void *arg);
	/* type: NULL: the usual one. Returns an exit code, after reporting any error by command_fail. */
	int (*load)(void *arg, const char *type, struct profile **ret, unsigned *ret_type);
	void *arg;
	const char *name; /* title of the data */
	int interval_ms;
};

/* Returns an exit code. `filter`: the first one. */
int top_live_run(const char *self, const struct top_live_source *s, const char *type, bool by_cum,
	const struct profile_filter *filter);

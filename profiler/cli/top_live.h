/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_live - `pillion top` on a terminal: the functions of what a loader brings, drawn again as it changes and as keys
 * are pressed. Ends by q, Ctrl-C or the signals that end a program; the terminal is as it was (terminal.h).
 */
#pragma once

#include "profiler/pprof/profile.h"
#include "profiler/pprof/profile_filter.h"

#include <stdbool.h>
#include <stdint.h>

struct top_live_source {
	/* A number that is another one when there is something new to be loaded. */
	uint64_t (*changed)(void *arg);
	/* type: NULL: the usual one. An exit code; what is wrong was said by command_fail. */
	int (*load)(void *arg, const char *type, struct profile **ret, unsigned *ret_type);
	void *arg;
	const char *name; /* what is looked at */
	int interval_ms;
};

/* An exit code. `filter` is what it begins with. */
int top_live_run(const char *self, const struct top_live_source *s, const char *type, bool by_cum,
	const struct profile_filter *filter);

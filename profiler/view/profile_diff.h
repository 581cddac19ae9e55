/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_diff - compares two profiles by function: how much its share of all has changed, and how likely such a change
 * is by chance when nothing has changed (two-sided z-test of two proportions of samples: each sample is taken to be a
 * draw of its own). Shares, because windows are of different lengths.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stdbool.h>
#include <stddef.h>

#define PROFILE_DIFF_SURE 0.05 /* of all n functions in either profile: one is sure where chance * n is less */

struct function_delta {
	const char *name;
	double before, after; /* shares of all, 0 to 1 */
	double chance;	      /* 0 to 1; -1: unknown, the profile counts no samples */
};

struct profile_delta {
	struct function_delta *rows; /* the sure ones first, then by the size of the change */
	size_t n, n_sure;
};

/* cum: by functions with all that they call; else by their own. 0, -EINVAL (no such type), -ENOMEM. */
int profile_diff_find(const struct profile *before, const struct profile *after, const char *type, bool cum,
	struct profile_delta *ret);
void profile_diff_done(struct profile_delta *l);

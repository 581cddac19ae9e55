/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function_totals - what a profile's samples sum up to by function: flat is what a function has itself (the innermost
 * line of a leaf), cum what it has with all that it calls; one that is in a stack several times counts once there.
 * Functions with the same name are one; those with nothing at all are none.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stddef.h>

struct function_sum {
	const char *name;   /* as long as the profile is */
	__int128 flat, cum; /* sums of many 64-bit values */
	size_t last;	    /* sample that counted here last, + 1 */
};

struct function_totals {
	struct function_sum *rows;
	size_t n;
	__int128 total;
};

/* By this sample type: 0, -EINVAL (no such type), -ENOMEM. The rows are in no order. */
int function_totals_sum(const struct profile *p, unsigned type, struct function_totals *ret);
void function_totals_done(struct function_totals *f);
int64_t function_totals_clamp(__int128 sum); /* as near as 64 bits come */

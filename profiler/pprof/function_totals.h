/* SPDX-License-Identifier: Apache-2.0 */
/*
 * function_totals - a profile's sums by function: flat is a function's own value (the innermost line of a leaf), cum
 * its value with all that it calls; a function that is in a stack several times counts once there. Functions with the
 * same name are one; functions without any value are left out. The total is the sum of amounts without their signs, as
 * go tool pprof has it, of samples with the label pprof::base=true alone, if there are any.
 */
#pragma once

#include "profiler/pprof/profile.h"

#include <stddef.h>

struct function_sum {
	const char *name;   /* valid as long as the profile */
	__int128 flat, cum; /* sums of many 64-bit values */
	size_t last;	    /* sample that counted here last, + 1 */
};

struct function_totals {
	struct function_sum *rows;
	size_t n;
	__int128 total;
};

/* Sums by this sample type: 0, -EINVAL (no such type), -ENOMEM. The rows are in no order. */
int function_totals_sum(const struct profile *p, unsigned type, struct function_totals *ret);
void function_totals_done(struct function_totals *f);
int64_t function_totals_clamp(__int128 sum); /* as near as 64 bits come */

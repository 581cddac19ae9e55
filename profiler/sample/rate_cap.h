/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rate_cap - by how much one target's sampling is to be lowered so that it stays below a rate. Numbers only:
 * profiler/sample/sample_rate.h acts on them.
 *
 * It looks at the amount that would come if nothing were lowered. The factor goes up at once when a tenth too much
 * comes, and down when the highest of the last RATE_CAP_CALM looks needed a fifth less, so that it does not go down and
 * up with each burst of a program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define RATE_CAP_CALM 10     /* looks */
#define RATE_CAP_MOST 1000.0 /* at 999 Hz a sample a second */

struct rate_limits {
	uint64_t samples, bytes; /* a second; 0: as many as come */
};

struct rate_cap { /* all zero: nothing is lowered */
	double factor;
	double needed[RATE_CAP_CALM];
	unsigned next;
};

double rate_cap_factor(const struct rate_cap *c); /* 1: as asked for; 4: a quarter of it */
/*
 * Notes the samples and bytes of the last `ns`, while sampling was lowered by `lowered` (for this and other reasons).
 * Returns true if the factor has changed.
 */
bool rate_cap_look(
	struct rate_cap *c, const struct rate_limits *l, int64_t ns, uint64_t samples, uint64_t bytes, double lowered);

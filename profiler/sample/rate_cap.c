/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/rate_cap.h"

#include "oci/base/clock.h"

#define ROOM 1.05 /* lowers to a little below the limit: rates vary */

double rate_cap_factor(const struct rate_cap *c)
{
	return c->factor > 1 ? c->factor : 1;
}

static double compute_share(double a_second, uint64_t limit)
{
	return limit ? a_second / (double)limit : 0;
}

static double most_needed(const struct rate_cap *c)
{
	double most = 0;
	for (unsigned i = 0; i < RATE_CAP_CALM; i++)
		most = c->needed[i] > most ? c->needed[i] : most;
	return most;
}

static double clamp_factor(double factor)
{
	return factor <= 1 ? 1 : factor > RATE_CAP_MOST ? RATE_CAP_MOST : factor;
}

bool rate_cap_look(
	struct rate_cap *c, const struct rate_limits *l, int64_t ns, uint64_t samples, uint64_t bytes, double lowered)
{
	double now = rate_cap_factor(c), span = (double)ns / NSEC_PER_SEC;
	if (ns <= 0)
		return false;
	double by_samples = compute_share((double)samples / span, l->samples) * lowered;
	double by_bytes = compute_share((double)bytes / span, l->bytes) * lowered;
	double needed = by_samples > by_bytes ? by_samples : by_bytes;
	c->needed[c->next++ % RATE_CAP_CALM] = needed;
	double most = most_needed(c), to = now;
	if (needed > now * 1.1)
		to = clamp_factor(needed * ROOM);
	else if (now > 1 && most < now * 0.8)
		to = most <= 1 ? 1 : clamp_factor(most * ROOM);
	c->factor = to;
	return to != now;
}

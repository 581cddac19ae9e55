/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/process/restart.h"

#define DOUBLED_MAX 8 /* times: no pause overflows */

void restart_started(struct restart *r, int64_t now)
{
	r->started = now;
	r->due = 0;
}

static int64_t pause_after(const struct restart_rule *rule, unsigned failures)
{
	if (failures <= rule->free)
		return 0;
	const unsigned doubled = failures - rule->free - 1;
	const int64_t pause = rule->pause << (doubled < DOUBLED_MAX ? doubled : DOUBLED_MAX);
	return pause < rule->most ? pause : rule->most;
}

int64_t restart_ended(struct restart *r, const struct restart_rule *rule, int64_t now)
{
	const bool steady = now - r->started > rule->steady;
	const unsigned row = r->failures + 1;
	r->failures = steady ? rule->steady_counts : row;
	const int64_t pause = pause_after(rule, steady && rule->steady_waits ? row : r->failures);
	r->due = (pause && rule->from_start ? r->started : now) + pause;
	return pause;
}

bool restart_is_due(const struct restart *r, int64_t now)
{
	return r->due && now >= r->due;
}

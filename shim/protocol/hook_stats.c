/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/hook_stats.h"

/*
 * A start takes 1 or 2 ms, and its budget ends most that take longer than 500 ms. Steps of 0.5 ms are fine enough for
 * medians.
 */
const uint64_t outcome_bucket_us[OUTCOME_BUCKETS - 1] = {
	500, 1000, 1500, 2000, 3000, 5000, 10000, 25000, 100000, 500000, 5000000};

void hook_stats_add(struct hook_stats *o, const struct msg_outcome *m)
{
	unsigned i = 0;
	while (i < OUTCOME_BUCKETS - 1 && m->us > outcome_bucket_us[i])
		i++;
	o->count[m->outcome][m->strategy]++;
	o->bucket[i]++;
	o->sum_us += m->us;
	o->n++;
}

const char *outcome_name(unsigned outcome)
{
	static const char *const names[HOOK_OUTCOMES] = {[HOOK_ARMED] = "armed",
		[HOOK_UNSAMPLED] = "unsampled",
		[HOOK_UNPROFILED] = "unprofiled",
		[HOOK_REFUSED] = "refused"};
	return outcome < HOOK_OUTCOMES && names[outcome] ? names[outcome] : "unknown";
}

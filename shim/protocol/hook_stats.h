/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_stats - the outcomes of containers' starts, as their hooks report them (MSG_OUTCOME): how many, and how long the
 * hook took. A hook that reaches no service writes to its log only: such starts are not counted here.
 */
#pragma once

#include "shim/protocol/messages.h"

#define OUTCOME_BUCKETS 12 /* the last one has no end */

struct hook_stats {
	uint64_t count[HOOK_OUTCOMES][STRATEGY_TIMERS + 1];
	uint64_t bucket[OUTCOME_BUCKETS]; /* of all of them, by duration: not summed up */
	uint64_t sum_us, n;
};

extern const uint64_t outcome_bucket_us[OUTCOME_BUCKETS - 1]; /* upper ends, included */

void hook_stats_add(struct hook_stats *o, const struct msg_outcome *m);
const char *outcome_name(unsigned outcome); /* as the hook's log has it */

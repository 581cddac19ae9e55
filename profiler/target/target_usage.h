/* SPDX-License-Identifier: Apache-2.0 */
/* target_usage - the CPU time of a target's container, and whether it has ended. */
#pragma once

#include "profiler/target/target.h"

/* Returns how many of its events were asked for. */
uint32_t target_n_asked(const struct target *t);
/* Returns the CPU time of the container (us); of a removed cgroup, the last value read. */
uint64_t target_cpu_usage(struct target *t);
/* Returns CPU time (us) in this window; for a removed cgroup, plus its samples after the last reading. */
uint64_t target_cpu_used(struct target *t);
bool target_has_ended(struct target *t);

/* SPDX-License-Identifier: Apache-2.0 */
/* target_coverage - keeps for each target the CPUs on which it has no event that counts
 * (profiler/sample/cpu_coverage.h). */
#pragma once

#include "profiler/sample/cpu_coverage.h"
#include "profiler/target/target.h"

/* Looks at the CPUs, and updates all targets where they have changed. */
void target_coverage_look(struct engine *g, int64_t now);
/* Lists CPUs that were online at any time since `since` without an event of the target: "1,3-5". "": none. */
void target_coverage_list(const struct target *t, int64_t since, char ret[CPU_COVERAGE_LIST_MAX]);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_coverage - finds online CPUs on which a target has no event that counts: those that came online after its events
 * were opened and, for events of a cgroup, those that went offline and came back, as the kernel takes these events off
 * a CPU that goes offline, for good (kernel/events/core.c, perf_event_exit_cpu_context). Only the container's CPU
 * account covers the time on such a CPU.
 *
 * It looks at the CPUs once in a round of the engine: a CPU that is offline for a shorter time is not noticed. NULL
 * stands for no coverage checks: every CPU counts as covered.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CPU_COVERAGE_LIST_MAX 64 /* bytes of a list of CPUs, cut after a whole one */

struct cpu_coverage;
struct engine;
struct target;

/* online: /sys/devices/system/cpu/online, opened while paths are accessible; owned, also on failure. */
int cpu_coverage_new(int online, struct cpu_coverage **ret);
struct cpu_coverage *cpu_coverage_free(struct cpu_coverage *c);
/* Notes the CPUs that are online now, and the events that an offline CPU took with it. */
void cpu_coverage_look(struct engine *g, int64_t now);
/* Lists CPUs that were online at any time since `since` without an event of the target: "1,3-5". "": none. */
void cpu_coverage_list(const struct target *t, int64_t since, char ret[CPU_COVERAGE_LIST_MAX]);

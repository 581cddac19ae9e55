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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_COVERAGE_LIST_MAX 64 /* bytes of a list of CPUs, cut after a whole one */

struct cpu_coverage;
struct open_event;

/* online: /sys/devices/system/cpu/online, opened while paths are accessible; owned, also on failure. */
int cpu_coverage_new(int online, struct cpu_coverage **ret);
struct cpu_coverage *cpu_coverage_free(struct cpu_coverage *c);
/* Notes the CPUs that are online now. Returns whether they are others than before; NULL: false. */
bool cpu_coverage_look(struct cpu_coverage *c, int64_t now);
/*
 * Of a target's events, notes those that went with a CPU that is offline now; true: there are some. For events of a
 * cgroup: those of a thread stay with it, and count again when their CPU is back.
 */
bool cpu_coverage_take_off(const struct cpu_coverage *c, struct open_event *events, int64_t now);
/* Lists CPUs that were online at any time since `since` without one of these events: "1,3-5". "": none. */
void cpu_coverage_list(
	const struct cpu_coverage *c, const struct open_event *events, int64_t since, char ret[CPU_COVERAGE_LIST_MAX]);

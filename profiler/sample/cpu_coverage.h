/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_coverage - CPUs that are up and on which a target has no event that counts: those that came up after its events
 * were opened, and, of events of a cgroup, those that went and came back, as the kernel takes them off a CPU that goes,
 * for good (kernel/events/core.c, perf_event_exit_cpu_context). What runs there only the container's account knows.
 *
 * Of CPUs it knows what it sees when it looks, once in a round of the engine's: one that is gone for less than that is
 * not seen to go. NULL stands for nobody who looks: every CPU is covered, as far as anybody knows.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CPU_COVERAGE_LIST_MAX 64 /* bytes of a list of CPUs, cut behind a whole one */

struct cpu_coverage;
struct engine;
struct target;

/* online: /sys/devices/system/cpu/online, opened while there are paths; taken, also on failure. */
int cpu_coverage_new(int online, struct cpu_coverage **ret);
struct cpu_coverage *cpu_coverage_free(struct cpu_coverage *c);
/* Which CPUs are up now, and whose events went with one that is not. */
void cpu_coverage_look(struct engine *g, int64_t now);
/* "1,3-5": those that were up at any time since then, without an event of its. "": none. */
void cpu_coverage_list(const struct target *t, int64_t since, char ret[CPU_COVERAGE_LIST_MAX]);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_rate - how often a service samples its targets: less than they asked for where one target would fill the rings
 * of all (profiler/sample/rate_cap.h), or sampling all of them costs more than it may (profiler/sample/cpu_budget.h). A
 * session serves one target, at the rate that it asked for.
 *
 * Lowered by F, a target's sample stands for F times the time, so that sums stay the same. The way depends on how its
 * events are attached (kernel/events/core.c; tests/unit/profiler/target/test_target_rate.c asks the kernel):
 *
 * cgroup: PERF_EVENT_IOC_PERIOD, in nanoseconds for a clock, also where it was opened by frequency.
 *
 * process: PERIOD does not reach events that children have inherited by now, ENABLE and DISABLE do: events are on for
 * 1/F of the time. The rest of a period is kept while they are off, so only samples of the time between are missing.
 * Intervals are of random length, lest they keep step with the program. Samples stand for the share of the target's CPU
 * time, not of the time, by the kernel's count: its side-band is never off, and tells how long it ran
 * (PERF_FORMAT_TOTAL_TIME_RUNNING).
 *
 * threads: the same events carry the side-band, which must not be missed: one of F samples is kept, before it is
 * unwound. That lowers our cost, not that of the samples.
 *
 * A sample has the weight of the time at which it was taken, which may be long before it is read: the last changes are
 * kept. The successor of a killed worker has struct rate_saved of each target and struct sample_rate_saved from the
 * journal (profiler/target/checkpoint/checkpoint_read.h); then target_rate_resume(), also of a target without saved
 * data, sets its events as intended, whatever state they were left in.
 */
#pragma once

#include "profiler/sample/sample_rate.h"

struct engine;
struct target;
struct settings;

/* Applies the settings of a service; also again, when they have changed. */
void target_rate_use(struct engine *g, const struct settings *set);
/* Returns whether the budget has room for work other than sampling, which can be put off. */
bool target_rate_have_room(const struct engine *g);

/*
 * Begins and ends intervals that are due. Returns milliseconds until the next one, -1: at the next look at the targets.
 */
int target_rate_round(struct engine *g, int64_t now);
void target_rate_look(struct engine *g, int64_t now); /* at all targets; not more than once a second */
bool target_rate_paused(const struct target *t);      /* its events are off for the moment */
/*
 * Reads the CPU time of all its threads so far; false: not known, or nothing was lowered by intervals in this window.
 */
bool target_rate_ran(const struct target *t, uint64_t *ret);
double target_rate_stands_for(const struct target *t); /* for how much a count stands now, on average */
void target_rate_next_window(struct target *t);
void target_rate_resume(struct target *t);  /* sets events that a killed worker left in any state */
void target_rate_release(struct target *t); /* the target goes */
const char *target_rate_way_name(const struct target *t);

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_coverage.h"

void target_coverage_list(const struct target *t, int64_t since, char ret[CPU_COVERAGE_LIST_MAX])
{
	const bool has_events = t->desc.strategy != STRATEGY_TIMERS;
	cpu_coverage_list(has_events ? t->engine->perf.coverage : NULL, t->events.list, since, ret);
}

void target_coverage_look(struct engine *g, int64_t now)
{
	char list[CPU_COVERAGE_LIST_MAX];
	if (!cpu_coverage_look(g->perf.coverage, now))
		return;
	for (struct target *t = g->targets; t; t = t->next) {
		if (t->desc.strategy == STRATEGY_CGROUP && cpu_coverage_take_off(g->perf.coverage, t->events.list, now))
			t->saved.streams = t->sampling.changed = true;
		target_coverage_list(t, now, list);
		t->events.bare |= t->armed && list[0];
	}
}

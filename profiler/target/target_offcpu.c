/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_offcpu.h"

#include "profiler/inproc/inproc.h"
#include "profiler/offcpu/offcpu.h"
#include "profiler/target/engine_state.h"
#include "profiler/target/target_usage.h"

static void drain_rings(void *target)
{
	const struct target *t = target;
	engine_drain(t->engine, true);
}

static void hurry_round(void *target)
{
	struct target *t = target;
	t->turn.due = t->engine->round.due = 0;
}

static uint64_t cpu_usage(void *target)
{
	return target_cpu_usage(target);
}

static bool has_all_cpus(const void *target)
{
	const struct target *t = target;
	return !t->events.n_uncovered && !t->events.bare;
}

static bool has_ended(void *target)
{
	struct target *t = target;
	return t->ending && target_has_ended(t);
}

static const char *thread_labels(const void *target, const struct record *r)
{
	const struct target *t = target;
	return inproc_labels(t->apps, r->pid, r->tid, r->time);
}

int target_offcpu_new(struct target *t)
{
	static const struct offcpu_ops ops = {.drain = drain_rings,
		.hurry = hurry_round,
		.cpu_usage = cpu_usage,
		.all_cpus = has_all_cpus,
		.has_ended = has_ended,
		.labels = thread_labels};
	struct engine *g = t->engine;
	const struct offcpu_owner owner = {.sampling = &t->sampling,
		.events = &t->events.list,
		.rings = &g->perf.rings,
		.progress = &g->perf.progress,
		.tables = &g->tables,
		.n_offcpu = &g->n_offcpu,
		.early = &t->early,
		.target = t,
		.ops = &ops};
	int r = offcpu_new(&owner, &t->offcpu);
	g->n_offcpu += t->offcpu != NULL;
	return r;
}

void target_offcpu_free(struct target *t)
{
	t->engine->n_offcpu -= t->offcpu != NULL;
	t->offcpu = offcpu_free(t->offcpu);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/limits.h"

#include "oci/base/log.h"
#include "oci/config/options.h"
#include "profiler/offcpu/wait_times.h"
#include "profiler/target/target_rate.h"
#include "profiler/target/window.h"

#include <errno.h>
#include <sys/resource.h>

#define FDS_SESSION 65536
#define RESERVED_FDS 64 /* for files, spool and new connections, beside those of targets */
#define MODULES_SESSION (32ul << 20)
#define JIT_SESSION (12ul << 20)
#define TABLES_USER (12ul << 20)

void limits_apply(struct engine *g, const struct settings *set)
{
	g->limits = (struct engine_limits){.fds = FDS_SESSION, .modules = MODULES_SESSION, .jit = JIT_SESSION};
	if (g->role.single)
		return;
	g->limits.targets = set->limits.targets;
	g->limits.fds = set->limits.fds;
	if (!g->role.modest) {
		g->limits.modules = set->limits.module_bytes;
		g->limits.jit = set->limits.jit_bytes;
	}
	g->tables.max = g->role.modest && set->limits.table_bytes > TABLES_USER ? TABLES_USER : set->limits.table_bytes;
	target_rate_use(g, set);
}

int limits_check_new_target(const struct engine *g, unsigned n_targets, struct err *e)
{
	if (!g->limits.targets || n_targets < g->limits.targets)
		return 0;
	return err_say(e, -EBUSY, "pilliond profiles %u targets already: raise its setting targets", n_targets);
}

static uint64_t subtract_used(uint64_t have, uint64_t used)
{
	return have > used ? have - used : 0;
}

uint32_t limits_fds(const struct engine *g, uint64_t used)
{
	struct rlimit l;
	uint64_t most = g->limits.fds ? g->limits.fds : FDS_SESSION;
	uint64_t room = subtract_used(most, used);
	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && subtract_used(l.rlim_cur, used + RESERVED_FDS) < room)
		room = subtract_used(l.rlim_cur, used + RESERVED_FDS);
	return (uint32_t)room;
}

static size_t tables_of(const struct target *t)
{
	size_t n = 0;
	for (uint32_t i = 0; t->sampling.started && i < t->desc.n_events; i++)
		n += aggregate_memory(t->sampling.counts[i]);
	return n + (t->sampling.started ? offcpu_memory(t->offcpu) : 0);
}

/* Returns the memory of windows that are over: they free it soon. */
static size_t count_window_memory(const struct engine *g)
{
	size_t n = 0;
	for (const struct target *t = g->targets; t; t = t->next)
		for (const struct window *w = t->window.over; w; w = w->next)
			for (uint32_t i = 0; w->owns_counts && i < t->desc.n_events; i++)
				n += aggregate_memory(w->counts[i]);
	return n;
}

void limits_enforce_memory(struct engine *g)
{
	struct target *largest = NULL;
	if (!g->tables.max || g->tables.used < g->tables.max / 4 * 3 ||
		subtract_used(g->tables.used, count_window_memory(g)) < g->tables.max / 4 * 3)
		return;
	for (struct target *t = g->targets; t; t = t->next) {
		if (!t->ending && (!largest || tables_of(t) > tables_of(largest)))
			largest = t;
	}
	if (!largest || !tables_of(largest))
		return;
	log_line(engine_peer_level(g),
		"target=%s name=\"%s\" outcome=window_ended_early tables=%zu reason=\"table_size is %zu\"",
		largest->desc.id, largest->desc.name, g->tables.used, g->tables.max);
	largest->early = true; /* looked at next */
}

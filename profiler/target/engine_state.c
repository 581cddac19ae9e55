/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/engine_state.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "profiler/inproc/inproc.h"
#include "profiler/target/target.h"

void engine_drain(struct engine *g, bool all)
{
	g->drain(g, all);
}

uint64_t engine_fds(const struct engine *g)
{
	uint64_t n = (g->perf.rings ? cpu_rings_count(g->perf.rings) : 0) + g->n_events + 6 * (uint64_t)g->n_targets;
	for (const struct target *t = g->targets; t; t = t->next)
		n += inproc_fds(t->apps);
	return n;
}

bool engine_read_some_kallsyms(struct engine *g)
{
	struct err *e = &g->symbols.kallsyms_none;
	int r = kallsyms_read_some(g->symbols.kallsyms_fd, &g->symbols.kallsyms_partial, e);
	if (r == 1)
		return true;
	if (r < 0)
		log_line(LOG_WARNING, "outcome=no_kernel_names reason=\"%s\"", e->text);
	g->symbols.kallsyms = g->symbols.kallsyms_partial;
	g->symbols.kallsyms_partial = NULL;
	g->symbols.kallsyms_fd = fd_close(g->symbols.kallsyms_fd);
	return false;
}

void engine_read_kallsyms(struct engine *g)
{
	while (engine_read_some_kallsyms(g))
		;
}

int engine_peer_level(const struct engine *g)
{
	return g->role.modest && !g->role.single ? LOG_INFO : LOG_WARNING;
}

void engine_schedule_target(struct engine *g, struct target *t, int64_t nsec)
{
	const int64_t at = deadline_in(nsec);
	t->turn.due = at < t->turn.due ? at : t->turn.due;
	g->round.due = at < g->round.due ? at : g->round.due;
}

void engine_schedule_all(struct engine *g)
{
	int64_t soon = deadline_in(ENGINE_ROUND_MS * NSEC_PER_MSEC);
	g->round.restless = true;
	if (g->round.look_again > soon)
		g->round.look_again = soon;
}

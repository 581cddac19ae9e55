/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/engine_state.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "profiler/inproc/inproc.h"
#include "profiler/target/target.h"

void engine_drain(struct engine *g, bool all)
{
	if (g->drain)
		g->drain(g, all);
}

uint64_t engine_fds(const struct engine *g)
{
	uint64_t n = (g->rings ? cpu_rings_count(g->rings) : 0) + g->n_streams + 6 * (uint64_t)g->n_targets;
	for (const struct target *t = g->targets; t; t = t->next)
		n += inproc_fds(t->apps);
	return n;
}

bool engine_read_some_kallsyms(struct engine *g)
{
	struct err *e = &g->kallsyms_none;
	int r = kallsyms_read_some(g->kallsyms_fd, &g->kallsyms_partial, e);
	if (r == 1)
		return true;
	if (r < 0)
		log_line(LOG_WARNING, "outcome=no_kernel_names reason=\"%s\"", e->text);
	g->kallsyms = g->kallsyms_partial;
	g->kallsyms_partial = NULL;
	g->kallsyms_fd = fd_close(g->kallsyms_fd);
	return false;
}

void engine_read_kallsyms(struct engine *g)
{
	while (engine_read_some_kallsyms(g))
		;
}

int engine_peer_level(const struct engine *g)
{
	return g->modest && !g->single ? LOG_INFO : LOG_WARNING;
}

void engine_schedule_target(struct engine *g, struct target *t, int64_t nsec)
{
	const int64_t at = deadline_in(nsec);
	t->turn.due = at < t->turn.due ? at : t->turn.due;
	g->due = at < g->due ? at : g->due;
}

void engine_schedule_all(struct engine *g)
{
	int64_t soon = deadline_in(ENGINE_ROUND_MS * NSEC_PER_MSEC);
	g->restless = true;
	if (g->look_again > soon)
		g->look_again = soon;
}

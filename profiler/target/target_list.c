/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_list.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "profiler/target/target_usage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static enum listed_state state_of(const struct target *t)
{
	return t->ending	     ? LISTED_ENDING
	       : t->sampling.started ? LISTED_STARTED
	       : t->armed	     ? LISTED_ARMED
				     : LISTED_REGISTERED;
}

static uint64_t cpu_of(struct target *t)
{
	uint64_t used = t->armed ? target_cpu_usage(t) : 0;
	return used ? used - t->usage.cpu_first : LISTED_UNKNOWN;
}

static uint64_t memory_of(const struct target *t)
{
	size_t n = sizeof(*t) + (t->events.n_announced - t->events.n_uncovered) * sizeof(struct open_event);
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		n += aggregate_memory(t->sampling.counts[i]);
	return n;
}

static void fill_one(struct target *t, int64_t now, struct target_row *l)
{
	const struct target_desc *d = &t->desc;
	*l = (struct target_row){
		.state = state_of(t),
		.strategy = d->strategy,
		.kernel = d->kernel,
		.host_pid = d->host_pid,
		.window_s = d->window_s,
		.n_events = target_n_asked(t),
		.serial = t->serial,
		.age_ms = (uint64_t)((now - t->born) / NSEC_PER_MSEC),
		.window_ms = t->sampling.started ? (uint64_t)((now - t->sampling.window_mono) / NSEC_PER_MSEC) : 0,
		.samples = t->sampling.samples,
		.window_samples = t->sampling.tally.samples,
		.lost = t->window.past.lost + t->sampling.tally.lost,
		.lost_shared = t->sampling.tally.lost_shared,
		.throttled = t->window.past.throttled + t->sampling.tally.throttled,
		.cpu_us = cpu_of(t),
		.cost_us = (uint64_t)t->sampling.cost / 1000,
		.naming_us = (uint64_t)t->names.spent / 1000,
		.memory = memory_of(t),
		.records = t->sampling.records,
		.bytes = t->sampling.bytes,
		.capped = (uint64_t)(rate_cap_factor(&t->sampling.rate.cap) * 100 + 0.5),
		.lowered = (uint64_t)(cpu_budget_factor(&t->engine->rates.allowance) * 100 + 0.5),
	};
	memcpy(l->events, d->events, sizeof(l->events));
	snprintf(l->id, sizeof(l->id), "%s", d->id);
	snprintf(l->name, sizeof(l->name), "%s", d->name);
	snprintf(l->pod, sizeof(l->pod), "%s", d->pod);
	snprintf(l->pod_namespace, sizeof(l->pod_namespace), "%s", d->pod_namespace);
	snprintf(l->profile, sizeof(l->profile), "%s", t->spool.last_profile);
}

/* The second number of statm; 0 where there is none. */
static uint64_t read_resident_size(int statm)
{
	char text[128];
	ssize_t n = statm < 0 ? -1 : fd_pread_all(statm, text, sizeof(text) - 1, 0);
	if (n < 0)
		return 0;
	text[n] = 0;
	const char *second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* By the setting, or by the kernel, whichever is less. */
static uint64_t fds_max(const struct engine *g)
{
	struct rlimit l = {0};
	getrlimit(RLIMIT_NOFILE, &l);
	return g->limits.fds && g->limits.fds < l.rlim_cur ? g->limits.fds : l.rlim_cur;
}

static void fill_sums(const struct engine *g, struct msg_listing *m)
{
	const struct cpu_budget_cost spent = cpu_budget_minute(&g->rates.allowance);
	m->sampling_us = spent.sampling / 1000;
	m->sums = (struct target_totals){
		.targets = g->n_targets,
		.fds = engine_fds(g),
		.fds_max = fds_max(g),
		.rings = cpu_rings_count(g->perf.rings),
		.ring_bytes = cpu_rings_size(g->perf.rings),
		.records = g->perf.records,
		.unknown = g->perf.unknown,
		.memory = read_resident_size(g->host.statm),
		.cpu_us = (uint64_t)clock_cpu() / 1000,
		.minute_us = (spent.sampling + spent.other) / 1000,
		.allowed_us = g->rates.allowed * CPU_BUDGET_SECONDS / 1000,
		.refused = g->refused,
		.table_bytes = g->tables.used,
	};
}

void target_list_fill(struct engine *g, uint64_t before, struct msg_listing *m)
{
	int64_t now = clock_now();
	struct target *t = g->targets;
	while (t && t->serial >= before)
		t = t->next;
	for (m->n = 0; t && m->n < PROTOCOL_LISTED_MAX; t = t->next)
		fill_one(t, now, &m->targets[m->n++]);
	m->last = !t;
	snprintf(m->spool, sizeof(m->spool), "%.*s", (int)sizeof(m->spool) - 1, g->spool.path);
	m->sums = (struct target_totals){0};
	m->sampling_us = 0;
	if (m->last)
		fill_sums(g, m);
}

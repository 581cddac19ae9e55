/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/target/target_usage.h"

#include "oci/base/fd.h"
#include "oci/isolation/cgroup.h"
#include "profiler/inproc/inproc.h"
#include "shim/event/attach_strategy.h"

#include <errno.h>
#include <poll.h>

uint32_t target_n_asked(const struct target *t)
{
	const uint32_t n = t->desc.n_events;
	return n && t->desc.events[n - 1].profiles == PROFILES_ALLOC ? n - 1 : n;
}

/* One POLLHUP says little (a leader may exit, a thread may exec): all events with the side-band must have it. */
static bool all_hung_up(const struct target *t)
{
	bool threads = t->desc.strategy == STRATEGY_THREADS;
	for (const struct open_event *st = t->events.list; st; st = st->next_of_target) {
		struct pollfd p = {.fd = st->fd};
		bool sideband = st->role == PERF_SIDEBAND || (threads && st->role == PERF_SAMPLES);
		if (sideband && (poll(&p, 1, 0) != 1 || !(p.revents & POLLHUP)))
			return false;
	}
	return true;
}

static uint64_t cpu_weight(const struct target *t)
{
	for (uint32_t i = 0; i < t->desc.n_events; i++)
		if (event_kind(t->desc.events[i].kind)->measure == MEASURES_CPU)
			return t->sampling.tally.weight[i];
	return 0;
}

uint64_t target_cpu_usage(struct target *t)
{
	if (t->usage.cpu_stat >= 0 && cgroup_cpu_usage(t->usage.cpu_stat, &t->usage.cpu_last) == 0)
		t->usage.cpu_weight = cpu_weight(t);
	return t->usage.cpu_last;
}

uint64_t target_cpu_used(struct target *t)
{
	uint64_t used = target_cpu_usage(t) - t->sampling.tally.cpu_usage, weight = cpu_weight(t);
	return used + (weight > t->usage.cpu_weight ? (weight - t->usage.cpu_weight) / 1000 : 0);
}

bool target_has_ended(struct target *t)
{
	int populated = t->usage.events >= 0 ? cgroup_populated(t->usage.events) : -ENOENT;
	if (populated == 0 || populated == -ENODEV)
		return true;
	if (populated == 1 && t->desc.strategy == STRATEGY_CGROUP)
		return false;
	if (t->desc.strategy == STRATEGY_PROCESS)
		return all_hung_up(t);
	if (t->desc.strategy == STRATEGY_TIMERS)
		return fd_wait(t->watch.pidfd, POLLIN, 0) == 1 && !inproc_alive(t->apps);
	if (t->desc.strategy == STRATEGY_THREADS) /* many events: checked only when the first process is gone */
		return fd_wait(t->watch.pidfd, POLLIN, 0) == 1 && all_hung_up(t);
	return fd_wait(t->watch.pidfd, POLLIN, 0) == 1; /* perf_event on v1: nothing but the init's end tells */
}

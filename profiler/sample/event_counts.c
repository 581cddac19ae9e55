/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/event_counts.h"

#include "oci/base/fd.h"
#include "profiler/perf/open_events.h"

#include <unistd.h>

uint64_t event_counts_scaled(uint64_t value, double scale)
{
	double to = (double)value * scale + 0.5;
	return scale == 1 ? value : to < (double)INT64_MAX ? (uint64_t)to : INT64_MAX;
}

bool event_counts_read(const struct open_event *st, struct event_reading *ret)
{
	const bool times = st->layout.flags & LAYOUT_TIMES, lost = st->layout.flags & LAYOUT_LOST;
	uint64_t n[4] = {0};
	size_t size = (1 + 2 * times + lost) * sizeof(n[0]); /* no more: another read would fail */
	if (fd_read_all(st->fd, n, size) != (ssize_t)size)
		return false;
	*ret = (struct event_reading){n[0], lost ? n[1 + 2 * times] : 0, times ? n[1] : 0, times ? n[2] : 0};
	return true;
}

void event_counts_store(struct open_event *st, const struct event_reading *now)
{
	st->value_seen = now->value;
	st->lost_seen = now->lost;
	st->enabled_seen = now->enabled;
	st->running_seen = now->running;
}

void event_counts_rebase(struct open_event *st)
{
	struct event_reading now;
	if (event_counts_read(st, &now))
		event_counts_store(st, &now);
}

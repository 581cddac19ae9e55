/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/cpu_coverage.h"

#include "oci/base/fd.h"
#include "profiler/perf/cpu_rings.h"
#include "profiler/perf/open_events.h"
#include "shim/event/perf_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS CPU_RINGS_CPUS_MAX
#define ELLIPSIS ",..."

struct cpu_coverage {
	int online;
	char text[4096];	/* as last read */
	int64_t up_since[CPUS]; /* when it was last seen to come online */
	int64_t up_until[CPUS]; /* when it was seen to have gone offline; INT64_MAX: it is online, 0: it never was */
};

int cpu_coverage_new(int online, struct cpu_coverage **ret)
{
	struct cpu_coverage *c = online < 0 ? NULL : calloc(1, sizeof(*c));
	if (!c) {
		fd_close(online);
		return online < 0 ? online : -ENOMEM;
	}
	c->online = online;
	*ret = c;
	return 0;
}

struct cpu_coverage *cpu_coverage_free(struct cpu_coverage *c)
{
	if (c)
		fd_close(c->online);
	free(c);
	return NULL;
}

static bool is_known(int cpu)
{
	return cpu >= 0 && cpu < CPUS;
}

static bool is_up(const struct cpu_coverage *c, int cpu)
{
	return c->up_until[cpu] == INT64_MAX;
}

/* --- looking --------------------------------------------------------------------------------------------- */

/* False: no change, or the file cannot be read. */
static bool read_online(struct cpu_coverage *c)
{
	char text[sizeof(c->text)] = "";
	if (fd_pread_all(c->online, text, sizeof(text) - 1, 0) <= 0 || !strcmp(text, c->text))
		return false;
	memcpy(c->text, text, sizeof(text));
	return true;
}

static bool note_cpus(struct cpu_coverage *c, int64_t now)
{
	static int cpus[CPUS];
	int n = perf_parse_cpus(c->text, cpus, CPUS), next = 0;
	for (int cpu = 0; n > 0 && cpu < CPUS; cpu++) {
		while (next < n && cpus[next] < cpu)
			next++;
		const bool up = next < n && cpus[next] == cpu;
		if (up && !is_up(c, cpu)) {
			c->up_since[cpu] = now;
			c->up_until[cpu] = INT64_MAX;
		} else if (!up && is_up(c, cpu)) {
			c->up_until[cpu] = now;
		}
	}
	return n > 0;
}

bool cpu_coverage_look(struct cpu_coverage *c, int64_t now)
{
	return c && read_online(c) && note_cpus(c, now);
}

bool cpu_coverage_take_off(const struct cpu_coverage *c, struct open_event *events, int64_t now)
{
	bool any = false;
	for (struct open_event *st = events; st; st = st->next_of_target)
		if (!st->off_since && is_known(st->cpu) && !is_up(c, st->cpu)) {
			st->off_since = now;
			any = true;
		}
	return any;
}

/* --- CPUs without an event ------------------------------------------------------------------------------- */

/* By CPU: 0 without an event, INT64_MAX where one counts, else when the last one was seen to be off. */
static void fill_covered(const struct open_event *events, int64_t ret[CPUS])
{
	memset(ret, 0, CPUS * sizeof(ret[0]));
	for (const struct open_event *st = events; st; st = st->next_of_target) {
		const int64_t until = st->off_since ? st->off_since : INT64_MAX;
		if (is_known(st->cpu) && until > ret[st->cpu])
			ret[st->cpu] = until;
	}
}

/* False: the list is full, and was cut. */
static bool put_span(char ret[CPU_COVERAGE_LIST_MAX], int first, int last)
{
	char span[32];
	size_t at = strlen(ret);
	int n = snprintf(span, sizeof(span), first < last ? "%s%d-%d" : "%s%d", at ? "," : "", first, last);
	const bool fits = at + (size_t)n + sizeof(ELLIPSIS) <= CPU_COVERAGE_LIST_MAX;
	snprintf(ret + at, CPU_COVERAGE_LIST_MAX - at, "%s", fits ? span : ELLIPSIS);
	return fits;
}

void cpu_coverage_list(
	const struct cpu_coverage *c, const struct open_event *events, int64_t since, char ret[CPU_COVERAGE_LIST_MAX])
{
	static int64_t covered[CPUS];
	ret[0] = 0;
	if (!c)
		return;
	fill_covered(events, covered);
	for (int cpu = 0, first = -1; cpu <= CPUS; cpu++) {
		const bool bare =
			cpu < CPUS && c->up_until[cpu] >= since && c->up_until[cpu] && covered[cpu] < c->up_since[cpu];
		if (bare && first < 0)
			first = cpu;
		if (bare || first < 0)
			continue;
		if (!put_span(ret, first, cpu - 1))
			return;
		first = -1;
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/cpu_budget.h"

#define TARGET 0.85
#define RAISE_LEAST 1.15 /* less is not worth a change */

double cpu_budget_factor(const struct cpu_budget *b)
{
	return b->factor > 1 ? b->factor : 1;
}

/* Sums up `seconds` that ended `ago` seconds ago. */
static struct cpu_budget_cost sum_costs(const struct cpu_budget *b, unsigned ago, unsigned seconds)
{
	struct cpu_budget_cost n = {0};
	for (unsigned i = ago; i < ago + seconds; i++) {
		const struct cpu_budget_cost *s = &b->spent[(b->at + CPU_BUDGET_SECONDS - i) % CPU_BUDGET_SECONDS];
		n.sampling += s->sampling;
		n.other += s->other;
	}
	return n;
}

struct cpu_budget_cost cpu_budget_minute(const struct cpu_budget *b)
{
	return sum_costs(b, 0, CPU_BUDGET_SECONDS);
}

static void store_cost(struct cpu_budget *b, unsigned seconds, const struct cpu_budget_cost *spent)
{
	unsigned n = seconds < CPU_BUDGET_SECONDS ? seconds : CPU_BUDGET_SECONDS;
	for (unsigned i = 0; i < n; i++) {
		b->at = (b->at + 1) % CPU_BUDGET_SECONDS;
		b->spent[b->at] = (struct cpu_budget_cost){spent->sampling / n, spent->other / n};
	}
	b->since = b->since > UINT32_MAX - seconds ? UINT32_MAX : b->since + seconds;
	b->seconds += seconds;
}

/* Halves the factor, and once more for each CPU_BUDGET_PATIENCE without a look. */
static double compute_least_factor(double now, unsigned seconds)
{
	for (unsigned passed = 0; now > 1 && passed <= seconds; passed += CPU_BUDGET_PATIENCE)
		now /= 2;
	return now < 1 ? 1 : now;
}

/*
 * Returns the cost of sampling in `seconds` that ended `ago` seconds ago, as a share of the budget left by other work.
 */
static double share_of(const struct cpu_budget *b, unsigned ago, unsigned seconds, uint64_t allowed)
{
	const struct cpu_budget_cost spent = sum_costs(b, ago, seconds);
	const double all = (double)allowed * seconds, most = all / CPU_BUDGET_OTHER, other = (double)spent.other;
	return (double)spent.sampling / (all - (other < most ? other : most));
}

/* Returns the share of the dearest ten seconds in the last CPU_BUDGET_PATIENCE. */
static double dearest_share(const struct cpu_budget *b, uint64_t allowed)
{
	double most = 0;
	for (unsigned ago = 0; ago < CPU_BUDGET_PATIENCE; ago += CPU_BUDGET_RECENT) {
		double share = share_of(b, ago, CPU_BUDGET_RECENT, allowed);
		most = share > most ? share : most;
	}
	return most;
}

bool cpu_budget_has_room(const struct cpu_budget *b, uint64_t allowed)
{
	const struct cpu_budget_cost minute = cpu_budget_minute(b);
	const uint64_t all = allowed * CPU_BUDGET_SECONDS, least = all / CPU_BUDGET_OTHER;
	const uint64_t left = all > minute.sampling ? all - minute.sampling : 0;
	return !allowed || minute.other < (left > least ? left : least);
}

/* The last ten seconds tell something only if all of them passed at the present factor. */
static double compute_factor(const struct cpu_budget *b, unsigned seconds, uint64_t allowed)
{
	double now = cpu_budget_factor(b), share = share_of(b, 0, CPU_BUDGET_RECENT, allowed);
	if (b->since < CPU_BUDGET_RECENT)
		return now;
	if (share > 1 && share_of(b, 0, CPU_BUDGET_SECONDS, allowed) > 1) {
		double to = now * share / TARGET;
		return to > CPU_BUDGET_MOST ? CPU_BUDGET_MOST : to;
	}
	if (now == 1 || b->since < CPU_BUDGET_PATIENCE)
		return now;
	double to = now * dearest_share(b, allowed) / TARGET, floor = compute_least_factor(now, seconds);
	to = to < floor ? floor : to;
	return to * RAISE_LEAST <= now || to == 1 ? to : now;
}

bool cpu_budget_look(struct cpu_budget *b, unsigned seconds, const struct cpu_budget_cost *spent, uint64_t allowed)
{
	double now = cpu_budget_factor(b);
	if (!seconds)
		return false;
	if (!b->seconds) /* judge at once: the first minute has the sum of a whole minute */
		b->since = CPU_BUDGET_PATIENCE;
	store_cost(b, seconds, spent);
	b->factor = allowed ? compute_factor(b, seconds, allowed) : 1;
	if (b->factor != now)
		b->since = 0;
	return b->factor != now;
}

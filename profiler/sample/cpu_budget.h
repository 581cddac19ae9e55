/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_budget - keeps the cost of profiling below a share of the machine, over a sliding minute. Numbers only:
 * profiler/sample/sample_rate.h and profiler/target/symbol_requests.h act on them.
 *
 * The cost has two parts. Sampling all targets less often lowers the cost of sampling alone: starts, files and names
 * cost the same. So names are put off first, while all other work takes more than sampling leaves of the budget, and
 * more than a quarter of it. Sampling is lowered to the part that other work leaves, which is never less than three
 * quarters of the budget.
 *
 * A minute's sum may be spent at any time in it, so a start that reads many symbols lowers nothing. When sampling
 * exceeded its part in the last minute, and in the last ten seconds too, it is lowered so far that those ten would have
 * been below; then ten seconds pass until the effect shows. Sampling is raised again, with the factor halved at most,
 * when 85 % of its part would do, and no sooner than 30 s after the last change: the two marks lie apart, so that it
 * does not swing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CPU_BUDGET_SECONDS 60
#define CPU_BUDGET_RECENT 10
#define CPU_BUDGET_PATIENCE 30
#define CPU_BUDGET_MOST 64.0
#define CPU_BUDGET_OTHER 4 /* 1/4 of the budget: left to other work, however much sampling takes */

struct cpu_budget_cost { /* ns of CPU time */
	uint64_t sampling, other;
};

struct cpu_budget { /* all zero: nothing is lowered */
	double factor;
	struct cpu_budget_cost spent[CPU_BUDGET_SECONDS]; /* by second, a ring buffer */
	unsigned at;					  /* the latest */
	unsigned since;					  /* seconds since the last change */
	uint64_t seconds;				  /* all seconds that were looked at */
};

double cpu_budget_factor(const struct cpu_budget *b); /* 1: as asked for */
/*
 * Notes the cost of the last `seconds` (more than 1 when the service was held up). allowed: ns a second, 0: no bound.
 * Returns true if the factor has changed.
 */
bool cpu_budget_look(struct cpu_budget *b, unsigned seconds, const struct cpu_budget_cost *spent, uint64_t allowed);
/* Returns whether work other than sampling, which can be put off, may be done now. */
bool cpu_budget_has_room(const struct cpu_budget *b, uint64_t allowed);
struct cpu_budget_cost cpu_budget_minute(const struct cpu_budget *b); /* spent in the last minute */

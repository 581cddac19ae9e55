/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_budget - keeps what profiling costs below a share of the machine, over a sliding minute. Numbers only:
 * profiler/sample/sample_rate.h and profiler/target/symbol_requests.h do it.
 *
 * What it costs has two parts. To sample all targets less often lowers what sampling costs, and nothing else: starts,
 * files and names cost the same. So names are put off first, while all that is no sampling takes more than sampling
 * leaves of the budget, and more than a quarter of it. Sampling is lowered to what the other part leaves, which is
 * never less than three quarters of the budget.
 *
 * A minute's sum may be spent at any time in it, so a start that reads many symbols lowers nothing. When sampling took
 * more than there is for it in the last minute, and in the last ten seconds too, it is lowered by so much that those
 * ten would have been below; then ten seconds pass, for what was decided to be seen. What was lowered is raised again,
 * by half at most, when 85 % of what there is for sampling would do, and no sooner than 30 s after the last change: the
 * two marks lie apart, so that it does not swing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CPU_BUDGET_SECONDS 60
#define CPU_BUDGET_RECENT 10
#define CPU_BUDGET_PATIENCE 30
#define CPU_BUDGET_MOST 64.0
#define CPU_BUDGET_OTHER 4 /* of the budget, one part: what sampling leaves to all else, however much it takes */

struct cpu_budget_cost { /* ns of CPU time */
	uint64_t sampling, other;
};

struct cpu_budget { /* all zero: nothing is lowered */
	double factor;
	struct cpu_budget_cost spent[CPU_BUDGET_SECONDS]; /* by second, in a circle */
	unsigned at;					  /* the latest */
	unsigned since;					  /* seconds since the last change */
	uint64_t seconds;				  /* all that were looked at */
};

double cpu_budget_factor(const struct cpu_budget *b); /* 1: as asked for */
/*
 * `seconds` (1 or more, of a service that was held up) have passed, in which `spent` went. allowed: ns a second, 0: no
 * bound. True: another factor from now on.
 */
bool cpu_budget_look(struct cpu_budget *b, unsigned seconds, const struct cpu_budget_cost *spent, uint64_t allowed);
/* Whether something that is no sampling, and can be put off, may be done now. */
bool cpu_budget_has_room(const struct cpu_budget *b, uint64_t allowed);
struct cpu_budget_cost cpu_budget_minute(const struct cpu_budget *b); /* spent in the last minute */

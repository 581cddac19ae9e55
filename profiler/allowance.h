/*
 * allowance - by how much all sampling is to be lowered so that profiling stays below a share of the machine, over a
 * sliding minute. Numbers only: profiler/rates.h does it.
 *
 * A minute's sum may be spent at any time in it, so a start that reads many symbols lowers nothing. When the minute's
 * sum is above, and the last ten seconds are too, so much more is lowered that those ten would have been below; then
 * ten seconds pass, for what was decided to be seen. What was lowered is raised again, by half at most, when 85 % of
 * the budget would do, and no sooner than 30 s after the last change: the two marks lie apart, so that it does not
 * swing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ALLOWANCE_SECONDS 60
#define ALLOWANCE_RECENT 10
#define ALLOWANCE_PATIENCE 30
#define ALLOWANCE_MOST 64.0

struct allowance { /* all zero: nothing is lowered */
	double factor;
	uint64_t spent[ALLOWANCE_SECONDS]; /* ns, by second, in a circle */
	unsigned at;			   /* the latest */
	unsigned since;			   /* seconds since the last change */
	uint64_t seconds;		   /* all that were looked at */
};

double allowance_factor(const struct allowance *b); /* 1: as asked for */
/*
 * `seconds` (1 or more, of a service that was held up) have passed, in which `spent` ns of CPU time went. allowed: ns a
 * second, 0: no bound. True: another factor from now on.
 */
bool allowance_look(struct allowance *b, unsigned seconds, uint64_t spent, uint64_t allowed);
uint64_t allowance_minute(const struct allowance *b); /* ns spent in the last minute */

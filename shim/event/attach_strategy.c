/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/event/attach_strategy.h"

static const struct attach_method table[] = {
	{STRATEGY_CGROUP, true, "cgroup"},
	{STRATEGY_CGROUP, false, "cgroup, user code only"},
	{STRATEGY_PROCESS, true, "process"},
	{STRATEGY_PROCESS, false, "process, user code only"},
	{STRATEGY_THREADS, true, "threads"},
	{STRATEGY_THREADS, false, "threads, user code only"},
	{STRATEGY_TIMERS, false, "timers"},
};

static bool is_applicable(const struct attach_method *a, enum attach asked, bool running, bool app)
{
	if (a->strategy == STRATEGY_CGROUP)
		return asked != ATTACH_PROCESS;
	if (a->strategy == STRATEGY_TIMERS)
		return asked != ATTACH_CGROUP && app;
	return asked != ATTACH_CGROUP && (a->strategy == STRATEGY_THREADS) == running;
}

const struct attach_method *strategy_attempt(enum attach asked, bool running, bool app, size_t i)
{
	for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++)
		if (is_applicable(&table[row], asked, running, app) && i-- == 0)
			return &table[row];
	return NULL;
}

const char *strategy_name(enum strategy strategy)
{
	size_t row = 0;
	while (table[row].strategy != strategy)
		row++;
	return table[row].name;
}

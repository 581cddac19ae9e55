/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits - the most that one pilliond holds, and the effect of each limit. A service's are settings
 * (oci/config/options.c), a session's are fixed: it serves one target, in a cgroup of 64 MiB. A service for one user
 * (profiler/daemon/user_service.h) has a service's, but a session's for modules and code, and 12 MiB of stacks. The
 * supervisor enforces targets and descriptors, the worker the rest.
 *
 *	limit (setting)			default (session)	when it is reached
 *	targets (targets)		1000 (1)		the newest is refused, by name of the setting
 *	descriptors (fds)		65536 (65536)		as many events as fit; none: refused
 *	   also by RLIMIT_NOFILE
 *	counted stacks of all		48 MiB (none)		at three quarters of it the window of the
 *	   (table_size)						largest target ends early; at all of it no
 *								stack is new any more: "[lost: table full]"
 *	counted stacks, each		65536 samples,		"[lost: table full]" (profiler/sample/aggregate.h)
 *					524288 nodes
 *	modules (module_size)		96 MiB (32 MiB)		unused ones go; else addresses without names
 *	code of JITs (jit_size)		32 MiB (12 MiB)		names end there: "[anon]"
 *	profiles (spool_size,		1 GiB, 7 days		the oldest go (profiler/spool/spool.h)
 *	   spool_age)
 *	one target's samples		4000 and 128 MiB	it is sampled less often (profiler/sample/sample_rate.h)
 *	   (target_rate, target_bytes)	a second (none)
 *	CPU time (cpu_budget)		1 % of the machine	all are
 *					(none)
 *	connections			64			one more is refused
 */
#pragma once

#include "profiler/target/engine_state.h"

struct settings;

/* Sets the limits from the settings: before engine_init, and (but for modules and code) again when they change. */
void limits_apply(struct engine *g, const struct settings *set);
/* For the supervisor: 0, or -EBUSY with a message if `n_targets` leave no room for one more. */
int limits_check_new_target(const struct engine *g, unsigned n_targets, struct err *e);
/* Returns how many descriptors may still be opened beside `held`. */
uint32_t limits_fds(const struct engine *g, uint64_t held);
/* If tables are nearly full, ends the window of the target with the largest ones, unless windows that are over will
 * free enough. */
void limits_enforce_memory(struct engine *g);

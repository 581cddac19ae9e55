/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits - what one pilliond holds at most, and what happens then. A service's are settings (oci/config/options.c), a
 * session's are fixed: it serves one target, in a cgroup of 64 MiB. What a service has for one user
 * (profiler/daemon/user_service.h) has a service's, but for modules and code, which are a session's, and 12 MiB of
 * stacks. Targets and descriptors are the supervisor's to refuse, the rest is of the worker.
 *
 *	what (setting)			default (session)	when it is reached
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

#include "profiler/target/engine.h"

struct settings;

/* What is allowed, from the settings: before engine_init, and (but for modules and code) again when they change. */
void limits_apply(struct engine *g, const struct settings *set);
/* The supervisor asks. With so many: 0, or -EBUSY with a sentence: no room for one more target. */
int limits_check_new_target(const struct engine *g, unsigned n_targets, struct err *e);
/* The same, of descriptors: how many targets may still bring beside those that are held. */
uint32_t limits_fds(const struct engine *g, uint64_t held);
/* Tables are nearly full: the window of whom they are fullest ends, unless one is being written. */
void limits_enforce_memory(struct engine *g);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run - the instrumentation sequence of `pillion run`: the calling process is going to be the program. It reaches a
 * service or starts a session, opens its own events, passes them and waits, bounded, for "armed"; then the caller
 * execs. Whatever happens in between, the caller has its pid, its parent, its children (none), its signals, limits and
 * stdio as before, and nothing of ours survives the exec.
 */
#pragma once

#include "oci/config/options.h"

/*
 * `program`: the absolute path of what is going to be run, whose name the profile gets. 0: armed, or the settings say
 * that nothing is to be done. Else -errno with a sentence, after at most settings.budget_ms.
 */
struct run_armed {
	struct err less; /* what of the list of events cannot be had, or that it is sampled by timers for want of perf;
			    or code 0 */
	bool in_service; /* and not in a session */
};
int run_arm(struct options *o, const char *program, struct run_armed *ret, struct err *e);

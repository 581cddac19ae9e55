/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run - the instrumentation sequence of `pillion run`: the calling process will become the program. It reaches a
 * service or starts a session, opens its own events, passes them and waits, bounded, for "armed"; then the caller
 * execs. Whatever happens in between, the caller has its pid, its parent, its children (none), its signals, limits and
 * stdio as before, and nothing of ours survives the exec.
 */
#pragma once

#include "oci/config/options.h"

/*
 * `program`: the absolute path of the program to run; the profile gets its name. 0: armed. Else -errno with a sentence,
 * after at most settings.budget_ms.
 */
struct run_armed {
	struct err less; /* events that are left out, or that timers sample, for want of perf; code 0: neither */
	bool in_service; /* and not in a session */
};
int run_arm(struct options *o, const char *program, struct run_armed *ret, struct err *e);

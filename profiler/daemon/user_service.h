/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_service - a service for one user (user_services.h): a supervisor with a worker and an exporter, as any other,
 * but for a socket of its own; connections come from `pilliond-users`.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/perf/cpu_rings.h"

#include <sys/types.h>

#define USER_SERVICE_IDLE_MS 10000 /* without targets and connections: it may end */

struct user_service_setup { /* all of it taken */
	const struct settings *settings;
	uid_t uid;
	int spool, root, forkserver; /* as in user_services.h */
	int channel; /* connections come here, one a message; it says there how many it had when it is idle */
	int first;   /* connection */
	struct cpu_rings *rings;
};

/* The process itself, forked just now; it has no other descriptors. Ends when the channel does. */
_Noreturn void user_service_run(const struct user_service_setup *setup);

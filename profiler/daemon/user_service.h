/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_service - a service for one user (user_services.h): a supervisor with a worker and an exporter, like any other,
 * except that its connections come from `pilliond-users`, not from a listening socket.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/perf/cpu_rings.h"

#include <sys/types.h>

#define USER_SERVICE_IDLE_MS 10000 /* without targets and connections: then it may end */

struct user_service_setup { /* all of it taken */
	const struct settings *settings;
	uid_t uid;
	int spool, root, forkserver; /* as in user_services.h */
	int channel; /* connections come here, one a message; when idle, it reports here how many it has had */
	int first;   /* connection */
	struct cpu_rings *rings;
};

/*
 * Runs the service in this process, which was forked just now and has no other descriptors. Ends when the channel does.
 */
_Noreturn void user_service_run(const struct user_service_setup *setup);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * startup - the steps of pilliond while it is still privileged, and the loss of its privileges.
 *
 * Order: directories and sockets (root owns /run/pillion), rings (CAP_PERFMON and CAP_IPC_LOCK), the parked event,
 * kallsyms (addresses are checked at open); then for good: own user, no capability, no_new_privs, seccomp, no core, not
 * dumpable.
 */
#pragma once

#include "oci/base/process/oom_score.h"
#include "oci/config/options.h"
#include "profiler/daemon/exporter.h"
#include "profiler/daemon/sd_notify.h"
#include "profiler/daemon/user_services.h"
#include "profiler/spool/spool_lock.h"
#include "profiler/target/engine_state.h"

struct startup {
	uid_t started_by, uid; /* uid, gid: from startup_drop on */
	gid_t gid;
	int listener, memory, signals, parked; /* -1 = none */
	int tree;			       /* setting `target_root`, for control_server.h (O_PATH); -1 = none */
	struct oom_score oom;
	struct user_services users;
	struct forkserver forkserver;
	struct exporter_setup *exporter; /* given to startup_open */
	int left; /* connected to the worker that a service before us left (worker_handover.h); or -1 */
	struct inherited_fds handed;  /* descriptors that the service manager kept (fd_store.h); without the listener */
	struct spool_lock spool_lock; /* of a session */
};

/* Opens everything into `g`, `s` and `exporter`, and starts the users' process. Works unprivileged too, with less (see
 * cpu_rings.h). */
int startup_open(const struct settings *set, bool session, struct engine *g, struct exporter_setup *exporter,
	struct startup *s, struct err *e);
/* Gives up all privileges for good, and starts the fork server of the symbolizers on the way. */
int startup_drop(struct startup *s, struct engine *g, struct err *e);

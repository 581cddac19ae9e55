/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_start - starting `pilliond --session` for one target, in a cgroup of its own, with nothing of the caller left
 * on it: environment, stdio, signals, session, niceness, affinity, limits, OOM score, umask.
 *
 * No process of it ever signals the caller: those that end before session_start returns are reaped there without a
 * SIGCHLD, and the session becomes a child of the process that reaps the caller's orphans. Where that is the caller
 * itself (PID 1, or a child subreaper), a *keeper* stays between them: a child without exit signal, which plain wait(2)
 * does not see, and which is the subreaper of the session. It sleeps until the caller ends (measured:
 * tests/integration/suite_run.sh).
 */
#pragma once

#include "oci/config/options.h"

#include <sys/types.h>

struct session {
	const struct settings *settings;
	const char *id; /* with start_time of the target's init names the cgroup: /pillion/session-<id>@<start time> */
	uint64_t start_time;
	bool share_cgroup; /* where no cgroup can be made: stay in the caller's, and say so in `note` */
	bool keeper;
	char note[240]; /* out */
};

/*
 * Returns our end of the control connection, on which the session will answer HELLO when it is ready, or -errno:
 * -EALREADY when a session for this very target runs.
 */
int session_start(struct session *s, int64_t deadline, struct err *e);

/*
 * Removes the cgroups of a container's sessions that have ended; waits until the deadline for them to empty. Also
 * removes those of file openers (shim/attach/file_opener.h) that are empty.
 */
void session_clean(const char *id, int64_t deadline);

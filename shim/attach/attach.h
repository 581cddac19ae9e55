/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach - profiling what runs already: `pillion attach`. The caller reaches a service or starts a session, a sealed
 * copy of `pillion-opener` opens the events (shim/attach/attach_opener.h), and the caller's connection is the target's
 * life: when it ends, the target is let go of, without a trace in it.
 */
#pragma once

#include "oci/config/options.h"
#include "shim/protocol/messages.h"

#include <sys/types.h>

struct attach_target {
	pid_t pid;	/* the process, or the init of the container */
	bool container; /* everything in its cgroup; else the process and its descendants */
	char id[256], name[256];
	int listener; /* where libpillion in it connects (TARGET_APP); 0: nowhere */
	pid_t except; /* a child of it that is ours, and what is below that; 0: there is none */
};

struct attached {
	int sock; /* the target's life */
	bool in_service;
	char id[256];
	char notes[512]; /* what is less than asked for, or "" */
};

/* A process by its number. 0, -ESRCH, -EINVAL (a thread), with a sentence. */
int attach_find(pid_t pid, struct attach_target *ret, struct err *e);
/* settings.spool says where a session writes. 0: armed. Else -errno with a sentence; nothing is left. From here on the
 * caller's children are not waited for: SIGCHLD is ignored. */
int attach_start(const struct options *o, const struct attach_target *t, struct attached *ret, struct err *e);
/*
 * Tells a service that was started again what those of its targets consist of of which it could not hear: root's. How
 * many, 0 also when nobody listens; -errno with a sentence. What cannot be told of one is told to `say`.
 */
int attach_remap(const struct options *o, void (*say)(const char *id, const struct err *why), struct err *e);
/* Let go of it, unless it has ended: 0, and what came of it; bounded. */
int attach_stop(struct attached *a, struct msg_ended *ret, struct err *e);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach - profiling a running target: `pillion attach`. The caller reaches a service or starts a session; a sealed
 * copy of `pillion-opener` opens the events (shim/attach/attach_opener.h). The target is profiled as long as the
 * caller's connection lasts: when it ends, the target is released, without a trace in it.
 */
#pragma once

#include "oci/config/options.h"
#include "shim/protocol/messages.h"

#include <sys/types.h>

struct attach_target {
	pid_t pid;	/* the process, or the init of the container */
	bool container; /* everything in its cgroup; else the process and its descendants */
	char id[256], name[256];
	int listener; /* socket to which libpillion in the target connects (TARGET_APP); 0: none */
	pid_t except; /* a child of it that is ours: excluded with its descendants; 0: none */
};

struct attached {
	int sock; /* the target is profiled until this is closed */
	bool in_service;
	char id[256];
	char notes[512]; /* how the profile falls short of the request, or "" */
};

/* Finds a process by its pid. 0, -ESRCH, -EINVAL (a thread), with a sentence. */
int attach_find(pid_t pid, struct attach_target *ret, struct err *e);
/*
 * Starts profiling; a session writes to settings.paths.spool. 0: armed; else -errno with a sentence, and nothing is
 * left. Sets SIGCHLD to SIG_IGN: from here on the caller cannot wait for its children.
 */
int attach_start(const struct options *o, const struct attach_target *t, struct attached *ret, struct err *e);
/*
 * Sends a restarted service the processes and mappings of the targets whose records it missed; for root only. Returns
 * the number of targets, 0 also when no service listens; or -errno with a sentence. `say` gets the reason for each
 * target that failed.
 */
int attach_remap(const struct options *o, void (*say)(const char *id, const struct err *why), struct err *e);
/* Releases the target, unless it has ended. 0, with the last report of the profiler in `ret`; bounded in time. */
int attach_stop(struct attached *a, struct msg_ended *ret, struct err *e);

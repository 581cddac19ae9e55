/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener_inner - the second process of an opener: born in the container's pid namespace, opens perf events and passes
 * them to a profiler. It starts early: it greets the service and gives up its privileges while outer still looks at the
 * container. Its job comes in a parcel. Where no service listens it asks the hook for a session.
 */
#pragma once

#include "shim/attach/event_open.h"
#include "shim/attach/opener.h"

#include <sys/types.h>

/* From outer to the hook: shared memory that inner cannot write. */
struct opener_shared {
	struct container container;
	pid_t inner; /* the hook's child, too; the kernel sets the pid as it makes the process */
};

/* From both to the hook: shared memory, of which the hook checks a copy. */
struct opener_report {
	uint32_t outcome; /* enum opener_outcome */
	bool in_service;  /* only the answer of the profiler was missing, and that is the service */
	int code;
	char text[320];
	char notes[512];
};
void opener_report(struct opener_report *report, int code, const char *notes, const struct err *e);

/*
 * Outer sends inner one datagram: struct event_open_request, with descriptors: those that `desc.fds` names, in the
 * order of enum target_fd; then, unless `no_cgroup` says why not, the directory for PERF_FLAG_PID_CGROUP; then the
 * files of uprobes, in the order of desc.events; then, if user_only is set, a connection to the profiler: a sidecar,
 * which takes the place of the service.
 */
#define PARCEL_FDS_MAX (TARGET_FDS_MAX + 1 + EVENTS_MAX + 1)
struct opener_inner {
	const struct settings *settings;
	struct opener_report *report;
	int64_t deadline;
	int line;   /* socket to the hook */
	int parcel; /* socket on which the parcel comes; EOF: outer gave up */
};
_Noreturn void inner_run(const struct opener_inner *start);

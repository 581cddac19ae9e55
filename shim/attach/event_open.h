/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_open - opens the events of a target and passes them to a profiler, batch by batch in lock-step
 * (shim/protocol/messages.h). Tries the strategies in their order (shim/event/attach_strategy.h); each refusal becomes
 * a note. Uses the privileges that the caller has.
 */
#pragma once

#include "oci/base/err.h"
#include "shim/attach/thread_scan.h"
#include "shim/protocol/messages.h"

#include <stddef.h>
#include <stdint.h>

#define EVENT_OPEN_CPUS_MAX 4096
#define EVENT_OPEN_FILES 65536 /* no less than the service's (LimitNOFILE) */

/* Facts that do not depend on the target. */
struct host_info {
	uint32_t batch_max;		   /* descriptors that we may hold at once */
	uint32_t uprobe_type, kprobe_type; /* perf_probe_type */
	uint32_t max_rate;		   /* kernel.perf_event_max_sample_rate; 0: unknown */
	int n_cpus, cpus[EVENT_OPEN_CPUS_MAX];
};
void event_open_look(struct host_info *ret); /* needs to open files */
void event_open_raise_files(void); /* after event_open_look, in a process that is an opener and nothing else */

/* The request. No pointers: it may come from another process. */
struct event_open_request {
	struct target_desc desc; /* init_pid as in this process' pid namespace; strategy and kernel are set here */
	uint32_t attach, stacks; /* enum attach, enum stacks */
	uint32_t user_only;	 /* the profiler must not see kernel code: shim/attach/sidecar.h */
	char no_cgroup[200];	 /* why there is no cgroup for PERF_FLAG_PID_CGROUP, "" = there is one */
};

struct event_open {
	const struct host_info *host;
	struct event_open_request *request;
	const int *target; /* the descriptors that desc.fds names, in the order of enum target_fd */
	size_t n_target;
	int cgroup;				 /* its directory, or -1 */
	const int *probes;			 /* files of its uprobes, in the order of desc.events */
	const struct thread_scan_scope *running; /* its processes; NULL: nothing of it has run yet */
	int sock;				 /* to the profiler: HELLO has been sent, WELCOME not yet read */
	int64_t deadline;
};
/* Opens and passes all events. 0: armed; else -errno with a sentence. */
int event_open_events(const struct event_open *p, struct err *e);
/*
 * Sends no events, but the processes and mappings of `running`, to a profiler that has answered REMAP. 0, or -errno
 * with a sentence.
 */
int event_open_remapped(const struct event_open *p, struct err *e);

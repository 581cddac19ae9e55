/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_desc - one target as the opener describes it to pilliond: its identity, the descriptors that come along, how
 * its events were opened, and the events. It is part of a message (shim/protocol/messages.h): a fixed layout, checked
 * there.
 */
#pragma once

#include "oci/config/options.h"
#include "shim/event/event_spec.h"

#include <stdint.h>

/*
 * In the order of the descriptors. TARGET_EXE: the init's program, when the service user may not read it; known by
 * device and inode. TARGET_APP: the listening socket to which its processes with libpillion connect
 * (shim/libpillion/abi/shm_layout.h). The two before it are added within pilliond: files of the cgroup, for a process
 * that has no paths. TARGET_FILES: the SOCK_SEQPACKET socket of a file opener, for files that the service user may not
 * read (shim/attach/file_opener.h); the last, so that it can be left out (PROTOCOL_FILES).
 */
enum target_fd {
	TARGET_PIDFD = 1,
	TARGET_TREE = 2,
	TARGET_CGROUP = 4,
	TARGET_EXE = 8,
	TARGET_CGROUP_EVENTS = 16,
	TARGET_CPU_STAT = 32,
	TARGET_APP = 64,
	TARGET_FILES = 128
};
/* from outside */
#define TARGET_OUTSIDE (TARGET_PIDFD | TARGET_TREE | TARGET_CGROUP | TARGET_EXE | TARGET_APP | TARGET_FILES)
#define TARGET_FDS_MAX 6
#define TARGET_FDS_ALL 8
enum strategy { STRATEGY_CGROUP = 1, STRATEGY_PROCESS, STRATEGY_THREADS, STRATEGY_TIMERS };

struct target_desc {
	char id[256], name[256], pod[256], pod_namespace[256], service[256];
	char cgroup[1024];
	char notes[512];     /* the opener's notes: why this strategy, why user-only; sentences, ';' between */
	int32_t init_pid;    /* the init as its own pid namespace numbers it */
	int32_t host_pid;    /* as the runtime numbers it */
	uint64_t start_time; /* of the init, clock ticks since boot: with host_pid and id, the target's identity */
	uint32_t fds;	     /* mask of enum target_fd */
	uint32_t strategy;   /* enum strategy */
	uint32_t kernel;     /* kernel frames and time are included */
	uint32_t running;    /* it runs already: TASKS follow, and it is profiled as long as its connection lasts */
	uint32_t window_s;
	uint32_t detail; /* mask of enum detail */
	uint32_t n_labels;
	uint32_t n_events;
	struct label labels[LABELS_MAX];
	struct event_spec events[EVENTS_MAX];
};

/* Appends a sentence to the notes; text that does not fit is cut. */
void target_note(struct target_desc *d, const char *text);
void target_note_left_out(struct target_desc *d, const char *why);
/* Removes an event, and notes why; the later ones move up. */
void target_leave_out(struct target_desc *d, uint32_t event, const char *why);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_registry - the supervisor's record of a target: all messages that a worker needs, and the descriptors.
 *
 * With it a worker can die: its descriptors are copies of these, and its successor is told the same. No data of a
 * target is in here: all of it came from the peer that registered the target, and was checked
 * (shim/protocol/messages.h).
 */
#pragma once

#include "oci/base/event_loop.h"
#include "profiler/process/quarantine.h"
#include "shim/protocol/messages.h"

#include <stdbool.h>
#include <stdint.h>

struct registered_memory { /* that its processes have passed to the worker */
	uint32_t key;
	int fd;
};

struct target_relay {  /* supervisor.c: between its peer and the worker */
	int sock, far; /* connection to the worker; the far end of the next worker's, until that is forked */
	struct event_loop_source source;
	void (*answer)(void *arg, const union msg *m); /* gets the worker's answers; NULL: the peer has gone */
	void *arg;
};

struct target_store { /* fd_store.c: kept by the service manager, under a name with this number */
	enum { KEPT_YET, KEPT, KEPT_NOT } kept; /* KEPT_NOT: it cannot be */
	uint32_t turn;
};

struct registered_target {
	struct registered_target *next;
	uint32_t number;	 /* this target's, never used twice; not 0 */
	struct target_desc desc; /* as the worker gets it: `fds` includes those that we added (enum target_fd) */
	int fds[TARGET_FDS_ALL]; /* in the order of enum target_fd; -1: not there */
	uint32_t n_events, room;
	uint32_t total; /* 0 until the last batch, which has the number of events */
	struct event_desc *events;
	int *event_fds;
	bool owed;	   /* a message was passed on, and the worker has not answered it */
	bool described;	   /* TASKS have begun: only their sender could repeat them */
	bool armed, whole; /* armed: the worker has said so; whole: the last TASKS have come */
	bool stopping;	   /* the worker was told to end it */
	unsigned offered;  /* number of times that it was offered to a peer (REMAP) */
	bool unmapped;	   /* its new mappings were told to no process (shim/protocol/messages.h, REMAP) */
	bool detached;	   /* its events write into no ring: their former rings are gone (fd_store.h) */
	struct target_store store;
	bool plain; /* quarantined: kept as addresses only */
	struct registered_memory *memories;
	uint32_t n_memories;
	struct crash_blame blame; /* of workers that died at it */
	struct supervisor *supervisor;
	struct target_relay link;
};

/* Takes the descriptors, also on failure. NULL: out of memory. */
struct registered_target *registered_new(const struct target_desc *d, const int *fds);
/* Adds events; takes the descriptors, also on failure. 0 or -errno. */
int registered_add(struct registered_target *r, const struct msg_events *m, const int *fds);
/*
 * Keeps `fd` (taken, also where there is no room for one more) in place of the one with the same key. fd -1: only drops
 * that one.
 */
#define REGISTERED_MEMORIES 256
void registered_remember(struct registered_target *r, uint32_t key, int fd);
bool registered_is_complete(const struct registered_target *r); /* it has all its events, which may be none */
int registered_cgroup(const struct registered_target *r);	/* directory of its cgroup, or -1 */
/* Lists the descriptors that desc.fds names, in the order in which a message has them. Returns their number. */
size_t registered_list(const struct registered_target *r, int ret[static TARGET_FDS_ALL]);
/* Returns the number of descriptors that it holds, with that of its connection. */
uint32_t registered_fds(const struct registered_target *r);
void close_possibly_blocking(int fd);	   /* close(2) of a file of a peer's choice, which may hang; -1 is fine */
int close_possibly_blocking_prepare(void); /* before the first call, while there is a descriptor left: 0 or -errno */
void close_possibly_blocking_done(void);
void registered_reap(void); /* reaps the processes that close; to be called now and then */
struct registered_target *registered_free(struct registered_target *r); /* must be in no list and no loop */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_registry - what the supervisor remembers of a target: all that a worker has to be told of it, and the
 * descriptors.
 *
 * So that a worker can die: its descriptors are copies of these, and whoever comes behind it is told the same. Nothing
 * in here is a target's data; it came from whoever registered the target, and was checked (shim/protocol/messages.h).
 */
#pragma once

#include "oci/base/event_loop.h"
#include "profiler/process/quarantine.h"
#include "shim/protocol/messages.h"

#include <stdbool.h>
#include <stdint.h>

struct registered_target {
	struct registered_target *next;
	uint32_t number;	 /* of this target, never used twice; not 0 */
	struct target_desc desc; /* as a worker is told: `fds` with what was added (enum target_fd) */
	int fds[TARGET_FDS_ALL]; /* in the order of enum target_fd; -1: not there */
	uint32_t n_events, room;
	uint32_t total; /* 0 until the last batch has told how many events there are */
	struct event_desc *events;
	int *event_fds;
	bool owed;	   /* a message was passed on that the worker has not answered */
	bool described;	   /* TASKS have begun: nobody but who sent them can say it again */
	bool armed, whole; /* the worker has said so; TASKS have ended */
	bool stopping;	   /* it was told to end */
	unsigned offered;  /* times that somebody was asked to say */
	bool unmapped;	   /* and what it has mapped since nobody was told (shim/protocol/messages.h, REMAP) */
	bool detached;	   /* its events write into no ring: those that they wrote into are gone (fd_store.h) */
	enum { KEPT_YET, KEPT, KEPT_NOT } kept; /* not yet; by the service manager, under a name with */
	uint32_t turn;				/* this number; it cannot be */
	bool plain;				/* quarantined: kept as addresses only */
	struct registered_memory {		/* that processes of it have passed to the worker */
		uint32_t key;
		int fd;
	} * memories;
	uint32_t n_memories;
	struct crash_blame blame; /* for workers that died at it */
	/* supervisor.h */
	struct supervisor *supervisor;
	int relay, far; /* connection to the worker; the worker's end of the next one, until it is forked */
	struct event_loop_source source;
	void (*answer)(void *arg, const union msg *m); /* of the worker, or NULL: nobody listens any more */
	void *arg;
};

/* Takes the descriptors also on failure. NULL: out of memory. */
struct registered_target *registered_new(const struct target_desc *d, const int *fds);
/* Takes them, also on failure. Not more than `room`. 0 or -errno. */
int registered_add(struct registered_target *r, const struct msg_events *m, const int *fds);
/* Taken, also where there is no room for one more; one with the same key is let go of. fd -1: of that alone. */
#define REGISTERED_MEMORIES 256
void registered_remember(struct registered_target *r, uint32_t key, int fd);
bool registered_is_complete(const struct registered_target *r); /* all events are there, of which it may have none */
int registered_cgroup(const struct registered_target *r);	/* its directory, or -1 */
/* Those that desc.fds names, in the order in which a message has them; how many. */
size_t registered_list(const struct registered_target *r, int ret[static TARGET_FDS_ALL]);
/* How many descriptors it holds, itself and its connection. */
uint32_t registered_fds(const struct registered_target *r);
void close_possibly_blocking(int fd); /* close(2), which may hang, of a file that somebody chose; -1 is fine */
void registered_reap(void);	      /* the processes in which that was done, now and then */
struct registered_target *registered_free(struct registered_target *r); /* must be in no list and no loop */

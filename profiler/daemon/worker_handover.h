/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_handover - passes everything from the worker of a supervisor that is gone to the next supervisor.
 *
 * The worker goes on without a supervisor: rings, targets and helpers are its own as well. It waits for
 * HANDOVER_PATIENCE_MS at a socket beside the control socket, which the supervisor made while it was root, and gives
 * everything to the first peer that is allowed to ask: its supervisor from then on. No event is opened anew, no record
 * is missed.
 *
 * Items over a SOCK_SEQPACKET connection, in this order, with their descriptors: HANDOVER_HEAD (the worker's channel, a
 * pidfd of the worker, its journal, then those of `has`), HANDOVER_RINGS until all are there, for each target
 * HANDOVER_TARGET (the supervisor's end of its connection, then those of desc.fds) and its HANDOVER_EVENTS, then
 * HANDOVER_END. Both ends are this program. A worker of another layout is refused, and writes its last windows; or it
 * is killed, and its journal tells what it had counted (fd_store.h). All layouts have the same beginning of a head, and
 * its first two descriptors. The taking side has no privilege any more, and checks the items as it checks any peer's
 * messages.
 */
#pragma once

#include "profiler/daemon/supervisor.h"

/* Counts up with every change of these items, of the journal (oci/base/journal.h), of the helpers' protocol, and of an
 * order to a worker (worker.h), which has struct settings. */
#define HANDOVER_LAYOUT 10
#define HANDOVER_PATIENCE_MS 60000
#define HANDOVER_DEADLINE_MS 5000 /* for all of it */
#define HANDOVER_RINGS_AT_ONCE 128

enum handover_kind { HANDOVER_HEAD = 1, HANDOVER_RINGS, HANDOVER_TARGET, HANDOVER_EVENTS, HANDOVER_END };
enum handover_flags {
	HANDOVER_SYMBOLIZER = 1,
	HANDOVER_READERS = 2,
	HANDOVER_HAS = 2 /* how many there may be */,
	HANDOVER_LEAVING = 4
};

struct handover_item {
	uint32_t kind, n; /* n: of rings or events in this item */
	union {
		struct {
			uint32_t layout; /* HANDOVER_LAYOUT */
			int32_t pid;
			uint32_t has; /* mask of enum handover_flags; LEAVING: it is to be replaced
					 (ORDER_FLUSH_AND_EXIT) */
			uint32_t rings;
			uint64_t ring_size;
		} head;
		int32_t cpus[HANDOVER_RINGS_AT_ONCE];
		struct {
			uint32_t number;
			struct target_desc desc;
		} target;
		struct event_desc events[PROTOCOL_BATCH_MAX];
	};
};

/* Listens at "<control>.estate", for root or our present user; descriptor or -errno. */
int handover_listen(const char *control);
/* Connects to a worker without a supervisor; -ENOENT, -ECONNREFUSED: there is none. */
int handover_connect(const char *control);

/*
 * The worker's side: sends everything to `sock`, and the far end of its new channel. `connect_target` makes a new
 * connection for a target and returns its far end (taken). 0; -errno: the peer did not get everything.
 */
int handover_send(
	struct engine *g, int sock, int channel, int (*connect_target)(void *arg, struct target *t), void *arg);
/*
 * The supervisor's side: takes rings, helpers, targets and the worker into `s` and its engine. -errno: all is as
 * before. -EOWNERDEAD: the worker was killed, as it had another layout; only where `kept`: its targets and its journal
 * are kept elsewhere.
 */
int handover_receive(struct supervisor *s, int sock, bool kept, struct err *e);

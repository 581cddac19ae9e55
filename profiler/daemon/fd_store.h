/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd_store - targets that the service manager keeps for us (sd_notify.h), for the case that supervisor and worker die
 * together: then no process of ours is left that could hand anything over (worker_handover.h).
 *
 * The manager keeps one descriptor for each target, however many events that has: a socket with a closed other end. Its
 * queue holds the messages by which the target was registered (TARGET, EVENTS; shim/protocol/messages.h), with their
 * descriptors (net.core.wmem_default has room for some 4,000 events). The kernel counts queued descriptors against our
 * user, and refuses a process of ours with a smaller limit of files to pass any more (unix(7), ETOOMANYREFS): openers
 * raise theirs (shim/attach/event_open.c). The manager also keeps the journal's two files. The next supervisor reads
 * the queues, has its own rings, makes the events write into these again, and goes on from the journal. Counts of the
 * meantime show when the window ends. Mappings of the meantime were told to no process: pillion-opener tells them
 * (attach_remap() in shim/attach/attach.h).
 *
 * Reading takes nothing out of a queue, and the journal stays with the manager: a kill of any of our processes at any
 * moment loses nothing that the manager kept. A name tells the target, and how often a supervisor of 0.1.0 packed it
 * anew, as its reading emptied the queue: "pillion.target.NUMBER.TURN".
 */
#pragma once

#include "profiler/daemon/sd_notify.h"
#include "profiler/daemon/target_registry.h"

struct supervisor;
struct fd_store_drop { /* a target's name that the manager is still to drop */
	uint32_t number, turn;
};

/* Packs an armed target into a socket. Returns that; or -errno: -EAGAIN, it does not fit into a queue. */
int fd_store_save_target(const struct registered_target *r);
/*
 * Reads a packed target, which stays in the queue. Call fd_peek_from_first(sock) first. 0; -EPIPE: the queue is empty;
 * -EPROTO, -ENOMEM, -errno.
 */
int fd_store_load_target(int sock, struct registered_target **ret);

/* Passes to the manager the journal, and armed targets that it lacks. Milliseconds until the next try, or -1. */
int fd_store_round(struct supervisor *s);
void fd_store_forget(struct supervisor *s, struct registered_target *r);
/* True: the manager keeps a journal that we can read. */
bool fd_store_has_journal(const struct inherited_fds *h);
/*
 * At the start, after handover_receive: adds kept targets and journal (descriptors taken) to `s` and its engine, unless
 * they are there already. `journal`: false where another process may still write to the journal. Returns the number of
 * targets.
 */
unsigned fd_store_restore(struct supervisor *s, struct inherited_fds *h, bool journal);

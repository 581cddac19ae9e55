/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd_store - targets in the keeping of the service manager (sd_notify.h), for the day on which supervisor and worker
 * die together: no process of ours is left then that could hand anything over (worker_handover.h).
 *
 * It keeps one descriptor for each target, however many events that has: a socket in whose queue lie the messages by
 * which the target was registered (TARGET, EVENTS; shim/protocol/messages.h), with their descriptors, and whose other
 * end is closed (net.core.wmem_default has room for some 4,000 events). The kernel counts what lies there against our
 * user, and refuses a process of ours with a smaller limit of files to pass any more (unix(7), ETOOMANYREFS): openers
 * raise theirs (shim/attach/event_open.c). Besides, the journal's two files. Whoever is started next reads what lies in
 * the queues, has its rings, into which the events are made to write again, and goes on from the journal. What was
 * counted meanwhile shows when the window ends; what was mapped meanwhile nobody was told: pillion-opener says it
 * (shim/spaces.h).
 *
 * Reading takes nothing out of a queue, and the journal stays where it is: at no moment do we alone have what the
 * manager kept, whichever of us is killed. A name says which target it is, and how often a supervisor of 0.1.0 packed
 * it anew, because its reading took everything out: "pillion.target.NUMBER.TURN".
 */
#pragma once

#include "profiler/daemon/sd_notify.h"
#include "profiler/daemon/target_registry.h"

struct supervisor;
struct fd_store_drop { /* a target's name that the manager is still to be told of */
	uint32_t number, turn;
};

/* All of an armed target as a socket; or -errno: -EAGAIN, it does not fit into a queue. */
int fd_store_save_target(const struct registered_target *r);
/* What was packed, and stays there. fd_peek_from_first(sock) comes first. 0; -EPIPE: it is empty; -EPROTO, -ENOMEM,
 * -errno. */
int fd_store_load_target(int sock, struct registered_target **ret);

/* Armed targets that it does not have yet, and the journal. Milliseconds until it is tried again, or -1. */
int fd_store_round(struct supervisor *s);
void fd_store_forget(struct supervisor *s, struct registered_target *r);
/*
 * At the start, after handover_receive: what it kept (descriptors taken) becomes `s`' and its engine's, as far as that
 * is not there already. `journal`: not where somebody else may still write to it. How many targets.
 */
unsigned fd_store_restore(struct supervisor *s, struct inherited_fds *h, bool journal);

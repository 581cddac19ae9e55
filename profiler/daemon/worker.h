/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker - the process that drains the rings: decodes, unwinds, names, counts. The supervisor forks it at the start and
 * whenever the worker before has died. It has no paths and talks only to peers that the supervisor sends.
 *
 * Orders come through the channel. Each target has a connection, which describes it by the messages of
 * shim/protocol/messages.h from TARGET on; the worker answers there with OK, REFUSE or ENDED. The worker sends REFUSE
 * or ENDED before it closes a connection: one that just ends means that the worker has died. A peer that asks for a
 * list (`pillion ps`) is answered directly: the supervisor hands over that connection itself.
 *
 * When the supervisor goes and no other one takes over (worker_handover.h), the last windows are written as at an
 * ordinary end.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/daemon/target_registry.h"
#include "profiler/target/engine_state.h"

#include <stdint.h>

enum order_kind {
	ORDER_SERVE = 1,       /* with a connection; `number` of its target, 0: the peer will ask for a list */
	ORDER_CHECK_END,       /* has the target `id` ended? A peer thinks so */
	ORDER_SETTINGS,	       /* they were reread */
	ORDER_OUTCOME,	       /* a hook's */
	ORDER_REFUSED,	       /* there was no room for one more target */
	ORDER_EXPORTER,	       /* with the socket of a new exporter */
	ORDER_HANDOVER_SOCKET, /* with the socket on which the next supervisor will ask */
	ORDER_QUIT,
	ORDER_HAND_OVER,      /* the supervisor goes; the next one is to have a worker of its own */
	ORDER_FLUSH_AND_EXIT, /* from the next supervisor, behind ORDER_HAND_OVER (engine_flush_for_handover) */
	ORDER_SYMBOLIZER,     /* symbolizer_link_update(): `number` is the state; with both sockets of a new server, if
				 there is one */
};

struct supervisor_order {
	uint32_t kind; /* enum order_kind */
	uint32_t number;
	union {
		char id[256];
		struct settings settings;
		struct msg_outcome outcome;
	};
};
size_t order_size(const struct supervisor_order *o); /* bytes that are sent */

#define WORKER_LISTS_MAX 16
#define WORKER_PATIENCE_MS 10000 /* for a peer that asked for a list and does not read it */

struct worker;
int worker_new(struct engine *g, struct worker **ret);
/* Serve a connected socket (taken). */
int worker_serve(struct worker *w, int sock, uint32_t number);
int worker_round(struct worker *w); /* milliseconds until the next deadline, or -1 */
unsigned worker_connections(const struct worker *w);
struct worker *worker_free(struct worker *w);

/*
 * Runs the worker, in a process that was just forked: `g` as the supervisor opened it, which becomes this process's
 * own; the channel (taken); `known`: targets to go on with, at their `far` connections. Returns the exit status.
 */
int worker_main(struct engine *g, const struct settings *set, int channel, struct registered_target *known);

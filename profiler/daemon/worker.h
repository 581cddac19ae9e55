/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker - the process that drains the rings: decodes, unwinds, names, counts. Forked by the supervisor, at the start
 * and whenever the one before has died; it has no paths and meets nobody but those the supervisor sends.
 *
 * Orders come through the channel. For each target there is a connection, on which it is described by the messages of
 * shim/protocol/messages.h from TARGET on, and on which it is told what came of it: OK, REFUSE, ENDED. It says so
 * before it closes one: a connection that just ends means that the worker has died. Who asks for a list (`pillion ps`)
 * is answered directly: the supervisor hands over that connection itself.
 *
 * When the supervisor goes, the last windows are written as at an ordinary end.
 */
#pragma once

#include "oci/config/options.h"
#include "profiler/daemon/target_registry.h"
#include "profiler/target/engine.h"

#include <stdint.h>

enum order_kind {
	ORDER_SERVE = 1,       /* with a connection; `number` of its target, 0: it will ask for a list */
	ORDER_CHECK_END,       /* has the target `id` ended? Somebody thinks so */
	ORDER_SETTINGS,	       /* they were read anew */
	ORDER_OUTCOME,	       /* of a hook */
	ORDER_REFUSED,	       /* there was no room for one more target */
	ORDER_EXPORTER,	       /* with a socket: there is another one */
	ORDER_HANDOVER_SOCKET, /* with the socket where the next supervisor will ask */
	ORDER_QUIT,
	ORDER_HAND_OVER,      /* the supervisor goes, and the next one is to have a worker of its own */
	ORDER_FLUSH_AND_EXIT, /* to whoever was told so: here it is (engine_flush_for_handover) */
	ORDER_SYMBOLIZER, /* symbolizer_manager_hear(): `number` is the state; with both sockets: there is another one
			   */
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
size_t order_size(const struct supervisor_order *o); /* of what is sent of it */

#define WORKER_LISTS_MAX 16
#define WORKER_PATIENCE_MS 10000 /* who asked for a list and does not read it */

struct worker;
int worker_new(struct engine *g, struct worker **ret);
/* Serve a connected socket (taken). */
int worker_serve(struct worker *w, int sock, uint32_t number);
int worker_round(struct worker *w); /* milliseconds until the next deadline, or -1 */
unsigned worker_connections(const struct worker *w);
struct worker *worker_free(struct worker *w);

/*
 * All of it, in a process that was just forked: `g` as the supervisor opened it, which becomes this process's own;
 * the channel (taken); `known` are targets to go on with, at their `far` connections. Returns what the process ends
 * with.
 */
int worker_main(struct engine *g, const struct settings *set, int channel, struct registered_target *known);

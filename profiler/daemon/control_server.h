/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_server - the server side of shim/protocol/messages.h: connections, each a small state machine with a
 * deadline.
 *
 * Anything unexpected ends that connection, with a sentence, and forgets its target. Nothing a peer sends can end
 * the service: out of descriptors, a spare one is given up to tell the peer so. Targets go to the supervisor, and what
 * the worker says of them comes back; `pillion ps` is handed on.
 */
#pragma once

#include "profiler/daemon/supervisor.h"

#include <sys/types.h>

#define CONTROL_SERVER_CONNECTIONS_MAX 64
#define CONTROL_SERVER_PATIENCE_MS                                                                                     \
	10000 /* a connection that is not done by then is closed; budgets are at most 5 s                              \
	       */

struct control_server;
/* Whose openers: of root, or of the user that we serve alone (user_service.h). */
enum control_server_peers { CONTROL_SERVER_ROOT, CONTROL_SERVER_USER };

/* trusted: who may register and list targets beside root: the user that started us. listener: a listening socket
 * (taken), or -1 for a session. memory: see
 * shim/protocol/service_client.h, or -1 (taken). */
int control_server_new(struct supervisor *s, int listener, int memory, uid_t trusted, enum control_server_peers peers,
	struct control_server **ret, struct err *e);
/* Serve an already connected socket (taken): the one connection of a session. */
int control_server_serve(struct control_server *c, int sock);
/* Targets that come without files have those beneath this directory (taken; -1: none). */
void control_server_tree(struct control_server *c, int tree);
void control_server_refuse(struct control_server *c); /* nobody new is let in */
struct control_server *control_server_free(struct control_server *c);
void control_server_abandon(struct control_server *c); /* in a child: none of the descriptors is its own */
/* Close what is overdue; milliseconds until the next deadline or -1. */
int control_server_round(struct control_server *c);
unsigned control_server_connections(const struct control_server *c);
bool control_server_registering(const struct control_server *c); /* somebody has begun to, or may have */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_server - the server side of shim/protocol/messages.h: connections, each a small state machine with a
 * deadline.
 *
 * An unexpected message ends that connection, with a REFUSE, and forgets its target. No message of a peer can end the
 * service: when it is out of descriptors, it closes a spare one to accept the peer and refuse it. Targets go to the
 * supervisor, and the worker's answers about them come back; `pillion ps` is handed on to the worker.
 */
#pragma once

#include "profiler/daemon/supervisor.h"

#include <sys/types.h>

#define CONTROL_SERVER_CONNECTIONS_MAX 64
#define CONTROL_SERVER_PATIENCE_MS                                                                                     \
	10000 /* a connection that is not done by then is closed; budgets are at most 5 s                              \
	       */

struct control_server;
/* The peers that open events: root's, or those of the one user that we serve (user_service.h). */
enum control_server_peers { CONTROL_SERVER_ROOT, CONTROL_SERVER_USER };

/*
 * trusted: the user that started us; he may register and list targets beside root. listener: a listening socket
 * (taken), or -1 for a session. memory: see shim/protocol/service_client.h, or -1 (taken).
 */
int control_server_new(struct supervisor *s, int listener, int memory, uid_t trusted, enum control_server_peers peers,
	struct control_server **ret, struct err *e);
/* Serves an already connected socket (taken): the one connection of a session. */
int control_server_serve(struct control_server *c, int sock);
/* Sets the directory below which lie the files of targets that are registered without a tree (taken; -1: none). */
void control_server_tree(struct control_server *c, int tree);
void control_server_refuse(struct control_server *c); /* accepts no new connection */
struct control_server *control_server_free(struct control_server *c);
void control_server_abandon(struct control_server *c); /* in a child: closes the descriptors, which are the parent's */
/* Closes overdue connections. Milliseconds until the next deadline or -1. */
int control_server_round(struct control_server *c);
unsigned control_server_connections(const struct control_server *c);
bool control_server_registering(const struct control_server *c); /* a peer has begun to, or may do so */

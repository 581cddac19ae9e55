/*
 * control_server - the server side of shim/protocol/messages.h: connections, each a small state machine with a deadline.
 *
 * Anything unexpected ends that connection, with a sentence, and forgets its target. Nothing a peer sends can end
 * the service: out of descriptors, a spare one is given up to tell the peer so. Targets go to the supervisor, and what
 * the worker says of them comes back; `pillion ps` is handed on.
 */
#pragma once

#include "profiler/daemon/supervisor.h"

#include <sys/types.h>

#define CONTROL_CONNECTIONS_MAX 64
#define CONTROL_PATIENCE_MS 10000 /* a connection that is not done by then is closed; budgets are at most 5 s */

struct control;
/* Whose openers: of root, or of the user that we serve alone (user_service.h). */
enum control_peers { CONTROL_ROOT, CONTROL_USER };

/* trusted: who may register and list targets beside root: the user that started us. listener: a listening socket
 * (taken), or -1 for a session. memory: see
 * shim/protocol/service_client.h, or -1 (taken). */
int control_new(struct supervisor *s, int listener, int memory, uid_t trusted, enum control_peers peers,
	struct control **ret, struct err *e);
/* Serve an already connected socket (taken): the one connection of a session. */
int control_serve(struct control *c, int sock);
/* Targets that come without files have those beneath this directory (taken; -1: none). */
void control_tree(struct control *c, int tree);
void control_refuse(struct control *c); /* nobody new is let in */
struct control *control_free(struct control *c);
void control_abandon(struct control *c); /* in a child: none of the descriptors is its own */
/* Close what is overdue; milliseconds until the next deadline or -1. */
int control_round(struct control *c);
unsigned control_connections(const struct control *c);
bool control_registering(const struct control *c); /* somebody has begun to, or may have */

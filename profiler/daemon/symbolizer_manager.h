/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer_manager - the symbolizer's server (symbolizer_client.h) of a worker: the supervisor has it forked
 * (forkserver.h), and another one when it has ended. The worker asks it, through sockets of which the supervisor keeps
 * a copy for the worker's successor.
 *
 * When servers end soon after their start, again and again, the next one is forked later each time. Meanwhile the
 * worker is told that there is none, and no request waits for names.
 */
#pragma once

#include "oci/base/process/restart.h"
#include "profiler/symbol/forkserver.h"

/* News that the worker has not been told yet. */
enum symbolizer_manager_news { SYMBOLIZER_MANAGER_TOLD, SYMBOLIZER_MANAGER_STATE, SYMBOLIZER_MANAGER_SOCKETS };

struct symbolizer_manager {
	const struct forkserver *from; /* given; other managers may use it as well */
	struct event_loop *loop;
	struct symbolizer_sockets sockets; /* -1: there is no server */
	int pidfd;			   /* of the server, when it has sent it; or -1 */
	struct event_loop_source source;
	struct restart restart;
	bool renewable; /* there can be another one */
	enum symbolizer_manager_news news;
};
#define SYMBOLIZER_MANAGER_NONE                                                                                        \
	{                                                                                                              \
		.sockets = {-1, -1}, .pidfd = -1, .source.fd = -1                                                      \
	}

/* Takes over the sockets of a worker that had another supervisor (taken); before symbolizer_manager_start. */
void symbolizer_manager_adopt(struct symbolizer_manager *x, const struct symbolizer_sockets *theirs);
/* Forks the first server, unless one was adopted. */
void symbolizer_manager_start(struct symbolizer_manager *x, struct event_loop *l);
/* Forks another server when it is due: then there is news. Milliseconds until the next call is due, or -1. */
int symbolizer_manager_round(struct symbolizer_manager *x);
uint32_t symbolizer_manager_state(const struct symbolizer_manager *x); /* a mask, as symbolizer_link_update takes it */
void symbolizer_manager_abandon(struct symbolizer_manager *x); /* in a child: the sockets are all that it needs */
void symbolizer_manager_close(
	struct symbolizer_manager *x); /* when the worker has gone; kills the server, even a stopped one */

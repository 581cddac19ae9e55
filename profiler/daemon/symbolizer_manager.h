/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbolizer_manager - the symbolizer's server (symbolizer_client.h) of a worker: the supervisor has it forked
 * (forkserver.h), and another one when it has ended; the worker asks it, through sockets of which the supervisor keeps
 * a copy, for the worker's successor.
 *
 * One that ends soon after it began, again and again, is followed by the next one later each time, and what waits for
 * names is told that there is none meanwhile.
 */
#pragma once

#include "profiler/symbol/forkserver.h"

/* What the worker has not been told. */
enum symbolizer_manager_news { SYMBOLIZER_MANAGER_TOLD, SYMBOLIZER_MANAGER_STATE, SYMBOLIZER_MANAGER_SOCKETS };

struct symbolizer_manager {
	const struct forkserver *from; /* given; others may have theirs from it as well */
	struct event_loop *loop;
	struct symbolizer_sockets sockets; /* -1: there is no server */
	int pidfd;			   /* of it, when it has said so; or -1 */
	struct event_loop_source source;
	int64_t began, again; /* when it was asked for; another one not before, 0 = it is there */
	unsigned hasty;	      /* servers in a row that did not live long */
	bool renewable;	      /* there can be another one */
	enum symbolizer_manager_news news;
};
#define SYMBOLIZER_MANAGER_NONE                                                                                        \
	{                                                                                                              \
		.sockets = {-1, -1}, .pidfd = -1, .source.fd = -1                                                      \
	}

/* Of a worker that had another supervisor (taken); before the next one. */
void symbolizer_manager_adopt(struct symbolizer_manager *x, const struct symbolizer_sockets *theirs);
/* Where none was adopted, the first one is forked. */
void symbolizer_manager_start(struct symbolizer_manager *x, struct event_loop *l);
/* Another one, where it is due: then there are news. Milliseconds until there is something to do, or -1. */
int symbolizer_manager_round(struct symbolizer_manager *x);
uint32_t symbolizer_manager_state(const struct symbolizer_manager *x); /* a mask, as symbolizer_link_update takes it */
void symbolizer_manager_abandon(struct symbolizer_manager *x); /* in a child: the sockets are all that it needs */
void symbolizer_manager_close(
	struct symbolizer_manager *x); /* when the worker has gone; a server that is stopped, too */

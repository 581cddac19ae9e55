/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkserver - symbolizer's servers (symbolizer_client.h) at any time, for who may exec nothing any more.
 *
 * Before the last privilege goes it is started: this program once more (another layout of memory, nothing of ours in
 * it), in the symbolizer's seccomp role, with one socket. Each message there brings the ends of two others, and with
 * those it forks a server, which is in no other role than one that was started by itself would be. It sees nothing of a
 * target, and ends when its socket does; its servers live as long as theirs.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/base/event_loop.h"
#include "profiler/symbol/symbolizer_client.h"

#include <stdbool.h>
#include <sys/types.h>

struct forkserver {
	int sock;  /* -1: there is none */
	pid_t pid; /* a child without exit signal: waitpid with __WALL */
	int pidfd;
	struct event_loop_source source;
};
#define FORKSERVER_NONE                                                                                                \
	{                                                                                                              \
		.sock = -1, .pid = -1, .pidfd = -1, .source.fd = -1                                                    \
	}

/* Of a profiler, privileges must be gone; of a command that root called, a job has its seccomp role alone to hold it.
 */
int forkserver_start(const struct symbolizer_limits *limits, struct forkserver *ret, struct err *e);
/* Its end is logged, and there is none from then on. */
int forkserver_watch(struct forkserver *f, struct event_loop *l);
bool forkserver_is_there(const struct forkserver *f);
/*
 * Another server; *ret is the caller's. -EPIPE: there is no fork server. What fails behind that, or later, is the end
 * of those sockets.
 */
int forkserver_fork(const struct forkserver *f, struct symbolizer_sockets *ret);
void forkserver_end(struct forkserver *f);     /* waits a moment for it */
void forkserver_abandon(struct forkserver *f); /* in a child: it is the parent's */

/*
 * The first thing in main() of a program that starts one: when it was started as such (`--fork-server JOBS MEMORY
 * SECONDS`, with this descriptor), it does not return.
 */
enum { FORKSERVER_SOCKET = 3 };
void forkserver_main(int argc, char **argv);

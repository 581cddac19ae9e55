/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkserver - starts symbolizer servers (symbolizer_client.h) at any time, for a process that may no longer exec.
 *
 * The process starts it before it gives up its last privilege. The fork server is this program, executed again (another
 * memory layout, nothing of ours in it), in the symbolizer's seccomp role, with one socket. Each message on it brings
 * the ends of two other sockets. For these the fork server forks a server, which has the same role as one that was
 * started directly. The fork server sees nothing of a target. It ends when its socket is closed; each of its servers
 * ends when its own is closed.
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

/*
 * Starts the fork server. A profiler must have given up its privileges before. In a command that root called, a job is
 * confined by its seccomp role alone.
 */
int forkserver_start(const struct symbolizer_limits *limits, struct forkserver *ret, struct err *e);
/* Watches for the end of the fork server, and logs it; then there is none any more. */
int forkserver_watch(struct forkserver *f, struct event_loop *l);
bool forkserver_is_there(const struct forkserver *f);
/*
 * Starts another server; the caller owns *ret. -EPIPE: there is no fork server. A failure after that closes the other
 * ends of these sockets.
 */
int forkserver_fork(const struct forkserver *f, struct symbolizer_sockets *ret);
void forkserver_end(struct forkserver *f);     /* waits a moment for its end */
void forkserver_abandon(struct forkserver *f); /* in a child: the parent keeps the fork server */

/*
 * To be called first in main() of a program that starts a fork server. Does not return if the program was executed as
 * one (`--fork-server JOBS MEMORY SECONDS`, with this descriptor).
 */
enum { FORKSERVER_SOCKET = 3 };
void forkserver_main(int argc, char **argv);

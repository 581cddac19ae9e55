/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter - a process of pilliond's that writes the spool and serves metrics.
 *
 * The worker, which handles the targets' data, hands over the bytes of a finished profile in a sealed memfd and goes on
 * (profiler/spool/exporter_client.h). The answer names the path below the spool, or the reason of the loss. So a spool
 * that is slow, full or hung holds up the exporter alone. The exporter has no descriptor of a target, no capability,
 * and a seccomp role of its own.
 *
 * An exporter ends when its socket is closed, after it has written all profiles that were handed over: signals other
 * than KILL do not end it. An exporter that hangs in a file system cannot be ended: the process that started it must
 * not wait for it for long.
 */
#pragma once

#include "profiler/spool/exporter_client.h"
#include "profiler/web/http_listen.h"

#include <sys/types.h>

struct exporter_setup { /* descriptors are borrowed */
	int spool;	/* its directory, open */
	uid_t user;	/* 0: root; else profiles go to this user's own directory (user_spool.h) */
	uint64_t spool_bytes;
	uint32_t spool_age_s;
	struct http_listener http;
};

struct exporter_process {
	pid_t pid; /* a child without exit signal: waitpid with __WALL */
	int sock;  /* the worker's side */
};

/*
 * Loads the library of the HTTP server, which cannot be loaded after the caller has entered its seccomp role. Needed
 * only with setup.http.fd; on failure nothing is served, and `e` says why.
 */
int exporter_load(struct err *e);
/*
 * Forks the exporter. The caller has one thread, and either no seccomp role or one that allows all of SECCOMP_EXPORTER.
 */
int exporter_start(const struct exporter_setup *setup, struct exporter_process *ret, struct err *e);
/* Runs the exporter in this process; takes the descriptors. Ends when the socket does. */
_Noreturn void exporter_run(const struct exporter_setup *setup, int sock);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter - a process of pilliond's that writes the spool and serves metrics.
 *
 * The worker, which handles what targets say, hands over the bytes of a finished profile in a sealed memfd and goes on
 * (profiler/spool/exporter_client.h); the answer says where it lies below the spool, or why it is lost. So a spool that
 * is slow, full or hung holds up nobody but the exporter. The exporter has no descriptor of a target, no capability,
 * and a seccomp role of its own.
 *
 * An exporter ends when its socket is closed, after it has written what it was handed: signals other than KILL do not
 * end it. Nothing ends one that a file system holds up; whoever started it must not wait for it for long.
 */
#pragma once

#include "profiler/spool/exporter_client.h"
#include "profiler/web/http_listen.h"

#include <sys/types.h>

struct exporter_setup { /* descriptors are borrowed */
	int spool;	/* its directory, open */
	uid_t user;	/* not root: this one's profiles, in a directory of their own (user_spool.h) */
	uint64_t spool_bytes;
	uint32_t spool_age_s;
	struct http_listener http;
};

struct exporter_process {
	pid_t pid; /* a child without exit signal: waitpid with __WALL */
	int sock;  /* the worker's side */
};

/*
 * Before the caller enters its own role: what cannot be loaded later. Without it nothing is served, and `e` says so; it
 * is needed only with setup.http.fd.
 */
int exporter_load(struct err *e);
/* Forks it. The caller has one thread, and a seccomp role that lets through what SECCOMP_EXPORTER does, or none. */
int exporter_start(const struct exporter_setup *setup, struct exporter_process *ret, struct err *e);
/* The process itself; takes the descriptors. Ends when the socket does. */
_Noreturn void exporter_run(const struct exporter_setup *setup, int sock);

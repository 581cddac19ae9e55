/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter_manager - the exporter (exporter.h) of a pilliond: the supervisor starts it, and another one when it has
 * died. The worker hands it profiles, through a socket of which the supervisor keeps a copy for the worker's successor.
 */
#pragma once

#include "oci/base/process/oom_score.h"
#include "oci/base/process/restart.h"
#include "profiler/daemon/exporter.h"

struct exporter_manager {
	struct exporter_setup setup;	 /* given; its descriptors are ours */
	struct oom_score *oom;		 /* the supervisor's */
	struct exporter_process process; /* its socket -1: there is none now */
	int pidfd;
	struct event_loop_source source;
	struct restart restart;
};

/* Forks the first exporter. `setup` is given; privileges are gone. */
int exporter_manager_start(struct exporter_manager *x, struct event_loop *l, struct err *e);
/*
 * Starts another exporter when it is due: then *ret_fresh is set and the caller must tell the worker. Milliseconds
 * until the next call is due, or -1.
 */
int exporter_manager_watch(struct exporter_manager *x, struct event_loop *l, bool *ret_fresh);
void exporter_manager_end(struct exporter_manager *x); /* kills it: the worker found it faulty, another one follows */
/* In a child: closes all but the socket, and forgets the token. */
void exporter_manager_abandon(struct exporter_manager *x);
/* When the worker has gone: waits a moment for the exporter to write the last profiles. */
void exporter_manager_close(struct exporter_manager *x, struct event_loop *l);

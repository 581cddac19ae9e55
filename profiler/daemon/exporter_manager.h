/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter_manager - the exporter (exporter.h) of a pilliond: the supervisor starts it, and another one when it died;
 * the worker hands it profiles, through a socket of which the supervisor keeps a copy, for the worker's successor.
 */
#pragma once

#include "oci/base/oom_score.h"
#include "profiler/daemon/exporter.h"

struct exporter_manager {
	struct exporter_setup setup;	 /* given; its descriptors are ours */
	struct oom_score *oom;		 /* the supervisor's */
	struct exporter_process process; /* its socket -1: there is none for now */
	int pidfd;
	struct event_loop_source source;
	int64_t started, again; /* the one that there is; a new one not before, 0 = it is there */
	unsigned hasty;		/* exporters in a row that did not live long */
};

/* `setup` is given; privileges are gone. Forks the first one. */
int exporter_manager_start(struct exporter_manager *x, struct event_loop *l, struct err *e);
/* Another one, where it is due: *ret_fresh, and the worker must be told. Milliseconds until there is something to do,
 * or -1. */
int exporter_manager_watch(struct exporter_manager *x, struct event_loop *l, bool *ret_fresh);
void exporter_manager_end(struct exporter_manager *x); /* it is no good: there will be another one */
/* In a child: the socket is all that it needs. */
void exporter_manager_abandon(struct exporter_manager *x);
/* When the worker has gone: waits a moment for the exporter to write what it was handed. */
void exporter_manager_close(struct exporter_manager *x, struct event_loop *l);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_services - profiling for users other than root (setting users_group): processes of their own, by events that the
 * users opened. A process that opens an event chooses its layout, keeps a copy, and may map the ring that the event
 * writes into (before Linux 6.18); a user may connect as often as he likes. So users have a socket of their own, and
 * each of them has rings, processes and a part of the spool apart from all others.
 *
 * `pilliond-users` is forked before the service has anything of a target, so that no target's data is in its memory. It
 * holds rings without memory, which were opened with privilege. For each user it forks a process that works as a
 * supervisor (user_service.h) and ends when it has been idle for a while. All of these processes come after the
 * service's own for CPU time, and are killed before them when memory is short; where a cgroup could be made, they have
 * one of their own.
 */
#pragma once

#include "oci/base/event_loop.h"
#include "oci/config/options.h"
#include "profiler/perf/cpu_rings.h"
#include "profiler/symbol/forkserver.h"

struct user_services_setup { /* descriptors and rings are borrowed */
	const struct settings *settings;
	int listener;	 /* to which members of the group may connect */
	int spool, root; /* as in exporter.h, engine_state.h */
	struct cpu_rings *rings[USERS_MAX];
	unsigned n; /* users at a time; 0: for root alone */
	/* called in the process: gives up privileges and starts the fork server of the symbolizers */
	int (*drop)(void *arg, struct forkserver *ret, struct err *e);
	void *arg;
};

struct user_services {
	pid_t pid; /* a child without exit signal; 0: there is none */
	int channel, pidfd;
	struct event_loop *loop;
	struct event_loop_source source;
};

/* Forks `pilliond-users`, while there are privileges to give up. 0, or a negative errno with `e`. */
int user_services_start(struct user_services *u, const struct user_services_setup *setup, struct err *e);
int user_services_watch(struct user_services *u, struct event_loop *l);		    /* its end is logged */
void user_services_settings(struct user_services *u, const struct settings *fresh); /* for users that come later */
void user_services_quit(struct user_services *u);				    /* they write their last windows */
void user_services_end(struct user_services *u);				    /* waits a moment for that */
void user_services_abandon(const struct user_services *u); /* in a child: closes the parent's descriptors */

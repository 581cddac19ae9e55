/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_services - where a service profiles for users other than root (setting users_group): processes of their own, by
 * events that they opened. Whoever opens an event chooses its layout, keeps a copy, and may map the ring that it writes
 * into (before Linux 6.18); whoever connects may do so as often as he likes. So users have a socket of their own, and
 * each of them rings, processes and a part of the spool apart from all others'.
 *
 * `pilliond-users` is forked before the service has anything of anybody, so that nothing of a target is in its memory;
 * it holds rings without memory, which were opened with privilege. For each user it forks a process that serves as a
 * supervisor does (user_service.h) and ends when it has had nothing to do for a while. All of them come after the
 * service's own processes for CPU time, and go before them for want of memory; where a cgroup could be made, in one of
 * their own.
 */
#pragma once

#include "oci/base/event_loop.h"
#include "oci/config/options.h"
#include "profiler/perf/cpu_rings.h"
#include "profiler/symbol/forkserver.h"

struct user_services_setup { /* descriptors and rings are borrowed */
	const struct settings *settings;
	int listener;	 /* which the group may connect to */
	int spool, root; /* as in exporter.h, engine.h */
	struct cpu_rings *rings[USERS_MAX];
	unsigned n; /* users at a time; 0: for root alone */
	/* In the process: gives privileges up and starts who has the symbolizers. */
	int (*drop)(void *arg, struct forkserver *ret, struct err *e);
	void *arg;
};

struct user_services {
	pid_t pid; /* a child without exit signal; 0: there is none (any more) */
	int channel, pidfd;
	struct event_loop *loop;
	struct event_loop_source source;
};

/* Forks it, while there is privilege to be given up. 0, or a negative errno with `e`. */
int user_services_start(struct user_services *u, const struct user_services_setup *setup, struct err *e);
int user_services_watch(struct user_services *u, struct event_loop *l);		    /* its end is told in the log */
void user_services_settings(struct user_services *u, const struct settings *fresh); /* for those who come */
void user_services_quit(struct user_services *u);				    /* they write what there is */
void user_services_end(struct user_services *u);				    /* waits a moment for that */
void user_services_abandon(const struct user_services *u);			    /* in a child: it is not its own */

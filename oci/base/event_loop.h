/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_loop - waits for descriptors and for the next point in time (epoll(7)), one thread.
 *
 * A source is embedded in its owner. It may be removed, and its owner freed, from inside any handler: events are
 * taken one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef void event_loop_fn(void *arg, uint32_t events);

struct event_loop_source {
	int fd; /* borrowed; -1: not in the loop */
	event_loop_fn *fn;
	void *arg;
	uint32_t events;
	int64_t silent_until; /* 0: not paused */
	struct event_loop_source *next_silent;
};

struct event_loop;
int event_loop_new(struct event_loop **ret);
struct event_loop *event_loop_free(struct event_loop *l);
/* events: EPOLLIN, EPOLLPRI, ... */
int event_loop_add(
	struct event_loop *l, struct event_loop_source *s, int fd, uint32_t events, event_loop_fn *fn, void *arg);
void event_loop_del(struct event_loop *l, struct event_loop_source *s);
/* Ignores this source for `ms`: a pending connection that we cannot accept would make the loop spin. */
void event_loop_pause(struct event_loop *l, struct event_loop_source *s, int ms);
/*
 * Calls `due` before each wait: it does the work that is due and returns the milliseconds until its next call, -1 = no
 * need. Runs until event_loop_stop.
 */
int event_loop_run(struct event_loop *l, int (*due)(void *arg), void *arg);
void event_loop_stop(struct event_loop *l);
int event_loop_sooner(int a, int b); /* the sooner of two such timeouts */

/*
 * event_loop - waiting for descriptors and for the next point in time (epoll(7)), one thread.
 *
 * A source is embedded in its owner. It may be removed, and its owner freed, from inside any handler: events are
 * taken one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef void loop_fn(void *arg, uint32_t events);

struct loop_source {
	int fd; /* borrowed; -1: not in the loop */
	loop_fn *fn;
	void *arg;
	uint32_t events;
	int64_t silent_until; /* 0: it is heard */
	struct loop_source *next_silent;
};

struct loop;
int loop_new(struct loop **ret);
struct loop *loop_free(struct loop *l);
/* events: EPOLLIN, EPOLLPRI, ... */
int loop_add(struct loop *l, struct loop_source *s, int fd, uint32_t events, loop_fn *fn, void *arg);
void loop_del(struct loop *l, struct loop_source *s);
/* Not heard for so long: who calls when nobody can be let in is still there, and would call again at once. */
void loop_pause(struct loop *l, struct loop_source *s, int ms);
/*
 * `due` is asked before each wait and does what is due: it returns the milliseconds until it wants to be asked again,
 * -1 = no need. Runs until loop_stop.
 */
int loop_run(struct loop *l, int (*due)(void *arg), void *arg);
void loop_stop(struct loop *l);
int loop_sooner(int a, int b); /* of two such numbers of milliseconds */

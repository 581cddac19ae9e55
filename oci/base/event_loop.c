/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/event_loop.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

struct event_loop {
	int epoll;
	bool stop;
	struct event_loop_source *silent; /* the paused ones */
};

int event_loop_new(struct event_loop **ret)
{
	struct event_loop *l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0) {
		free(l);
		return -errno;
	}
	*ret = l;
	return 0;
}

struct event_loop *event_loop_free(struct event_loop *l)
{
	if (l)
		fd_close(l->epoll);
	free(l);
	return NULL;
}

int event_loop_add(
	struct event_loop *l, struct event_loop_source *s, int fd, uint32_t events, event_loop_fn *fn, void *arg)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	*s = (struct event_loop_source){.fd = fd, .fn = fn, .arg = arg, .events = events};
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
		s->fd = -1;
		return -errno;
	}
	return 0;
}

static void listen_for(struct event_loop *l, struct event_loop_source *s, uint32_t events)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	epoll_ctl(l->epoll, EPOLL_CTL_MOD, s->fd, &ev); /* it is in there: this does not fail */
}

static void forget_silence(struct event_loop *l, struct event_loop_source *s)
{
	struct event_loop_source **at = &l->silent;
	while (*at != s)
		at = &(*at)->next_silent;
	*at = s->next_silent;
	s->silent_until = 0;
}

void event_loop_pause(struct event_loop *l, struct event_loop_source *s, int ms)
{
	if (s->fd < 0)
		return;
	if (!s->silent_until) {
		listen_for(l, s, 0);
		s->next_silent = l->silent;
		l->silent = s;
	}
	s->silent_until = deadline_in(ms * NSEC_PER_MSEC);
}

/* Resumes the sources at the end of their pause. Returns the milliseconds to the next one; -1: there is none. */
static int end_pauses(struct event_loop *l)
{
	int wait = -1;
	int64_t now = l->silent ? clock_now() : 0;
	for (struct event_loop_source *s = l->silent, *next; s; s = next) {
		next = s->next_silent;
		if (s->silent_until > now) {
			wait = event_loop_sooner(wait, deadline_left_ms(s->silent_until));
			continue;
		}
		forget_silence(l, s);
		listen_for(l, s, s->events);
	}
	return wait;
}

void event_loop_del(struct event_loop *l, struct event_loop_source *s)
{
	if (s->fd >= 0 && s->silent_until)
		forget_silence(l, s);
	if (s->fd >= 0)
		epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	s->fd = -1;
}

int event_loop_run(struct event_loop *l, int (*due)(void *arg), void *arg)
{
	l->stop = false;
	while (!l->stop) {
		struct epoll_event ev;
		int timeout = event_loop_sooner(due(arg), end_pauses(l));
		if (l->stop)
			break;
		int n = epoll_wait(l->epoll, &ev, 1, clock_block_ms(timeout));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1) {
			struct event_loop_source *s = ev.data.ptr;
			s->fn(s->arg, ev.events);
		} else if (n == 0) {
			clock_blocked(timeout);
		}
	}
	return 0;
}

void event_loop_stop(struct event_loop *l)
{
	l->stop = true;
}

int event_loop_sooner(int a, int b)
{
	return a < 0 ? b : b < 0 || a < b ? a : b;
}

#include "profiler/loop.h"

#include "oci/base/fd.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

struct loop {
	int epoll;
	bool stop;
};

int loop_new(struct loop **ret)
{
	struct loop *l = calloc(1, sizeof(*l));
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

struct loop *loop_free(struct loop *l)
{
	if (l)
		fd_close(l->epoll);
	free(l);
	return NULL;
}

int loop_add(struct loop *l, struct loop_source *s, int fd, uint32_t events, loop_fn *fn, void *arg)
{
	struct epoll_event ev = {.events = events, .data.ptr = s};
	*s = (struct loop_source){.fd = fd, .fn = fn, .arg = arg};
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
		s->fd = -1;
		return -errno;
	}
	return 0;
}

void loop_del(struct loop *l, struct loop_source *s)
{
	if (s->fd >= 0)
		epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->fd, NULL);
	s->fd = -1;
}

int loop_run(struct loop *l, int (*due)(void *arg), void *arg)
{
	l->stop = false;
	while (!l->stop) {
		struct epoll_event ev;
		int timeout = due(arg);
		if (l->stop)
			break;
		int n = epoll_wait(l->epoll, &ev, 1, timeout);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 1) {
			struct loop_source *s = ev.data.ptr;
			s->fn(s->arg, ev.events);
		}
	}
	return 0;
}

void loop_stop(struct loop *l)
{
	l->stop = true;
}

int loop_sooner(int a, int b)
{
	return a < 0 ? b : b < 0 || a < b ? a : b;
}

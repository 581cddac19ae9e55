/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/kill_switch.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/config/options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#define LOOK_MS 500

static void check_kill_switch(struct kill_switch *k)
{
	int r = options_off(k->dir);
	if (r < 0 && !k->told)
		log_line(LOG_WARNING, "outcome=switch_unwatched reason=\"%s: %s\"", k->dir, strerror(-r));
	k->told = r < 0;
	if (r < 0 || (r == 1) == k->off)
		return;
	k->off = r == 1;
	k->turned(k->arg);
}

/* Watches again, as the directory may be a new one; a directory that is watched already is not watched twice. */
static bool add_watches(struct kill_switch *k)
{
	char parent[sizeof(k->dir)];
	snprintf(parent, sizeof(parent), "%s", k->dir);
	char *slash = strrchr(parent, '/');
	if (slash)
		slash[slash == parent] = 0;
	bool outer = slash && inotify_add_watch(k->fd, parent, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) >= 0;
	errno = 0;
	bool inner =
		inotify_add_watch(k->fd, k->dir, IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR) >= 0;
	return inner || (outer && errno == ENOENT);
}

static void on_change(void *arg, uint32_t events)
{
	struct kill_switch *k = arg;
	char some[4096];
	while (read(k->fd, some, sizeof(some)) > 0)
		; /* the kind of change does not matter */
	if (!add_watches(k))
		kill_switch_close(k, k->loop);
	check_kill_switch(k);
}

void kill_switch_open(struct kill_switch *k, const char *dir, struct event_loop *loop)
{
	snprintf(k->dir, sizeof(k->dir), "%s", dir);
	k->loop = loop;
	k->source.fd = -1;
	k->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (k->fd >= 0 && (!add_watches(k) || event_loop_add(loop, &k->source, k->fd, EPOLLIN, on_change, k) < 0))
		k->fd = fd_close(k->fd);
	check_kill_switch(k);
}

int kill_switch_round(struct kill_switch *k)
{
	if (k->fd >= 0)
		return -1;
	if (clock_now() >= k->due) {
		check_kill_switch(k);
		k->due = deadline_in(LOOK_MS * NSEC_PER_MSEC);
	}
	return deadline_left_ms(k->due);
}

void kill_switch_close(struct kill_switch *k, struct event_loop *loop)
{
	if (loop && k->fd >= 0)
		event_loop_del(loop, &k->source);
	k->fd = fd_close(k->fd);
}

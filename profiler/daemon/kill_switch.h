/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_switch - the administrator's `pillion off`, a file DIR/off: whoever profiles hears of it at once and lets go of
 * what it has. Nobody has to tell: sessions have no socket, and a service may not answer.
 *
 * Both DIR and the directory that it is in are watched (inotify(7)): either may come later. Where nothing can be
 * watched, as a user may have 128 watchers at a time (fs.inotify.max_user_instances), it is looked for twice a second.
 */
#pragma once

#include "oci/base/event_loop.h"

#include <stdbool.h>
#include <stdint.h>

struct kill_switch {
	char dir[480];
	int fd; /* -1: it is looked for */
	int64_t due;
	bool off, told; /* that it cannot be looked for */
	struct event_loop *loop;
	struct event_loop_source source;
	void (*turned)(void *arg); /* `off` has changed */
	void *arg;
};

/* `turned` and `arg` are given. Needs inotify_init1(2), inotify_add_watch(2) and reads DIR by its path. */
void kill_switch_open(struct kill_switch *k, const char *dir, struct event_loop *loop);
/* Milliseconds until it is to be called again, -1: it will be heard. */
int kill_switch_round(struct kill_switch *k);
void kill_switch_close(
	struct kill_switch *k, struct event_loop *loop); /* loop: NULL in a child, whose loop is another's */

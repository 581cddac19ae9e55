/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_switch - the administrator's `pillion off`, a file DIR/off: every profiler sees it at once and lets go of its
 * targets. No command has to tell them: sessions have no socket, and a service may not answer.
 *
 * DIR and its parent directory are both watched (inotify(7)), as either may be created later. Where nothing can be
 * watched, as a user may have 128 watchers at a time (fs.inotify.max_user_instances), the file is looked for twice a
 * second.
 */
#pragma once

#include "oci/base/event_loop.h"

#include <stdbool.h>
#include <stdint.h>

struct kill_switch {
	char dir[480];
	int fd; /* inotify; -1: the file is looked for */
	int64_t due;
	bool off, told; /* told: it was logged that the file cannot be looked for */
	struct event_loop *loop;
	struct event_loop_source source;
	void (*turned)(void *arg); /* `off` has changed */
	void *arg;
};

/* `turned` and `arg` are given. Needs inotify_init1(2), inotify_add_watch(2) and reads DIR by its path. */
void kill_switch_open(struct kill_switch *k, const char *dir, struct event_loop *loop);
/* Milliseconds until the next call is due, -1: inotify tells. */
int kill_switch_round(struct kill_switch *k);
void kill_switch_close(
	struct kill_switch *k, struct event_loop *loop); /* loop: NULL in a child, where it is the parent's */

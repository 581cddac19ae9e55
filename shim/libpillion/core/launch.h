/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch - starts `pilliond --library` for this process, and reads from it where its socket is (start_reply.h).
 *
 * The application must not see it: no SIGCHLD, no child for wait(2), none of its descriptors held, none of its handlers
 * run. So a first child, without exit signal, makes a second one, which executes pilliond in a session of its own, and
 * ends (an exec gives a child its exit signal back: fs/exec.c, de_thread). Both borrow our memory, as vfork(2) does, so
 * that nothing of a large program is copied.
 *
 * If orphans come back to us (PID 1, a child subreaper), the first child stays: the *keeper*, which is the reaper of
 * all processes below it. It is forked, drops the memory that it has got that way, sleeps until there are no processes
 * below it any more, and then until launch_reap() tells it to end or we end.
 */
#pragma once

#include "shim/libpillion/abi/start_reply.h"

#include <stddef.h>

struct launch {
	const char *events, *output; /* NULL: as the environment says */
	unsigned window_s;	     /* 0: the same */
};

/*
 * environment: pilliond gets the variables that it needs. 0, with ret->socket; else -errno, and a sentence in
 * ret->text. Within PILLION_BUDGET and a little.
 */
int launch_daemon(const struct launch *l, char *const *environment, struct start_reply *ret);
void launch_reap(void); /* ends a keeper, once it has no children any more */

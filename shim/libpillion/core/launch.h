/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch - starts `pilliond --library` for this very process, and hears from it where its socket is (start_reply.h).
 *
 * The application must not see it: no SIGCHLD, no child for wait(2), none of its descriptors held, none of its handlers
 * run. So a first child, without exit signal, makes a second one, which executes pilliond in a session of its own, and
 * ends (an exec gives a child its exit signal back: fs/exec.c, de_thread). Both borrow our memory, as vfork(2) does, so
 * that nothing of a large program is copied.
 *
 * Where orphans come back to us (PID 1, a child subreaper) the first child stays: the *keeper*, which is the reaper of
 * what is below it. It is forked, drops what memory it has got that way, sleeps until nothing is below it any more, and
 * then until it is told to end (launch_reap) or we do.
 */
#pragma once

#include "shim/libpillion/abi/start_reply.h"

#include <stddef.h>

struct launch {
	const char *events, *output; /* NULL: as the environment has it */
	unsigned window_s;	     /* 0: as well */
};

/*
 * environment: of which pilliond gets what it needs. 0, with ret->socket; else -errno, and a sentence in ret->text.
 * Within PILLION_BUDGET and a little.
 */
int launch(const struct launch *l, char *const *environment, struct start_reply *ret);
void launch_reap(void); /* a keeper that has nothing to keep any more */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature - the parts of libpillion that stand on the connection, by a table of each: the connection tells them what
 * has happened, and knows none of them; it tells them in no particular order. A part registers by a constructor of
 * priority 101. init_connection() in connection.c has 102, and tells them of a connection that a constructor of the
 * program's has made before.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

struct connection;

/* NULL: the part has nothing to do then. */
struct feature {
	void (*connected)(struct connection *p); /* to a profiler, which knows nothing of this process yet */
	void (*welcome)(struct connection *p, const struct shm_welcome *w); /* the profiler says what it wants */
	void (*unanswered)(void); /* connected, and the profiler has not said what it wants */
	void (*left)(void);	  /* the program has asked to be left alone (pillion_stop(3)) */
	void (*quiet)(void);	  /* from here on libpillion makes no system call */
	void (*in_child)(void);	  /* of fork(2), before it goes on; also in one that has no connection */
	struct feature *next;
};

void feature_register(struct feature *f); /* from a constructor alone: takes no lock */
void feature_tell_connected(struct connection *p);
void feature_tell_welcome(struct connection *p, const struct shm_welcome *w);
void feature_tell_unanswered(void);
void feature_tell_left(void);
void feature_tell_quiet(void);
void feature_tell_in_child(void);

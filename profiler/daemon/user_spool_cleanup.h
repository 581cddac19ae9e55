/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_spool_cleanup - applies the limits of age and size to spools of users without a running service.
 *
 * An exporter tidies its spool, and a user's exporter ends with his other processes (user_services.h). For users
 * without one an exporter is started now and then, one at a time; it finds its socket closed and ends.
 */
#pragma once

#include "oci/config/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct spool_cleanup {
	int spool; /* its directory, open; borrowed */
	const struct settings *settings;
	bool (*is_there)(void *arg, uid_t user); /* this user has an exporter */
	void *arg;
	/* its own: 0 at first */
	uid_t last;    /* the last user in this round */
	int64_t next;  /* clock_now() of the next round */
	pid_t pid;     /* the exporter; 0: there is none */
	int64_t until; /* when it is to be killed; -1: it was */
};

/* Returns the ms until the next call. */
int user_spool_cleanup_round(struct spool_cleanup *t);

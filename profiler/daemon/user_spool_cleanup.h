/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user_spool_cleanup - spools of users who are not there: how old profiles get, and how much room they take, holds for
 * them, too.
 *
 * What tidies a spool is its exporter, and a user's ends with his other processes (user_services.h). For those without
 * one it is started now and then, one at a time; it finds that nobody wants anything and ends.
 */
#pragma once

#include "oci/config/options.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct spool_cleanup {
	int spool; /* its directory, open; borrowed */
	const struct settings *settings;
	bool (*is_there)(void *arg, uid_t user); /* he has an exporter */
	void *arg;
	/* its own: 0 at first */
	uid_t last;    /* who was looked after last in this round */
	int64_t next;  /* clock_now() of the next round */
	pid_t pid;     /* the exporter; 0: there is none */
	int64_t until; /* it is killed then, -1: it was */
};

/* To be called again after so many ms. */
int user_spool_cleanup_round(struct spool_cleanup *t);

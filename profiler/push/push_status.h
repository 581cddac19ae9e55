/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_status - reads the state of each endpoint of `pillion push` (push.h), which its process writes into the spool:
 * <spool>/.push/NAME.json. For metrics; of processes that can write there, only numbers and a name are trusted.
 */
#pragma once

#include <stdint.h>

#define PUSH_STATUS_MAX 16
#define PUSH_STATUS_STALE_S 86400 /* an older status is left out: its endpoint was removed */

struct push_status {
	char name[64];	      /* printable */
	uint64_t sent, bytes; /* since its process began */
	uint64_t refused, lost, failures;
	uint64_t waiting;
	uint64_t oldest_s;  /* age of the file that waits longest */
	uint64_t failing_s; /* for how long; 0: the last try went well */
	uint64_t heard_s;   /* age of the status */
	char why[200];	    /* reason of the failure; printable */
};

/* Reads the states, in order of their names; returns how many there are. */
unsigned push_status_read(int spool, struct push_status ret[PUSH_STATUS_MAX]);

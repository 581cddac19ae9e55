/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_status - how it is going with each endpoint of `pillion push` (push.h), as its processes write it beside the
 * spool: <spool>/.push/NAME.json. For metrics; whoever can write there is not trusted for more than numbers and a name.
 */
#pragma once

#include <stdint.h>

#define PUSH_STATUS_MAX 16
#define PUSH_STATUS_STALE_S 86400 /* of an endpoint that was taken away nothing is told any more */

struct push_status {
	char name[64];	      /* printable */
	uint64_t sent, bytes; /* since its process began */
	uint64_t refused, lost, failures;
	uint64_t waiting;
	uint64_t oldest_s;  /* how long the one that waits longest has been there */
	uint64_t failing_s; /* for how long; 0: the last try went well */
	uint64_t heard_s;   /* its age */
	char why[200];	    /* nothing is taken; printable */
};

/* How many there are, in order of their names. */
unsigned push_status_read(int spool, struct push_status ret[PUSH_STATUS_MAX]);

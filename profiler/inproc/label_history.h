/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label_history - what the threads of a process with libpillion are called, by what that says in its area
 * (shim/libpillion/abi/shm_layout.h): which set of labels a thread had when a sample of it was taken, whoever took
 * that.
 *
 * Changes are read before samples are, so that those of a sample are known by then; of each thread they are kept until
 * nothing older can come. All of it is hostile: times are put in order, sets that are none are none, and there is a
 * bound for threads. Where changes came faster than they were read, nobody knows what the threads had: they have no
 * labels until their next one, and it is counted.
 */
#pragma once

#include "oci/base/pair_table.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdint.h>

struct label_history_line;

struct label_history { /* all zero: nothing was read */
	uint64_t next;
	unsigned patience; /* reads that have met one that was begun and not done */
	uint64_t lost;	   /* changes */
	struct pair_table tids;
	struct label_history_line *lines; /* by their number there */
	size_t room;
	char *sets[SHM_SETS]; /* "": it is none; NULL: not read yet */
};

struct label_history_limits {
	uint64_t settled; /* no sample comes that is older */
	uint64_t now;	  /* what says to be of later is of now */
	uint64_t changes; /* that may be read, counts down: a target's for a while; beyond it they are lost */
	size_t threads;	  /* of this one that are known; one more, and none of them is */
};
/* 0 or -errno: the area is not to be used any more. */
int label_history_read(struct label_history *l, int memory, struct label_history_limits *limits);
/* "key=value\n" for each, or ""; valid as long as `l` is. */
const char *label_history_at(struct label_history *l, int memory, uint32_t tid, uint64_t time);
const char *label_history_of(struct label_history *l, int memory, uint64_t set); /* of a record that says which */
void label_history_ended(
	struct label_history *l, uint32_t tid, uint64_t time); /* the thread: its number may be another's soon */
void label_history_done(struct label_history *l);

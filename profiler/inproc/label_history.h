/* SPDX-License-Identifier: Apache-2.0 */
/*
 * label_history - labels of the threads of a process with libpillion, from its area
 * (shim/libpillion/abi/shm_layout.h): the set of labels that a thread had when it was sampled, by the kernel or by the
 * library.
 *
 * Changes are read before samples are, so they are known by then. The changes of a thread are kept until no older
 * sample can come. All of it is hostile: times are put in order, an invalid set counts as none, and the number of
 * threads is bounded. If changes came faster than they were read, the labels are unknown: threads have no labels until
 * their next change, and the loss is counted.
 */
#pragma once

#include "oci/base/pair_table.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdint.h>

struct label_history_line;

struct label_history { /* all zero: nothing was read */
	uint64_t next;
	unsigned patience; /* reads that found the next change begun and not done */
	uint64_t lost;	   /* changes */
	struct pair_table tids;
	struct label_history_line *lines; /* by the number in `tids` */
	size_t room;
	char *sets[SHM_SETS]; /* "": invalid; NULL: not read yet */
};

struct label_history_limits {
	uint64_t settled; /* no older sample comes */
	uint64_t now;	  /* a change with a later time counts as of now */
	uint64_t changes; /* that may be read, counts down: per target and time; more are lost */
	size_t threads;	  /* known threads of this process; one more, and all are forgotten */
};
/* 0 or -errno: do not use the area any more. */
int label_history_read(struct label_history *l, int memory, struct label_history_limits *limits);
/* "key=value\n" for each, or ""; valid as long as `l` is. */
const char *label_history_at(struct label_history *l, int memory, uint32_t tid, uint64_t time);
const char *label_history_of(struct label_history *l, int memory, uint64_t set); /* of a record with the set's number */
void label_history_ended(
	struct label_history *l, uint32_t tid, uint64_t time); /* the thread: its tid may be reused soon */
void label_history_done(struct label_history *l);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_reader - what one process has called, by its trees in memory that it shares
 * (shim/libpillion/abi/calltree_layout.h): by how much each node has grown since it was looked at last.
 *
 * All of it is hostile, and read by pread(2) as the process writes: what comes out may be nonsense of its own, but a
 * parent lies before its child, a path ends, and no sum is larger than CALLTREE_READER_MOST. Counts are cumulative
 * there, and what is known of them here goes into a journal together with what was made of it: nothing is lost or
 * counted twice when the reader is another one.
 */
#pragma once

#include "oci/base/journal.h"
#include "shim/libpillion/abi/calltree_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CALLTREE_READER_MOST (1ull << 56)
#define CALLTREE_READER_NODES_MAX (2u << 20)
#define CALLTREE_READER_GONE_MAX 256 /* modules that are gone, the last ones */

struct calltree_reader_node;
struct calltree_reader {
	int memory; /* -1: it is not there */
	uint64_t cookie, size;
	int64_t born;			    /* CLOCK_MONOTONIC, by the process */
	uint32_t pid;			    /* as it knows itself */
	struct calltree_reader_node *nodes; /* by number, as they were last */
	size_t n;
	size_t *account; /* nodes of all that have the same one: CALLTREE_READER_NODES_MAX at most; NULL: nobody counts
			  */
	uint64_t unplaced;
	bool anew, changed; /* what a journal has of them is not what they are */
};

#define CALLTREE_READER_NONE                                                                                           \
	{                                                                                                              \
		.memory = -1                                                                                           \
	}

/* Takes the descriptor, also on failure: -EPROTO: it is no region that can neither shrink nor grow. */
int calltree_reader_open(struct calltree_reader *c, int memory);
void calltree_reader_close(struct calltree_reader *c); /* the memory alone */
void calltree_reader_done(struct calltree_reader *c);

struct calltree_reader_fn {
	uint64_t fn;	  /* an address, or TREE_FN_FULL */
	const char *gone; /* its line of proc_pid_maps(5), where that module is not there any more; NULL */
};
/* path[0] was called by path[1] and so on; `ns`: in the function itself. */
typedef void calltree_reader_grown_fn(
	void *arg, const struct calltree_reader_fn *path, size_t n, uint64_t calls, uint64_t ns);
/* Only the `max` functions next to the leaf are told. How many nodes have grown, or -errno: it is not to be used any
 * more. */
int calltree_reader_look(struct calltree_reader *c, size_t max, calltree_reader_grown_fn *fn, void *arg);
int calltree_reader_skip(struct calltree_reader *c); /* what there is by now is somebody else's */
/* All that there is of the same process, its memory too where there is none. */
void calltree_reader_take(struct calltree_reader *c, struct calltree_reader *from);

/* For a journal: what has changed since the last time, or all of it. -EBADMSG by s->bad. */
bool calltree_reader_unsaved(const struct calltree_reader *c);
void calltree_reader_save(struct calltree_reader *c, struct journal *j);
void calltree_reader_load(struct calltree_reader *c, struct journal_reader *s);

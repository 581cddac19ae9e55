/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_reader - the calls of one process, from the trees in its shared memory
 * (shim/libpillion/abi/calltree_layout.h): how much each node has grown since the last look.
 *
 * All of it is hostile, and is read by pread(2) while the process writes. The results may be nonsense, but a parent
 * lies before its child, a path ends, and no sum is larger than CALLTREE_READER_MOST. The trees' counts are cumulative.
 * Their last known values go into a journal together with the counts made of them: a new reader loses nothing and
 * counts nothing twice.
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
	int memory; /* -1: there is none */
	uint64_t cookie, size;
	int64_t born;			    /* CLOCK_MONOTONIC, by the process */
	uint32_t pid;			    /* as it knows itself */
	struct calltree_reader_node *nodes; /* by number, as of the last look */
	size_t n;
	size_t *account; /* nodes of all readers that share it, CALLTREE_READER_NODES_MAX at most; NULL: no limit */
	uint64_t unplaced;
	bool anew, changed; /* the journal's copy is out of date: all of it; some nodes */
};

#define CALLTREE_READER_NONE                                                                                           \
	{                                                                                                              \
		.memory = -1                                                                                           \
	}

/* Takes the descriptor, also on failure. -EPROTO: not a region that can neither shrink nor grow. */
int calltree_reader_open(struct calltree_reader *c, int memory);
void calltree_reader_close(struct calltree_reader *c); /* closes the memory alone */
void calltree_reader_done(struct calltree_reader *c);

struct calltree_reader_fn {
	uint64_t fn;	  /* an address, or TREE_FN_FULL */
	const char *gone; /* its line of proc_pid_maps(5), if that module is unmapped; NULL: it is not */
};
/* path[0] was called by path[1] and so on; `ns`: in the function itself. */
typedef void calltree_reader_grown_fn(
	void *arg, const struct calltree_reader_fn *path, size_t n, uint64_t calls, uint64_t ns);
/* Tells only the `max` functions next to the leaf. Returns how many nodes have grown, or -errno: do not use the reader
 * any more. */
int calltree_reader_look(struct calltree_reader *c, size_t max, calltree_reader_grown_fn *fn, void *arg);
int calltree_reader_skip(struct calltree_reader *c); /* takes all calls so far as counted already */
/* Moves the nodes of the same process from `from` to `c`; the memory too, if `c` has none. */
void calltree_reader_take(struct calltree_reader *c, struct calltree_reader *from);

/* Saves the changes since the last time, or everything, to a journal. A bad entry sets s->bad (-EBADMSG). */
bool calltree_reader_unsaved(const struct calltree_reader *c);
void calltree_reader_save(struct calltree_reader *c, struct journal *j);
void calltree_reader_load(struct calltree_reader *c, struct journal_reader *s);

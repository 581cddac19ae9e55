/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_layout - calling-context trees in memory that two processes may share: the program writes, and any process
 * that has mapped the region reads, at any moment and without asking. Host byte order.
 *
 * The region is a row of chunks of TREE_CHUNK bytes, numbered from 0. Chunk 0 is the header; each other one belongs to
 * one tree and holds a head and TREE_PER_CHUNK - 1 nodes, or is a text. `chunks` of the header says how many are in
 * use; it never shrinks, and no node moves or disappears. A node's number is the byte where it begins, divided by
 * sizeof(struct tree_node); so 0 is no node. A parent's number is below its child's.
 *
 * One thread writes a tree at a time: counters are plain 64-bit words that only grow, so a reader with relaxed loads
 * sees each some calls old but whole. A node exists for a reader once its `fn` is not 0 (load-acquire). If `fn` stays
 * 0, the node was begun by a signal handler that never came back. Counters are cumulative: a new reader gets all
 * counts, and two readers do not disturb each other.
 *
 * A tree outlives its thread: the next thread without one goes on in it. Trees say how a process got somewhere, not
 * which thread did.
 */
#pragma once

#include "shim/libpillion/abi/abi_arch.h"

#include <stddef.h>
#include <stdint.h>

#define TREE_MAGIC "pilltree"
#define TREE_VERSION 2u /* another one: nothing behind it is to be read */
#define TREE_CHUNK 4096u
#define TREE_KIDS 4u

/* Instead of an address of a function */
#define TREE_FN_ROOT 1u /* a thread: no function of the program is left below it */
#define TREE_FN_FULL 2u /* calls of all functions and paths for which there was no room */
#define TREE_FN_LAST 2u
/* The module of the function or the call site has been unmapped: struct tree_node.gone */
#define TREE_FN_GONE (1ull << 63)

enum tree_clock {
	TREE_CLOCK_NONE,   /* only calls are counted; `ticks` may be left from before */
	TREE_CLOCK_TSC,	   /* ticks are the CPU's (ticks_read), see `tsc` */
	TREE_CLOCK_KERNEL, /* ticks are nanoseconds of CLOCK_MONOTONIC: the CPU's clock is not invariant */
};

struct tree_header { /* chunk 0 */
	char magic[8];
	uint32_t version, header_size, node_size, chunk_size;
	uint64_t size;	   /* of the region, bytes */
	uint32_t chunks;   /* in use, this one too; may be above what fits `size`, when it is full */
	uint32_t pid;	   /* of the process, in its own pid namespace */
	uint64_t unplaced; /* calls on threads for which there was no room */
	uint32_t clock;	   /* enum tree_clock */
	uint32_t reserved;
	/* Both clocks at one moment, soon after the start: with a second moment the reader gets the length of a tick */
	uint64_t tsc, monotonic_ns;
	uint64_t born;	 /* CLOCK_MONOTONIC, ns: when counting began, from 0 */
	uint64_t cookie; /* shm_head.cookie, if a profiler reads it */
};

struct tree_chunk {    /* the head of each other chunk */
	uint32_t tid;  /* of the thread that took it */
	uint32_t used; /* nodes that may be in use, this head included; above TREE_PER_CHUNK: all */
	uint64_t text; /* not 0: a line of proc_pid_maps(5) of an unmapped module follows, up to a 0, and no nodes */
	uint64_t reserved[6];
};
#define TREE_TEXT_MAX (TREE_CHUNK - sizeof(struct tree_chunk)) /* with the 0 */

struct tree_node {
	uint64_t fn, site;	  /* the function; where its call returns to */
	uint32_t parent;	  /* 0: this is a thread's root */
	uint32_t gone;		  /* with TREE_FN_GONE: the chunk with its module, which may be in an earlier chunk */
	uint32_t kids[TREE_KIDS]; /* the writer's cache: the children that it found last */
	uint64_t calls;
	uint64_t ticks; /* in the function itself, without what it called */
	uint64_t reserved;
};

#define TREE_PER_CHUNK (TREE_CHUNK / sizeof(struct tree_node))

_Static_assert(sizeof(struct tree_header) == 88, "the header is as a reader knows it");
_Static_assert(offsetof(struct tree_header, size) == 24 && offsetof(struct tree_header, chunks) == 32 &&
		       offsetof(struct tree_header, unplaced) == 40 && offsetof(struct tree_header, clock) == 48 &&
		       offsetof(struct tree_header, tsc) == 56,
	"the header is as a reader knows it");
_Static_assert(sizeof(struct tree_node) == 64 && sizeof(struct tree_chunk) == 64, "a cache line each");
_Static_assert(offsetof(struct tree_node, parent) == 16 && offsetof(struct tree_node, calls) == 40 &&
		       offsetof(struct tree_node, ticks) == 48,
	"a node is as a reader knows it");

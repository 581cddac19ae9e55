/* SPDX-License-Identifier: Apache-2.0 */
/* calltree_stacks - the stacks and nodes of a thread, for calltree.c, calltree_nodes.c and calltree_stacks.c alone. */
#pragma once

#include "shim/libpillion/calltree/calltree_inline.h"

/*
 * The frames known of one stack of the program; aligned to its size, so that a frame's address gives its stack. All
 * zero: it is not there, as in a forked child.
 */
struct tree_stack {
	struct tree_thread *thread;
	struct tree_stack *next; /* of the thread's */
	struct tree_stack *from; /* where the thread was before it entered here */
	struct tree_frame *top;	 /* while the thread is elsewhere */
	uint64_t used;		 /* the thread's `switches` at the last one to here; 0: free */
	uint64_t over, low;	 /* calls below the last frame, and how far down they are */
	uint64_t reserved;
	struct tree_frame frames[1 + CALLTREE_DEPTH]; /* the first is the one that the stack was entered from */
};
_Static_assert(sizeof(struct tree_stack) == CALLTREE_STACK_SIZE, "the last frame ends where the stack does");

struct calltree_table;
struct tree_thread {
	struct tree_thread *next;
	struct tree_node *root, *full;
	struct tree_chunk *chunk; /* the newest */
	struct calltree_table *table;
	struct tree_stack *stacks; /* the first is the last in the list, and never free */
	struct tree_stack *first;
	uint64_t switches;
	uint32_t n_stacks;
	uint32_t tid; /* 0: being made */
};

static inline struct tree_stack *tree_stack_of(const struct tree_frame *f)
{
	return (struct tree_stack *)((uintptr_t)f & ~(uintptr_t)(CALLTREE_STACK_SIZE - 1));
}

#pragma GCC visibility push(hidden)
struct tree_node *calltree_child(struct tree_frame *caller, uint64_t fn, uint64_t site);
extern struct tree_frame calltree_nowhere; /* top of a thread without a tree */
/* The calling thread's tree, at its root; NULL: there is no room. */
struct tree_frame *calltree_begin(void);
struct tree_stack *tree_stack_make(struct tree_thread *t); /* NULL: no room */
#pragma GCC visibility pop

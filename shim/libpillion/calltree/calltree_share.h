/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_share - calling-context trees for a profiler that has asked for them: in memory that it reads
 * (calltree_layout.h), at any moment and without asking, so that no thread is stopped for it. Counts are cumulative:
 * another profiler has all of them.
 *
 * The memory is passed when the process has connected, and whenever it connects again. A forked child makes its own at
 * its first function call, and connects then. A thread looks at the connection when it calls its first function.
 */
#pragma once

#include "shim/libpillion/core/connection.h"

#define CALLTREE_SHARE_SIZE (16u << 20) /* 258,048 nodes */

/* Takes `calls` of the profiler's welcome (struct shm_welcome); `p` is connected. */
void calltree_share_welcome(struct connection *p, uint64_t calls);
/* The calling thread has called its first function. */
void calltree_share_look(void);
/* There is a new node, of a call of `fn`: sends the mappings, if they are new and we are the only source of them. */
void calltree_share_called(uint64_t fn);

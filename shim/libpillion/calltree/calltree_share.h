/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calltree_share - calling-context trees for a profiler that has asked for them: in memory that it reads
 * (calltree_layout.h), at any moment and without a word, so that nobody is stopped for it. Counts are cumulative:
 * another profiler has all of them.
 *
 * The memory is passed when the process has connected, and whenever it connects again. A forked child makes its own as
 * the first function is called there, and connects then. A connection is looked at as a thread calls its first
 * function.
 */
#pragma once

#include "shim/libpillion/core/connection.h"

#define CALLTREE_SHARE_SIZE (16u << 20) /* 258,048 nodes */

/* The profiler has said what it wants, area_welcome.calls; `p` is connected. */
void calltree_share_welcome(struct connection *p, uint64_t calls);
/* The calling thread has called its first function. */
void calltree_share_look(void);
/* A function that was not called there before, where nobody but us tells what is mapped. */
void calltree_share_called(uint64_t fn);

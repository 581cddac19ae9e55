/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_heap - the sampled memory of one process that may be in use: for each slot of its area
 * (shim/libpillion/abi/shm_layout.h), the place of the allocation, as the number of a sample in an aggregate of the
 * caller's.
 *
 * The samples of an area tell the place; its slots tell which allocations are still in use. Freed ones are found out
 * when the caller asks (live_heap_count), or when there are many.
 */
#pragma once

#include "oci/base/journal.h"
#include "profiler/inproc/shm_reader.h"
#include "profiler/sample/aggregate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_HEAP_PART 1024 /* parts of an object: a sample stands for a number of objects that is not whole */

struct live_heap_entry;
struct live_heap {
	struct live_heap_entry *list;
	size_t n, room, n_used, n_saved;
	bool anew; /* the journal's copy is out of date */
};

/* Returns how many allocations of `bytes` bytes a sampled one stands for (shim/libpillion/alloc/alloc_sample.h). */
double live_heap_stands_for(uint64_t bytes, uint64_t mean);
uint64_t live_heap_parts(double objects); /* in LIVE_HEAP_PART */
uint64_t live_heap_scaled(double by, uint64_t bytes);

/* inbox: the process's; NULL: freed allocations are unknown. sample < 0: none, nothing is added. */
void live_heap_add(struct live_heap *u, struct shm_reader *inbox, uint64_t id, uint64_t bytes, int64_t sample);
/* Counts into the aggregate of the samples: the slots in use, those without a sample as [lost]; without an inbox: all
 * known allocations. */
void live_heap_count(struct live_heap *u, struct shm_reader *inbox, uint64_t mean, struct aggregate *a);
/* Moves the samples of the remaining allocations to another aggregate. `to` is `from`: forgets them, as it is about to
 * be cleared.
 */
void live_heap_move(struct live_heap *u, const struct aggregate *from, struct aggregate *to);
void live_heap_forget(struct live_heap *u);
void live_heap_take(struct live_heap *u, struct live_heap *from); /* all of it */
void live_heap_done(struct live_heap *u);			  /* all zero again */

/* Saves the changes since the last time, or everything, to a journal. A bad entry sets s->bad (-EBADMSG). */
bool live_heap_unsaved(const struct live_heap *u);
void live_heap_save(struct live_heap *u, struct journal *j);
void live_heap_load(struct live_heap *u, struct journal_reader *s, const struct aggregate *a);

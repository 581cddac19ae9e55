/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_heap - the sampled memory of one process that may be in use: for each slot of its area
 * (shim/libpillion/abi/shm_layout.h), where it was allocated, as the number of a sample in an aggregate of the
 * caller's.
 *
 * The samples of an area tell where; its slots tell which of them are in use still. What has been freed meanwhile is
 * found out when somebody asks (live_heap_count), or when there are many.
 */
#pragma once

#include "oci/base/journal.h"
#include "profiler/inproc/shm_reader.h"
#include "profiler/sample/aggregate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIVE_HEAP_PART                                                                                                 \
	1024 /* counts of objects are in parts of one: a sample stands for a number that is not whole                  \
	      */

struct live_heap_entry;
struct live_heap {
	struct live_heap_entry *list;
	size_t n, room, n_used, n_saved;
	bool anew; /* what a journal has of them is not what they are */
};

/* What an allocation of so many bytes stands for when it was sampled (shim/libpillion/alloc/alloc_sample.h): so many of
 * its size. */
double live_heap_stands_for(uint64_t bytes, uint64_t mean);
uint64_t live_heap_parts(double objects); /* LIVE_HEAP_PART */
uint64_t live_heap_scaled(double by, uint64_t bytes);

/* inbox: that of the process; NULL: nobody knows what has been freed. sample < 0: it has none. */
void live_heap_add(struct live_heap *u, struct shm_reader *inbox, uint64_t id, uint64_t bytes, int64_t sample);
/* Into the aggregate of its samples: what is in use by the slots, of which those without a sample are [lost]; or, where
 * there is no inbox, all that is known. */
void live_heap_count(struct live_heap *u, struct shm_reader *inbox, uint64_t mean, struct aggregate *a);
/* What is left of them has its samples in another aggregate from now on; `to` the same one: that is about to be
 * cleared.
 */
void live_heap_move(struct live_heap *u, const struct aggregate *from, struct aggregate *to);
void live_heap_forget(struct live_heap *u);
void live_heap_take(struct live_heap *u, struct live_heap *from); /* all of it */
void live_heap_done(struct live_heap *u);			  /* all zero again */

/* For a journal: what has come since the last time, or all of it. -EBADMSG by s->bad. */
bool live_heap_unsaved(const struct live_heap *u);
void live_heap_save(struct live_heap *u, struct journal *j);
void live_heap_load(struct live_heap *u, struct journal_reader *s, const struct aggregate *a);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live_slots - the sampled allocations in use, by address: the part of the area that a free(3) has to look at.
 *
 * Nearly all calls free memory that was never sampled, so there is a filter: a counter for each address, shared by few
 * others (those of a page lie together, as memory is freed one after the other). If it is zero, no sampled allocation
 * of these is in use. Without locks, so from any thread and any handler.
 */
#pragma once

#include "shim/libpillion/abi/shm_layout.h"

#define LIVE_SLOTS_BLOCKS 8192
#define LIVE_SLOTS_BLOCK 16

extern uint8_t live_slots_filter[LIVE_SLOTS_BLOCKS * LIVE_SLOTS_BLOCK];

static inline uint8_t *live_slots_counter(const void *p)
{
	const uintptr_t at = (uintptr_t)p, page = at >> 12;
	return &live_slots_filter[((page ^ page >> 13) % LIVE_SLOTS_BLOCKS) * LIVE_SLOTS_BLOCK +
				  (at >> 4 ^ at >> 8) % LIVE_SLOTS_BLOCK];
}
static inline bool live_slots_maybe(const void *p)
{
	return __builtin_expect(__atomic_load_n(live_slots_counter(p), __ATOMIC_RELAXED) != 0, 0);
}

/* Adds p. Returns its id; 0: no room near its place, it was not added. */
uint64_t live_slots_add(const struct shm *a, const void *p, uint64_t bytes);
/* Returns the slot of p, from 1 on; 0: none. */
uint32_t live_slots_find(const struct shm *a, const void *p);
void live_slots_empty(const struct shm *a, uint32_t slot, const void *p); /* unless it has another address by now */

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/alloc/live_slots.h"

#define STUCK UINT8_MAX /* a counter that was full: its true value is lost */
#define NEAR 8		/* slots of an address on each level; the first few pages are used first */
#define FIRST 8192

uint8_t live_slots_filter[LIVE_SLOTS_BLOCKS * LIVE_SLOTS_BLOCK] __attribute__((aligned(64)));

static void adjust_counter(uint8_t *c, int by)
{
	uint8_t had = __atomic_load_n(c, __ATOMIC_RELAXED);
	while (had != STUCK && !(by < 0 && had == 0))
		if (__atomic_compare_exchange_n(c, &had, (uint8_t)(had + by), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return;
}

/*
 * Where the slots of an address begin on a level: few allocations are all in a small part, so most of its pages are in
 * use.
 */
static uint32_t hash_address(const void *p, unsigned level)
{
	static const uint32_t levels[][2] = {
		{0, FIRST}, {FIRST, SHM_SLOTS / 8 - FIRST}, {SHM_SLOTS / 8, SHM_SLOTS / 8 * 7}};
	const uint64_t mixed = ((uint64_t)(uintptr_t)p >> 4) * 0x9e3779b97f4a7c15;
	return levels[level][0] + (uint32_t)((mixed >> 32) * (levels[level][1] / NEAR) >> 32) * NEAR;
}
#define LEVELS 3

static void raise_maximum(uint64_t *most, uint64_t to)
{
	uint64_t had = __atomic_load_n(most, __ATOMIC_RELAXED);
	while (had < to && !__atomic_compare_exchange_n(most, &had, to, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

uint64_t live_slots_add(const struct shm *a, const void *p, uint64_t bytes)
{
	for (unsigned level = 0; level < LEVELS; level++) {
		const uint32_t first = hash_address(p, level);
		for (uint32_t i = first; i < first + NEAR; i++) {
			struct shm_slot *s = &a->slots[i];
			uint64_t empty = 0;
			if (!__atomic_compare_exchange_n(
				    &s->at, &empty, SHM_SLOT_TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				continue;
			uint64_t id = 1 + __atomic_fetch_add(&a->head->last_id, 1, __ATOMIC_RELAXED);
			s->id = id;
			s->bytes = bytes;
			raise_maximum(&a->head->slots, i + 1);
			adjust_counter(live_slots_counter(p), 1);
			__atomic_store_n(&s->at, (uint64_t)(uintptr_t)p, __ATOMIC_RELEASE);
			return id;
		}
	}
	return 0;
}

uint32_t live_slots_find(const struct shm *a, const void *p)
{
	for (unsigned level = 0; level < LEVELS; level++) {
		const uint32_t first = hash_address(p, level);
		for (uint32_t i = first; i < first + NEAR; i++)
			if (__atomic_load_n(&a->slots[i].at, __ATOMIC_ACQUIRE) == (uint64_t)(uintptr_t)p)
				return i + 1;
	}
	return 0;
}

void live_slots_empty(const struct shm *a, uint32_t slot, const void *p)
{
	uint64_t at = (uint64_t)(uintptr_t)p;
	if (slot &&
		__atomic_compare_exchange_n(&a->slots[slot - 1].at, &at, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		adjust_counter(live_slots_counter(p), -1);
}

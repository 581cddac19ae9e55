/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/abi/shm_layout.h"

void shm_on(void *mapped, struct shm *ret)
{
	uint8_t *at = mapped;
	ret->head = mapped;
	ret->items = (struct shm_item *)(at + SHM_ITEMS_AT);
	ret->bytes = at + SHM_BYTES_AT;
	ret->slots = (struct shm_slot *)(at + SHM_SLOTS_AT);
	ret->sets = (struct shm_set *)(at + SHM_SETS_AT);
	ret->changes = (struct shm_change *)(at + SHM_CHANGES_AT);
}

#define WAKE_AGAIN 256 /* records lost from one call for help to the next */

/* Four lanes, since one multiplication waits for the other. Finds only accidental damage. */
uint64_t shm_sum(const void *bytes, size_t size, uint32_t number)
{
	static const uint64_t factor = 0x9e3779b97f4a7c15;
	const uint64_t *word = bytes;
	uint64_t lane[4] = {number, size, ~(uint64_t)number, 1};
	size_t n = size / 8, i = 0;
	for (; i + 4 <= n; i += 4)
		for (unsigned k = 0; k < 4; k++)
			lane[k] = (lane[k] ^ word[i + k]) * factor;
	for (; i < n; i++)
		lane[i % 4] = (lane[i % 4] ^ word[i]) * factor;
	return (lane[0] ^ lane[1] >> 7) * factor + (lane[2] ^ lane[3] >> 7);
}

/* Records are contiguous: one that does not fit before the end starts at the beginning. */
static uint32_t count_padding(uint32_t unit, uint32_t units)
{
	const uint32_t all = SHM_BYTES / SHM_UNIT, at = unit % all;
	return at + units > all ? all - at : 0;
}

bool shm_reserve(const struct shm *a, uint32_t size, struct shm_place *ret, bool *ret_wake)
{
	const uint32_t units = (size + SHM_UNIT - 1) / SHM_UNIT;
	uint64_t tail = __atomic_load_n(&a->head->tail, __ATOMIC_ACQUIRE), next;
	uint32_t item, unit;
	do {
		const uint64_t read = __atomic_load_n(&a->head->read, __ATOMIC_ACQUIRE);
		item = SHM_AT_ITEMS(tail);
		unit = SHM_AT_UNITS(tail) + count_padding(SHM_AT_UNITS(tail), units);
		if (item - SHM_AT_ITEMS(read) >= SHM_ITEMS ||
			unit + units - SHM_AT_UNITS(read) > SHM_BYTES / SHM_UNIT) {
			/* the reader was woken before; if there is another one now, the wake finds that out */
			*ret_wake = __atomic_fetch_add(&a->head->lost, 1, __ATOMIC_RELAXED) % WAKE_AGAIN == 0;
			return false;
		}
		next = SHM_AT(item + 1, unit + units);
	} while (!__atomic_compare_exchange_n(&a->head->tail, &tail, next, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	const uint32_t wake = (uint32_t)__atomic_load_n(&a->head->wake, __ATOMIC_RELAXED);
	*ret = (struct shm_place){a->bytes + (size_t)(unit % (SHM_BYTES / SHM_UNIT)) * SHM_UNIT, item, unit, size};
	*ret_wake = (int32_t)(unit + units - wake) >= 0 && (int32_t)(SHM_AT_UNITS(tail) - wake) < 0;
	return true;
}

void shm_publish(const struct shm *a, const struct shm_place *p)
{
	struct shm_item *item = &a->items[p->number % SHM_ITEMS];
	item->start = p->start;
	item->size = p->size;
	item->sum = shm_sum(p->at, p->size & ~7u, p->number);
	__atomic_store_n(&item->number, p->number + 1, __ATOMIC_RELEASE);
}

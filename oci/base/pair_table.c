/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/pair_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define FIRST 256
#define MAX (UINT32_MAX / 4)

/* The 16 random bytes that the kernel gave this process (getauxval(3)). */
static struct pair key;

static void take_key(void)
{
	const void *random = (const void *)getauxval(AT_RANDOM);
	if (random)
		memcpy(&key, random, sizeof(key));
	key.a |= 1ull << 63; /* never 0 */
}

static uint64_t fold_product(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

struct pair pair_table_chain(struct pair row, uint64_t a, uint64_t b)
{
	if (!key.a)
		take_key();
	uint64_t one = fold_product(a ^ key.a, b ^ key.b);
	return (struct pair){fold_product(row.a ^ one, key.b | 1), fold_product(row.b + one, key.a) ^ row.a};
}

static size_t first_slot(const struct pair_table *t, uint64_t a, uint64_t b)
{
	return fold_product(fold_product(a ^ key.a, key.b | 1) ^ b, key.a) & (t->n_slots - 1);
}

static uint32_t *find_pair_slot(const struct pair_table *t, uint64_t a, uint64_t b)
{
	for (size_t i = first_slot(t, a, b);; i = (i + 1) & (t->n_slots - 1)) {
		uint32_t *slot = &t->slots[i];
		if (!*slot || (t->items[*slot - 1].a == a && t->items[*slot - 1].b == b))
			return slot;
	}
}

static int grow_table(struct pair_table *t)
{
	size_t n = t->n_slots ? 2 * t->n_slots : FIRST;
	struct pair *items = t->count >= MAX ? NULL : reallocarray(t->items, n / 2, sizeof(*items));
	if (!items)
		return -ENOMEM;
	t->items = items;
	t->room = n / 2;
	uint32_t *slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	if (!key.a)
		take_key();
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	for (size_t i = 0; i < t->count; i++)
		*find_pair_slot(t, items[i].a, items[i].b) = (uint32_t)i + 1;
	return 0;
}

void pair_table_prefetch(const struct pair_table *t, uint64_t a, uint64_t b)
{
	if (t->n_slots)
		__builtin_prefetch(&t->slots[first_slot(t, a, b)]);
}

/* Of equal pairs the last is found. */
int64_t pair_table_append(struct pair_table *t, uint64_t a, uint64_t b)
{
	if (2 * (t->count + 1) > t->n_slots && grow_table(t) < 0)
		return -ENOMEM;
	uint32_t *slot = find_pair_slot(t, a, b);
	t->items[t->count] = (struct pair){a, b};
	*slot = (uint32_t)++t->count;
	return (int64_t)t->count - 1;
}

int64_t pair_table_add(struct pair_table *t, uint64_t a, uint64_t b)
{
	uint32_t *slot = t->n_slots ? find_pair_slot(t, a, b) : NULL;
	return slot && *slot ? (int64_t)*slot - 1 : pair_table_append(t, a, b);
}

int64_t pair_table_find(const struct pair_table *t, uint64_t a, uint64_t b)
{
	uint32_t *slot = t->n_slots ? find_pair_slot(t, a, b) : NULL;
	return slot && *slot ? (int64_t)*slot - 1 : -ENOENT;
}

size_t pair_table_memory(const struct pair_table *t)
{
	return t->room * sizeof(t->items[0]) + t->n_slots * sizeof(t->slots[0]);
}

void pair_table_done(struct pair_table *t)
{
	free(t->items);
	free(t->slots);
	*t = (struct pair_table){0};
}

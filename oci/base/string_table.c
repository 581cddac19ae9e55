/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/string_table.h"

#include "oci/base/array.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define BLOCK_FIRST (4u << 10)
#define BLOCK_MAX (256u << 10)
#define SLOTS_FIRST 64

struct string_table_slot {
	uint32_t hash;
	uint32_t number; /* + 1; 0: empty */
};

struct string_table_block {
	struct string_table_block *next;
	size_t size;
	uint64_t data[]; /* 8-byte aligned */
};

static inline uint64_t rotate_left(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate_left(v[1], 13) ^ v[0];
	v[3] = rotate_left(v[3], 16) ^ v[2];
	v[0] = rotate_left(v[0], 32) + v[3];
	v[2] += v[1];
	v[3] = rotate_left(v[3], 21) ^ v[0];
	v[1] = rotate_left(v[1], 17) ^ v[2];
	v[2] = rotate_left(v[2], 32);
}

/* The 16 random bytes that the kernel gave this process (getauxval(3)): a key without a system call. */
static const uint64_t *process_key(void)
{
	static uint64_t key[2];
	const void *random = key[0] ? NULL : (const void *)getauxval(AT_RANDOM);
	if (random)
		memcpy(key, random, sizeof(key));
	return key;
}

static uint32_t hash_bytes(const void *data, size_t size)
{
	const uint64_t *key = process_key();
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
		key[1] ^ 0x7465646279746573};
	const uint8_t *at = data;
	for (size_t left = size;; left -= 8, at += 8) {
		uint64_t word = 0;
		memcpy(&word, at, left < 8 ? left : 8);
		if (left < 8)
			word |= (uint64_t)size << 56;
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
		if (left < 8)
			break;
	}
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	uint64_t h = v[0] ^ v[1] ^ v[2] ^ v[3];
	return (uint32_t)(h ^ h >> 32);
}

/* The slot of these bytes, or the empty one where they belong. Needs an empty slot in the table. */
static struct string_table_slot *find_string_slot(
	const struct string_table *t, uint32_t hash, const void *data, size_t size)
{
	for (size_t i = hash & (t->n_slots - 1);; i = (i + 1) & (t->n_slots - 1)) {
		struct string_table_slot *s = &t->slots[i];
		if (!s->number)
			return s;
		const struct string_table_item *item = &t->items[s->number - 1];
		if (s->hash == hash && item->size == size && !memcmp(item->data, data, size))
			return s;
	}
}

static int grow_slots(struct string_table *t)
{
	size_t n = t->n_slots ? t->n_slots * 2 : SLOTS_FIRST;
	struct string_table_slot *slots = calloc(n, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (size_t i = 0; i < t->n_slots; i++) {
		if (!t->slots[i].number)
			continue;
		size_t to = t->slots[i].hash & (n - 1);
		while (slots[to].number)
			to = (to + 1) & (n - 1);
		slots[to] = t->slots[i];
	}
	free(t->slots);
	t->slots = slots;
	t->n_slots = n;
	return 0;
}

static bool is_full(const struct string_table *t)
{
	return t->count * 4 >= t->n_slots * 3; /* three quarters at most */
}

static int make_room(struct string_table *t)
{
	if (t->count >= UINT32_MAX - 1)
		return -ENOMEM;
	if (array_reserve(&t->items, &t->room, t->count + 1, sizeof(*t->items), SLOTS_FIRST / 2) < 0)
		return -ENOMEM;
	return is_full(t) ? grow_slots(t) : 0;
}

/* Size of the block that is needed if the newest one has no room. */
static size_t next_block(const struct string_table *t, size_t need)
{
	size_t room = !t->blocks ? BLOCK_FIRST : t->blocks->size < BLOCK_MAX ? t->blocks->size * 4 : BLOCK_MAX;
	return room < need ? need : room;
}

static void *copy_bytes(struct string_table *t, const void *data, size_t size)
{
	size_t need = (size + 7) & ~(size_t)7;
	if (need < size)
		return NULL;
	if (!t->blocks || t->blocks->size - t->used < need) {
		size_t room = next_block(t, need);
		struct string_table_block *b = malloc(sizeof(*b) + room);
		if (!b)
			return NULL;
		*b = (struct string_table_block){.next = t->blocks, .size = room};
		t->blocks = b;
		t->used = 0;
		t->held += sizeof(*b) + room;
	}
	void *to = (char *)t->blocks->data + t->used;
	t->used += need;
	if (size)
		memcpy(to, data, size);
	return to;
}

int64_t string_table_add(struct string_table *t, const void *data, size_t size)
{
	int r = make_room(t);
	if (r < 0)
		return r;
	uint32_t hash = hash_bytes(data, size);
	struct string_table_slot *s = find_string_slot(t, hash, data, size);
	if (s->number)
		return s->number - 1;
	void *copy = copy_bytes(t, data, size);
	if (!copy)
		return -ENOMEM;
	t->items[t->count] = (struct string_table_item){copy, size};
	*s = (struct string_table_slot){hash, (uint32_t)t->count + 1};
	return (int64_t)t->count++;
}

int64_t string_table_find(const struct string_table *t, const void *data, size_t size)
{
	if (!t->n_slots)
		return -ENOENT;
	const struct string_table_slot *s = find_string_slot(t, hash_bytes(data, size), data, size);
	return s->number ? (int64_t)s->number - 1 : -ENOENT;
}

void string_table_done(struct string_table *t)
{
	while (t->blocks) {
		struct string_table_block *b = t->blocks;
		t->blocks = b->next;
		free(b);
	}
	free(t->items);
	free(t->slots);
	*t = (struct string_table){0};
}

size_t string_table_memory(const struct string_table *t)
{
	return t->held + t->room * sizeof(*t->items) + t->n_slots * sizeof(*t->slots);
}

size_t string_table_growth(const struct string_table *t, size_t size)
{
	size_t growth = 0, need = (size + 7) & ~(size_t)7;
	if (t->count == t->room)
		growth += (t->room ? t->room : SLOTS_FIRST / 2) * sizeof(*t->items);
	if (is_full(t))
		growth += (t->n_slots ? t->n_slots : SLOTS_FIRST) * sizeof(*t->slots);
	if (!t->blocks || t->blocks->size - t->used < need)
		growth += sizeof(*t->blocks) + next_block(t, need);
	return growth;
}

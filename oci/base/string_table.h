/* SPDX-License-Identifier: Apache-2.0 */
/*
 * string_table - byte strings -> dense numbers 0, 1, 2, ...: equal bytes get the same number.
 *
 * The bytes are copied into memory of the table, 8-byte aligned, and never move: a pointer to them is as good
 * a key as the bytes themselves. Lookups are O(1) and stay so with hostile input: the hash (SipHash-1-3) is keyed
 * per process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct string_table_item {
	const void *data;
	size_t size;
};

struct string_table { /* all zero: an empty table */
	struct string_table_item *items;
	size_t count, room;
	struct string_table_slot *slots;
	size_t n_slots; /* 0 or a power of two */
	struct string_table_block *blocks;
	size_t used; /* bytes of the newest block */
	size_t held; /* bytes of all blocks */
};

/* Returns the number of these bytes, old or new; -ENOMEM. A table holds at most UINT32_MAX - 1 strings. */
int64_t string_table_add(struct string_table *t, const void *data, size_t size);
int64_t string_table_find(const struct string_table *t, const void *data, size_t size); /* -ENOENT */
void string_table_done(struct string_table *t);

size_t string_table_memory(const struct string_table *t); /* bytes held */
/* Returns by how much string_table_memory() grows at most if `size` bytes are added, for callers with a limit. */
size_t string_table_growth(const struct string_table *t, size_t size);

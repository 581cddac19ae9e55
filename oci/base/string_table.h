/*
 * string_table - byte strings -> dense numbers 0, 1, 2, ...: equal bytes get the number they had.
 *
 * The bytes are copied into memory of the table, 8-byte aligned, and never move: a pointer to them is as good
 * a key as the bytes themselves. Lookups are O(1) and stay so with hostile input: the hash (SipHash-1-3) is keyed
 * per process.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct intern_item {
	const void *data;
	size_t size;
};

struct intern { /* all zero: an empty table */
	struct intern_item *items;
	size_t count, room;
	struct intern_slot *slots;
	size_t n_slots; /* 0 or a power of two */
	struct intern_block *blocks;
	size_t used; /* bytes of the newest block */
	size_t held; /* bytes of all blocks */
};

/* The number of these bytes, old or new; -ENOMEM. A table holds at most UINT32_MAX - 1 of them. */
int64_t intern_add(struct intern *t, const void *data, size_t size);
int64_t intern_find(const struct intern *t, const void *data, size_t size); /* -ENOENT */
void intern_done(struct intern *t);

size_t intern_memory(const struct intern *t); /* bytes held */
/* By how much intern_memory() grows at most when so many bytes are added, for who has a limit. */
size_t intern_growth(const struct intern *t, size_t size);

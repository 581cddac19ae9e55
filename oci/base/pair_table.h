/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair_table - pairs of numbers -> dense numbers 0, 1, 2, ...: equal pairs get the same number. As string_table.h for
 * bytes, but several times as fast (two multiplications and one probe), because every frame of every sample needs it.
 *
 * The hash is keyed per process, so that a target, which does not see the key, cannot make pairs meet in one slot.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pair {
	uint64_t a, b;
};

struct pair_table { /* all zero: an empty table */
	struct pair *items;
	size_t count, room;
	uint32_t *slots; /* numbers + 1; 0: empty */
	size_t n_slots;	 /* 0 or a power of two; at most half of them are taken */
};

/* Returns the number of the pair, old or new; -ENOMEM. A table holds at most UINT32_MAX / 4 pairs. */
int64_t pair_table_add(struct pair_table *t, uint64_t a, uint64_t b);
int64_t pair_table_append(
	struct pair_table *t, uint64_t a, uint64_t b); /* a new number, also for a pair that is there */
int64_t pair_table_find(const struct pair_table *t, uint64_t a, uint64_t b); /* -ENOENT */
/* Loads the pair's slot into the cache before it is looked for, while others are looked for. */
void pair_table_prefetch(const struct pair_table *t, uint64_t a, uint64_t b);
/*
 * Returns a 128-bit number for a row of pairs. `row` is the number of the row without its last pair (all zero: empty);
 * (a, b) is that pair. Two rows have the same number as often as two guesses of 64 bits are right, even if a target
 * chose them.
 */
struct pair pair_table_chain(struct pair row, uint64_t a, uint64_t b);
size_t pair_table_memory(const struct pair_table *t); /* bytes held */
void pair_table_done(struct pair_table *t);

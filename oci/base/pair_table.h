/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair_table - pairs of numbers -> dense numbers 0, 1, 2, ...: equal pairs get the number they had. What string_table.h
 * is for bytes, several times as fast: two multiplications and a look, for what is done for every frame of every
 * sample.
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

/* The number of the pair, old or new; -ENOMEM. A table holds at most UINT32_MAX / 4 of them. */
int64_t pair_table_add(struct pair_table *t, uint64_t a, uint64_t b);
int64_t pair_table_append(
	struct pair_table *t, uint64_t a, uint64_t b); /* a number of its own, also for a pair that is there */
int64_t pair_table_find(const struct pair_table *t, uint64_t a, uint64_t b); /* -ENOENT */
/* It will be looked for in a moment: what is cold comes while others are looked for. */
void pair_table_prefetch(const struct pair_table *t, uint64_t a, uint64_t b);
/*
 * A number of 128 bits for a row of pairs: of that without its last one, all zero for none, and that one. Two rows have
 * the same one as often as two guesses of 64 bits are right, whoever chose them.
 */
struct pair pair_table_chain(struct pair row, uint64_t a, uint64_t b);
size_t pair_table_memory(const struct pair_table *t); /* bytes held */
void pair_table_done(struct pair_table *t);

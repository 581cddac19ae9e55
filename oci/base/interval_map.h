/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interval_map - intervals of an address space, each with a number; where they overlap, the one that was added last
 * wins, and the parts of the others that it does not cover remain.
 *
 * It has runs of disjoint intervals in order, older and longer runs first (the logarithmic method of Bentley and Saxe):
 * an addition is a run of one, and two runs of equally many additions are merged, the newer over the older. So n
 * additions of any kind cost O(n log n), a search at any time costs O(log² n), and n additions leave at most 2n - 1
 * pieces.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERVAL_MAP_RUNS 64

struct interval {
	uint64_t start;
	uint32_t size; /* from 1 */
	uint32_t value;
};

struct interval_map { /* all zero: none */
	struct interval *pieces, *scratch;
	size_t count, room, scratch_room;
	struct {
		size_t first;	 /* of its pieces; they end where the next run begins */
		uint64_t weight; /* the number of its additions */
	} runs[INTERVAL_MAP_RUNS];
	unsigned n_runs;
};

/*
 * Cuts a size above UINT32_MAX, or one that goes beyond the end of the address space; for size 0 adds nothing.
 * -ENOSPC: more than `limit` bytes would be held, or INTERVAL_MAP_RUNS runs; -ENOMEM. Either way it is not added. Runs
 * whose merging does not fit in memory or `limit` stay as they are.
 */
int interval_map_add(struct interval_map *t, uint64_t start, uint64_t size, uint32_t value, size_t limit);
bool interval_map_find(const struct interval_map *t, uint64_t address, uint32_t *ret_value);
size_t interval_map_memory(const struct interval_map *t); /* bytes held */
void interval_map_done(struct interval_map *t);

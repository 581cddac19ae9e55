/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interval_map - stretches of an address space, each with a number; where they overlap, the one that was added last
 * wins, and of the others there remains what it does not cover.
 *
 * Runs of disjoint stretches in order, older and longer ones first (the logarithmic method of Bentley and Saxe): an
 * addition is a run of one, and two runs that have seen equally many additions are laid over each other. So n
 * additions cost O(n log n) whatever they are, one can be searched for at any time in O(log² n), and n of them leave at
 * most 2n - 1 pieces.
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
		uint64_t weight; /* additions that are in it */
	} runs[INTERVAL_MAP_RUNS];
	unsigned n_runs;
};

/*
 * A size above UINT32_MAX, or one that goes beyond the end of the address space, is cut; of size 0 nothing is added.
 * -ENOSPC: more than `limit` bytes would be held, also while runs are merged; -ENOMEM. Either way it is not added.
 */
int interval_map_add(struct interval_map *t, uint64_t start, uint64_t size, uint32_t value, size_t limit);
bool interval_map_find(const struct interval_map *t, uint64_t address, uint32_t *ret_value);
size_t interval_map_memory(const struct interval_map *t); /* bytes held */
void interval_map_done(struct interval_map *t);

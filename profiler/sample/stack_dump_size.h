/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_dump_size - the size of stack snapshot that a target's samples of one kind should have
 * (shim/event/perf_event.h: rungs), from the results of unwinding. Numbers only: the owner of the events moves them.
 *
 * Every sample takes its whole snapshot's room in a ring that all share, however little of it is stack: a size that is
 * too large costs time and, at high rates, samples; one that is too small cuts stacks. So it goes up quickly: when more
 * than 1 % of at least 20 stacks were cut, and more than one. It goes down slowly: when 99.9 % of the stacks of 10 s,
 * at least 100, would have fitted into the next smaller size. As long as it never went up, 2500 stacks are enough for
 * that.
 */
#pragma once

#include "shim/event/perf_event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stack_dump_size {
	uint32_t size[PERF_RUNGS + 1]; /* bytes, by rung; 0 = there is no such rung */
	uint32_t at, top; /* the rung that counts; the highest that the ring is large enough for. 0: none */
	bool rose, crooked;
	uint32_t batch, batch_cut; /* recent stacks: for going up */
	uint32_t stacks, deep;	   /* since then, and those that the next smaller size would have cut: for going down */
	int64_t since;		   /* ns; 0: from the next look on */
};

/*
 * Adds an event with a rung, 1 to PERF_RUNGS. If they do not make one ladder (two sizes, two beginnings), none is
 * moved.
 */
void stack_dump_size_add(struct stack_dump_size *l, uint32_t rung, uint32_t size, bool idle);
/* All events are added. A ring has room for four snapshots at least. */
void stack_dump_size_limit(struct stack_dump_size *l, size_t ring);
/*
 * Notes a stack from this rung. cut: it goes on beyond its snapshot; else `reach` bytes of it were stack. Samples of
 * another rung, from before the last move, are ignored.
 */
void stack_dump_size_saw(struct stack_dump_size *l, uint32_t rung, bool cut, size_t reach);
/* Returns the rung that should count from now on. */
uint32_t stack_dump_size_look(struct stack_dump_size *l, int64_t now);
void stack_dump_size_moved(struct stack_dump_size *l, uint32_t to);

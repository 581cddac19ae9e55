/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/stack_dump_size.h"

#include "oci/base/clock.h"

#define CUT_MIN 20 /* stacks, for a decision */
#define CUT_ONE_IN 100
#define BATCH 200 /* stacks: rare cuts do not add up */
#define SMALL_MIN 100
#define SMALL_MANY 2500 /* of 10 s of one CPU at 250 Hz */
#define SMALL_NS (10 * NSEC_PER_SEC)
#define DEEP_ONE_IN 1000
#define RING_SNAPSHOTS 4

void stack_dump_size_add(struct stack_dump_size *l, uint32_t rung, uint32_t size, bool idle)
{
	l->crooked |= (l->size[rung] && l->size[rung] != size) || (!idle && l->at && l->at != rung);
	l->size[rung] = size;
	if (!idle)
		l->at = rung;
	if (rung > l->top)
		l->top = rung;
}

void stack_dump_size_limit(struct stack_dump_size *l, size_t ring)
{
	while (l->top > 1 && l->size[l->top - 1] && l->size[l->top] > ring / RING_SNAPSHOTS)
		l->top--;
}

void stack_dump_size_saw(struct stack_dump_size *l, uint32_t rung, bool cut, size_t reach)
{
	if (rung != l->at)
		return;
	l->batch++;
	l->batch_cut += cut;
	l->stacks++;
	l->deep += rung > 1 && (cut || reach > l->size[rung - 1]);
}

static bool wants_up(struct stack_dump_size *l)
{
	bool cut = l->batch >= CUT_MIN && l->batch_cut > 1 && l->batch_cut > l->batch / CUT_ONE_IN;
	if (l->batch >= BATCH)
		l->batch = l->batch_cut = 0;
	return cut && l->at < l->top && l->size[l->at + 1];
}

/* The time begins again after every round that rules out a smaller size. */
static bool wants_down(struct stack_dump_size *l, int64_t now)
{
	if (!l->since)
		l->since = now;
	uint32_t few = l->stacks / DEEP_ONE_IN;
	bool enough = l->stacks >= SMALL_MIN && now - l->since >= SMALL_NS;
	if (l->deep <= few + 1 && !enough && (l->rose || l->stacks < SMALL_MANY))
		return false;
	bool fits = l->deep <= few;
	l->stacks = l->deep = 0;
	l->since = now;
	return fits && l->at > 1 && l->size[l->at - 1];
}

uint32_t stack_dump_size_look(struct stack_dump_size *l, int64_t now)
{
	if (!l->at || l->crooked)
		return l->at;
	if (l->at > l->top)
		return l->top;
	if (wants_up(l))
		return l->at + 1;
	return wants_down(l, now) ? l->at - 1 : l->at;
}

void stack_dump_size_moved(struct stack_dump_size *l, uint32_t to)
{
	l->rose |= to > l->at;
	l->at = to;
	l->batch = l->batch_cut = l->stacks = l->deep = 0;
	l->since = 0;
}

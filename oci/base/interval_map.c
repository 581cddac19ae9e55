/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/interval_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 64
#define SCRATCH_KEPT 4096 /* more is given back at once */

static uint64_t last_of(const struct interval *i)
{
	return i->start + (i->size - 1);
}

/* Cuts the part of `i` before `start`, which lies in it. */
static void cut_front(struct interval *i, uint64_t start)
{
	i->size -= (uint32_t)(start - i->start);
	i->start = start;
}

/* --- memory */

/* Makes room for `need` pieces in *array, within `limit` bytes for it alone; a quarter more if that fits. */
static int reserve_intervals(struct interval **array, size_t *room, size_t need, size_t limit)
{
	size_t most = limit / sizeof(**array), want = need + need / 4 + ROOM_FIRST;
	if (need <= *room)
		return 0;
	if (need > most)
		return -ENOSPC;
	if (want > most)
		want = most;
	struct interval *bigger = reallocarray(*array, want, sizeof(*bigger));
	if (!bigger)
		return -ENOMEM;
	*array = bigger;
	*room = want;
	return 0;
}

static size_t subtract_other_room(size_t limit, size_t other_room)
{
	size_t held = other_room * sizeof(struct interval);
	return limit > held ? limit - held : 0;
}

size_t interval_map_memory(const struct interval_map *t)
{
	return (t->room + t->scratch_room) * sizeof(*t->pieces);
}

void interval_map_done(struct interval_map *t)
{
	free(t->pieces);
	free(t->scratch);
	*t = (struct interval_map){0};
}

/* --- laying runs over each other */

/* Merges the parts of `old` that `new` does not cover, and all of `new`, by address: at most n_old + 2 n_new pieces. */
static size_t overlay_intervals(
	struct interval *old, size_t n_old, const struct interval *new, size_t n_new, struct interval *ret)
{
	size_t i = 0, n = 0;
	for (size_t k = 0; k < n_new; k++) {
		const struct interval *over = &new[k];
		for (; i < n_old && last_of(&old[i]) < over->start; i++)
			ret[n++] = old[i];
		if (i < n_old && old[i].start < over->start) {
			ret[n] = old[i];
			ret[n++].size = (uint32_t)(over->start - old[i].start);
			cut_front(&old[i], over->start);
		}
		while (i < n_old && last_of(&old[i]) <= last_of(over))
			i++;
		if (i < n_old && old[i].start <= last_of(over))
			cut_front(&old[i], last_of(over) + 1);
		ret[n++] = *over;
	}
	for (; i < n_old; i++)
		ret[n++] = old[i];
	return n;
}

/* The last two runs become one. */
static int merge_last(struct interval_map *t, size_t limit)
{
	size_t old = t->runs[t->n_runs - 2].first, new = t->runs[t->n_runs - 1].first;
	size_t n_old = new - old, n_new = t->count - new;
	int r = reserve_intervals(
		&t->pieces, &t->room, old + n_old + 2 * n_new, subtract_other_room(limit, t->scratch_room));
	if (r == 0)
		r = reserve_intervals(
			&t->scratch, &t->scratch_room, n_old + n_new, subtract_other_room(limit, t->room));
	if (r < 0)
		return r;
	memcpy(t->scratch, t->pieces + old, (n_old + n_new) * sizeof(*t->scratch));
	t->count = old + overlay_intervals(t->scratch, n_old, t->scratch + n_old, n_new, t->pieces + old);
	t->runs[t->n_runs - 2].weight += t->runs[t->n_runs - 1].weight;
	t->n_runs--;
	if (t->scratch_room > SCRATCH_KEPT) {
		free(t->scratch);
		t->scratch = NULL;
		t->scratch_room = 0;
	}
	return 0;
}

int interval_map_add(struct interval_map *t, uint64_t start, uint64_t size, uint32_t value, size_t limit)
{
	if (!size)
		return 0;
	if (size - 1 > UINT64_MAX - start)
		size = UINT64_MAX - start + 1;
	if (size > UINT32_MAX)
		size = UINT32_MAX;
	if (t->n_runs == INTERVAL_MAP_RUNS)
		return -ENOSPC;
	int r = reserve_intervals(&t->pieces, &t->room, t->count + 1, subtract_other_room(limit, t->scratch_room));
	if (r < 0)
		return r;
	t->runs[t->n_runs].first = t->count;
	t->runs[t->n_runs++].weight = 1;
	t->pieces[t->count++] = (struct interval){start, (uint32_t)size, value};
	/* runs that are not merged for want of memory are still right, only slower to search */
	while (t->n_runs > 1 && t->runs[t->n_runs - 2].weight <= t->runs[t->n_runs - 1].weight)
		if (merge_last(t, limit) < 0)
			break;
	return 0;
}

/* --- searching */

static const struct interval *find_interval(const struct interval *run, size_t n, uint64_t address)
{
	size_t low = 0, high = n; /* run[0..low) begins at or before address */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (run[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	return low && last_of(&run[low - 1]) >= address ? &run[low - 1] : NULL;
}

bool interval_map_find(const struct interval_map *t, uint64_t address, uint32_t *ret_value)
{
	size_t end = t->count;
	for (unsigned i = t->n_runs; i > 0; i--) {
		size_t first = t->runs[i - 1].first;
		const struct interval *found = find_interval(t->pieces + first, end - first, address);
		if (found) {
			*ret_value = found->value;
			return true;
		}
		end = first;
	}
	return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/label_history.h"

#include "oci/base/array.h"
#include "oci/base/fd.h"
#include "shim/libpillion/abi/label_text.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE 8
#define AT_ONCE 512

struct label_history_line {
	uint32_t n, room;
	struct moment {
		uint64_t time;
		uint32_t set;
	} * at; /* in the order of their time */
};

static int read_at(int memory, void *buf, size_t size, uint64_t at)
{
	const ssize_t n = fd_pread_all(memory, buf, size, (off_t)at);
	return n < 0 ? (int)n : (size_t)n == size ? 0 : -EPROTO;
}

static void reset_label_history(struct label_history *l)
{
	for (size_t i = 0; i < l->tids.count; i++)
		free(l->lines[i].at);
	free(l->lines);
	pair_table_done(&l->tids);
	l->lines = NULL;
	l->room = 0;
}

void label_history_done(struct label_history *l)
{
	reset_label_history(l);
	for (size_t i = 0; i < SHM_SETS; i++)
		free(l->sets[i]);
	memset(l, 0, sizeof(*l));
}

/* NULL: no memory. */
static struct label_history_line *line_of(struct label_history *l, uint32_t tid)
{
	const size_t had = l->room;
	if (array_reserve(&l->lines, &l->room, l->tids.count + 1, sizeof(*l->lines), 16) < 0)
		return NULL;
	memset(l->lines + had, 0, (l->room - had) * sizeof(*l->lines));
	const int64_t id = pair_table_add(&l->tids, tid, 0);
	return id < 0 ? NULL : &l->lines[id];
}

/* Returns how many changes there are until `time`. */
static uint32_t count_changes(const struct label_history_line *line, uint64_t time)
{
	uint32_t low = 0, high = line->n;
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;
		if (line->at[middle].time <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Keeps only the last moment of those before `settled`. */
static void remove_old_moments(struct label_history_line *line, uint64_t settled)
{
	const uint32_t n = count_changes(line, settled), old = n ? n - 1 : 0;
	memmove(line->at, line->at + old, (line->n - old) * sizeof(line->at[0]));
	line->n -= old;
}

static void add_label_change(struct label_history *l, uint32_t tid, uint64_t time, uint32_t set, uint64_t settled)
{
	struct label_history_line *line = line_of(l, tid);
	if (!line)
		return;
	if (line->n && line->n == line->room)
		remove_old_moments(line, settled);
	if (line->n == line->room) {
		const uint32_t more = line->room ? 2 * line->room : 2;
		struct moment *at = realloc(line->at, more * sizeof(*at));
		if (!at)
			return;
		line->at = at;
		line->room = more;
	}
	const uint64_t last = line->n ? line->at[line->n - 1].time : 0;
	line->at[line->n++] = (struct moment){time > last ? time : last, set};
}

/* Returns how many were taken; fewer than n: the next one is not written yet. */
static size_t process_label_changes(
	struct label_history *l, const struct shm_change *c, size_t n, const struct label_history_limits *of)
{
	for (size_t i = 0; i < n; i++) {
		const bool there = c[i].number == l->next + 1;
		if (!there && ++l->patience < PATIENCE)
			return i;
		l->patience = 0;
		l->next++;
		l->lost += !there;
		if (l->tids.count >= of->threads)
			reset_label_history(l);
		if (there)
			add_label_change(l, c[i].tid, c[i].time < of->now ? c[i].time : of->now, c[i].set, of->settled);
	}
	return n;
}

/* Skips to change `to`: the labels up to there are unknown. */
static void skip_label_changes(struct label_history *l, uint64_t to)
{
	if (l->next) {
		reset_label_history(l);
		l->lost += to - l->next; /* changes from before the first read are no loss */
	}
	l->next = to;
}

int label_history_read(struct label_history *l, int memory, struct label_history_limits *limits)
{
	struct shm_change some[AT_ONCE];
	uint64_t tail;
	int r = read_at(memory, &tail, sizeof(tail), offsetof(struct shm_head, changes));
	if (r < 0 || tail == l->next)
		return r;
	if (tail - l->next > SHM_CHANGES)
		skip_label_changes(l, tail - SHM_CHANGES);
	if (tail - l->next > limits->changes)
		skip_label_changes(l, tail);
	limits->changes -= tail - l->next;
	while (r == 0 && l->next != tail) {
		const uint64_t place = l->next % SHM_CHANGES, left = tail - l->next;
		uint64_t n = left < AT_ONCE ? left : AT_ONCE;
		n = n < SHM_CHANGES - place ? n : SHM_CHANGES - place;
		r = read_at(memory, some, n * sizeof(some[0]), SHM_CHANGES_AT + place * sizeof(some[0]));
		if (r == 0 && process_label_changes(l, some, n, limits) < n)
			break;
	}
	return r;
}

/* A set that is too large, or no text, counts as none. */
static char *read_set(int memory, uint64_t set)
{
	struct shm_set s;
	const size_t most = sizeof(s.text) < LABEL_TEXT_MAX ? sizeof(s.text) : LABEL_TEXT_MAX;
	if (read_at(memory, &s, sizeof(s), SHM_SETS_AT + set * sizeof(s)) < 0 || !s.size)
		return NULL;
	const bool good = s.size <= most && label_is_set(s.text, s.size);
	return strndup(s.text, good ? s.size : 0);
}

const char *label_history_of(struct label_history *l, int memory, uint64_t set)
{
	if (!set || set > SHM_SETS)
		return "";
	char **text = &l->sets[set - 1];
	*text = *text ? *text : read_set(memory, set - 1);
	return *text ? *text : "";
}

const char *label_history_at(struct label_history *l, int memory, uint32_t tid, uint64_t time)
{
	const int64_t id = l->tids.count ? pair_table_find(&l->tids, tid, 0) : -ENOENT;
	const struct label_history_line *line = id < 0 ? NULL : &l->lines[id];
	const uint32_t n = line ? count_changes(line, time) : 0;
	return n ? label_history_of(l, memory, line->at[n - 1].set) : "";
}

void label_history_ended(struct label_history *l, uint32_t tid, uint64_t time)
{
	if (l->tids.count && pair_table_find(&l->tids, tid, 0) >= 0)
		add_label_change(l, tid, time, 0, 0);
}

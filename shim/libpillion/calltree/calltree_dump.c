/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/calltree/calltree_dump.h"

#include "shim/libpillion/calltree/calltree.h"
#include "shim/libpillion/calltree/calltree_unloaded.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/text_writer.h"
#include "shim/libpillion/maps/maps_format.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_SIZE 4096

/* --- nodes --------------------------------------------------------------------------------------------- */

static uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* Nanoseconds of a tick, from two moments */
static double tick_of(const struct tree_header *h)
{
	if (h->clock != TREE_CLOCK_TSC && !(h->clock == TREE_CLOCK_NONE && calltree_clock_best() == TREE_CLOCK_TSC))
		return 1;
	uint64_t tsc = ticks_read() - h->tsc, ns = sys_clock_ns(CLOCK_MONOTONIC) - h->monotonic_ns;
	return tsc ? (double)ns / (double)tsc : 0;
}

static void put_node(
	struct text_writer *o, const struct tree_header *h, const struct tree_node *n, uint64_t fn, double tick)
{
	const struct tree_node *first = (const struct tree_node *)h, *parent = first + n->parent;
	uint64_t decimals[] = {(uint64_t)(n - first), parent->fn == TREE_FN_ROOT ? 0 : n->parent};
	text_put(o, "node ");
	for (int i = 0; i < 2; i++) {
		text_put_decimal(o, decimals[i]);
		text_put(o, " ");
	}
	if (fn == TREE_FN_FULL)
		text_put(o, "full");
	else
		text_put_hex(o, fn, 1);
	text_put(o, " ");
	text_put_hex(o, load_word(&n->site), 1);
	text_put(o, " ");
	text_put_decimal(o, load_word(&n->calls));
	text_put(o, " ");
	text_put_decimal(o, (uint64_t)((double)load_word(&n->ticks) * tick));
	text_put(o, " ");
	text_put_decimal(o, __atomic_load_n(&n->gone, __ATOMIC_RELAXED));
	text_put(o, "\n");
}

/* Returns the number of nodes */
static uint64_t put_nodes(struct text_writer *o, const struct tree_header *h)
{
	double tick = h->tsc ? tick_of(h) : 0;
	uint32_t chunks = __atomic_load_n(&h->chunks, __ATOMIC_ACQUIRE);
	uint64_t count = 0;
	for (uint32_t c = 1; c < chunks && (uint64_t)(c + 1) * TREE_CHUNK <= h->size; c++) {
		const struct tree_chunk *chunk = (const struct tree_chunk *)((const char *)h + (size_t)c * TREE_CHUNK);
		uint32_t used = __atomic_load_n(&chunk->used, __ATOMIC_ACQUIRE);
		for (uint32_t i = 1; i < used && i < TREE_PER_CHUNK; i++) {
			const struct tree_node *n = (const struct tree_node *)chunk + i;
			uint64_t fn = __atomic_load_n(&n->fn, __ATOMIC_ACQUIRE);
			if (!fn || fn == TREE_FN_ROOT || (fn == TREE_FN_FULL && !load_word(&n->calls)))
				continue;
			put_node(o, h, n, fn, tick);
			count++;
		}
	}
	return count;
}

static void put_all(struct text_writer *o, const struct tree_header *h)
{
	static const char *const clocks[] = {"none", "tsc", "kernel"};
	text_put(o, "pillion-tree 1\npid ");
	text_put_decimal(o, h->pid);
	text_put(o, "\nclock ");
	text_put(o, clocks[h->tsc == 0		       ? TREE_CLOCK_NONE
			    : h->clock < 3 && h->clock ? h->clock
						       : calltree_clock_best()]);
	text_put(o, "\nunplaced ");
	text_put_decimal(o, load_word(&h->unplaced));
	text_put(o, "\n");
	maps_format_put(o);
	calltree_unloaded_put(o);
	uint64_t n = put_nodes(o, h);
	text_put(o, "end ");
	text_put_decimal(o, n);
	text_put(o, "\n");
}

/* --- the file ------------------------------------------------------------------------------------------ */

/* Whether nothing was counted: no node has a call */
static bool is_empty(const struct tree_header *h)
{
	uint32_t chunks = __atomic_load_n(&h->chunks, __ATOMIC_ACQUIRE);
	for (uint32_t c = 1; c < chunks && (uint64_t)(c + 1) * TREE_CHUNK <= h->size; c++) {
		const struct tree_chunk *chunk = (const struct tree_chunk *)((const char *)h + (size_t)c * TREE_CHUNK);
		const struct tree_node *n = (const struct tree_node *)chunk + 1;
		for (uint32_t i = 1; !chunk->text && i < TREE_PER_CHUNK; i++, n++)
			if (load_word(&n->calls))
				return false;
	}
	return load_word(&h->unplaced) == 0;
}

static int write_file(const char *temporary, const struct tree_header *h)
{
	struct text_writer o = {0};
	sys_call(unlink, temporary);
	long fd = sys_call(open, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return (int)fd;
	o.fd = (int)fd;
	put_all(&o, h);
	text_flush(&o);
	sys_call(close, fd);
	return o.error;
}

int tree_dump(const char *path)
{
	struct stat st;
	struct tree_header *h = arena_header();
	char temporary[PATH_SIZE];
	size_t n = strlen(path);
	if (!h || is_empty(h))
		return -ENODATA;
	if (n > sizeof(temporary) - 48)
		return -ENAMETOOLONG;
	if (sys_call(lstat, path, &st) == 0 && !S_ISREG(st.st_mode))
		return -EINVAL;
	memcpy(temporary, path, n);
	memcpy(temporary + n, ".writing.", 9);
	n = text_decimal(temporary, n + 9, (uint64_t)sys_call(gettid));
	temporary[n] = 0;
	int r = write_file(temporary, h);
	if (r == 0)
		r = (int)sys_call(rename, temporary, path);
	if (r < 0)
		sys_call(unlink, temporary);
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/calltree/calltree_unloaded.h"

#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/maps/maps_format.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define LISTED (1u << 20)     /* bytes of two lists of mappings each */
#define PROC_MAPS_COPY_MAX 64 /* mappings that one dlclose unmaps; further ones stay unmarked */

struct lists {
	bool whole; /* all mappings fit: one that does not fit is not gone */
	char before[LISTED], after[LISTED];
};

static bool list_mappings(char *memory)
{
	struct text_writer o = {.memory = memory, .size = LISTED};
	maps_format_put(&o);
	return !o.error;
}

void *calltree_unloaded_before(void)
{
	struct tree_header *h = arena_header();
	if (!h || __atomic_load_n(&h->chunks, __ATOMIC_RELAXED) < 2)
		return NULL;
	long at = sys_call(mmap, 0, sizeof(struct lists), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at < 0 && at > -4096)
		return NULL;
	struct lists *l = (struct lists *)at;
	l->whole = list_mappings(l->before);
	return l;
}

static bool lies_in(uint64_t address, uint64_t start, uint64_t end)
{
	return address >= start && address < end;
}

static void mark_node(struct tree_node *n, uint64_t start, uint64_t end, uint32_t number)
{
	uint64_t fn = __atomic_load_n(&n->fn, __ATOMIC_ACQUIRE), site = n->site;
	if (!lies_in(fn, start, end) && !lies_in(site, start, end))
		return;
	__atomic_store_n(&n->gone, number, __ATOMIC_RELAXED);
	if (lies_in(site, start, end))
		__atomic_store_n(&n->site, site | TREE_FN_GONE, __ATOMIC_RELAXED);
	if (lies_in(fn, start, end))
		__atomic_store_n(&n->fn, fn | TREE_FN_GONE, __ATOMIC_RELEASE);
}

static void mark_nodes(struct tree_header *h, uint64_t start, uint64_t end, uint32_t number)
{
	uint32_t chunks = __atomic_load_n(&h->chunks, __ATOMIC_ACQUIRE);
	for (uint32_t c = 1; c < chunks && (uint64_t)(c + 1) * TREE_CHUNK <= h->size; c++) {
		struct tree_chunk *chunk = (struct tree_chunk *)((char *)h + (size_t)c * TREE_CHUNK);
		struct tree_node *n = (struct tree_node *)chunk + 1;
		for (uint32_t i = 1; !chunk->text && i < TREE_PER_CHUNK; i++, n++)
			mark_node(n, start, end, number);
	}
}

/* An unmapped mapping: its line, up to where the next one begins */
static void record_unmapped(struct tree_header *h, const char *line, size_t n)
{
	const char *dash = strchr(line, '-');
	struct tree_chunk *c = dash && n < TREE_TEXT_MAX ? arena_chunk() : NULL;
	if (!c)
		return;
	c->text = 1;
	memcpy(c + 1, line, n);
	mark_nodes(h, text_hex(line), text_hex(dash + 1), (uint32_t)(((char *)c - (char *)h) / TREE_CHUNK));
}

static const char *next_map(const char *at)
{
	while ((at = strchr(at, '\n')) && strncmp(at, "\nmap ", 5) != 0)
		at++;
	return at ? at + 1 : NULL;
}

static bool has_map_line(const char *text, const char *line, size_t n)
{
	for (; text; text = next_map(text))
		if (!strncmp(text, line, n))
			return true;
	return false;
}

void calltree_unloaded_after(void *before)
{
	struct lists *l = before;
	struct tree_header *h = l && l->whole && list_mappings(l->after) ? arena_header() : NULL;
	int left = PROC_MAPS_COPY_MAX;
	for (const char *at = h ? l->before : NULL, *next; at && *at && left; at = next) {
		next = next_map(at);
		size_t n = next ? (size_t)(next - at) : strlen(at);
		if (has_map_line(l->after, at, (size_t)(strchr(at, '\n') - at)))
			continue;
		record_unmapped(h, at + 4, n - 4);
		left--;
	}
	if (l)
		sys_call(munmap, l, sizeof(*l));
}

void calltree_unloaded_put(struct text_writer *o)
{
	const struct tree_header *h = arena_header();
	const uint32_t chunks = __atomic_load_n(&h->chunks, __ATOMIC_ACQUIRE);
	for (uint32_t i = 1; i < chunks && (uint64_t)(i + 1) * TREE_CHUNK <= h->size; i++) {
		const struct tree_chunk *c = (const struct tree_chunk *)((const char *)h + (size_t)i * TREE_CHUNK);
		if (!c->text)
			continue;
		text_put(o, "gone ");
		text_put_decimal(o, i);
		text_put(o, " ");
		text_put(o, (const char *)(c + 1));
	}
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/calltree_reader.h"

#include "oci/base/array.h"
#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define SIZE_MAX_OF (64u << 20)
#define BATCH 16 /* chunks of a read */
#define NODES_MAX (SIZE_MAX_OF / sizeof(struct tree_node))
#define HZ_LEAST 1e8 /* of a CPU's clock */
#define HZ_MOST 1e11

struct calltree_reader_node {
	uint64_t calls, ticks;
	bool unsaved;
};

/* --- the memory -------------------------------------------------------------------------------------------- */

static int read_at(const struct calltree_reader *c, void *buf, size_t size, uint64_t at)
{
	const ssize_t n = fd_pread_all(c->memory, buf, size, (off_t)at);
	return n < 0 ? (int)n : (size_t)n == size ? 0 : -EPROTO;
}

static bool is_region(int memory, uint64_t *ret_size)
{
	struct stat st;
	if (!fd_is_sealed(memory, SEALS) || fstat(memory, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*ret_size = (uint64_t)st.st_size;
	return st.st_size >= TREE_CHUNK && st.st_size <= (off_t)SIZE_MAX_OF && st.st_size % TREE_CHUNK == 0 &&
	       st.st_blksize <= TREE_CHUNK; /* huge pages have large blocks */
}

static int read_header(const struct calltree_reader *c, struct tree_header *ret)
{
	int r = read_at(c, ret, sizeof(*ret), 0);
	if (r == 0 && (memcmp(ret->magic, TREE_MAGIC, sizeof(ret->magic)) != 0 || ret->version != TREE_VERSION ||
			      ret->header_size != sizeof(*ret) || ret->node_size != sizeof(struct tree_node) ||
			      ret->chunk_size != TREE_CHUNK))
		r = -EPROTO;
	return r;
}

int calltree_reader_open(struct calltree_reader *c, int memory)
{
	struct tree_header h;
	calltree_reader_close(c);
	c->memory = memory;
	int r = is_region(memory, &c->size) ? read_header(c, &h) : -EPROTO;
	if (r < 0)
		calltree_reader_close(c);
	c->cookie = r < 0 ? 0 : h.cookie;
	c->pid = r < 0 ? 0 : h.pid;
	c->born = r < 0 ? 0 : (int64_t)h.born;
	return r;
}

static void free_nodes(struct calltree_reader *c)
{
	if (c->account)
		*c->account -= c->n;
	free(c->nodes);
	c->nodes = NULL;
	c->n = 0;
}

void calltree_reader_close(struct calltree_reader *c)
{
	c->memory = fd_close(c->memory);
}

void calltree_reader_done(struct calltree_reader *c)
{
	calltree_reader_close(c);
	free_nodes(c);
	*c = (struct calltree_reader)CALLTREE_READER_NONE;
}

void calltree_reader_take(struct calltree_reader *c, struct calltree_reader *from)
{
	free_nodes(c);
	if (c->memory < 0) {
		*c = *from;
		from->memory = -1;
	}
	c->nodes = from->nodes;
	c->n = from->n;
	c->unplaced = from->unplaced;
	c->changed = c->anew = true;
	from->nodes = NULL;
	from->n = 0;
}

static bool make_room(struct calltree_reader *c, size_t n)
{
	if (n <= c->n)
		return true;
	if (c->account && *c->account + n - c->n > CALLTREE_READER_NODES_MAX)
		return false;
	/* an unused page of a memfd takes no memory; nor does a page of this array that is never written */
	struct calltree_reader_node *more = n > NODES_MAX ? NULL : calloc(n, sizeof(*more));
	if (!more)
		return false;
	if (c->n)
		memcpy(more, c->nodes, c->n * sizeof(*more));
	if (c->account)
		*c->account += n - c->n;
	free(c->nodes);
	c->nodes = more;
	c->n = n;
	return true;
}

/* --- a look ------------------------------------------------------------------------------------------------ */

struct gone {
	uint32_t number;
	uint64_t start, end;
	char text[TREE_TEXT_MAX];
};

struct look {
	struct calltree_reader *c;
	double tick; /* ns */
	struct seen {
		uint64_t fn;
		uint32_t parent, gone;
	} * seen; /* by number */
	size_t n;
	struct gone *gone; /* in the order of their numbers */
	size_t n_gone, gone_room;
	struct calltree_reader_fn *path;
	size_t max;
	calltree_reader_grown_fn *fn;
	void *arg;
	int grown;
};

/* Computes ns of a tick from two moments: the one in the header, and now. */
static double tick_of(const struct tree_header *h)
{
	if (h->clock != TREE_CLOCK_TSC || !h->tsc)
		return 1;
	const double ticks = (double)(ticks_read() - h->tsc), ns = (double)((uint64_t)clock_now() - h->monotonic_ns);
	const double hz = ns > 0 ? ticks * 1e9 / ns : 0;
	return hz >= HZ_LEAST && hz <= HZ_MOST ? 1e9 / hz : 0;
}

static void add_gone(struct look *l, uint32_t number, const char *text)
{
	struct gone g = {.number = number};
	char *end;
	if (!memchr(text, 0, TREE_TEXT_MAX))
		return;
	memcpy(g.text, text, strlen(text));
	g.start = strtoull(g.text, &end, 16);
	if (*end != '-')
		return;
	g.end = strtoull(end + 1, NULL, 16);
	if (l->n_gone == CALLTREE_READER_GONE_MAX) {
		memmove(l->gone, l->gone + 1, --l->n_gone * sizeof(g));
	} else if (array_reserve(&l->gone, &l->gone_room, l->n_gone + 1, sizeof(g), 4) < 0) {
		return;
	}
	l->gone[l->n_gone++] = g;
}

/* Returns the maps line of the module that had the address when the node was marked. */
static const char *find_gone(const struct look *l, uint64_t address, uint32_t number)
{
	for (size_t i = l->n_gone; i-- > 0;)
		if (l->gone[i].number <= number && address >= l->gone[i].start && address < l->gone[i].end)
			return l->gone[i].text;
	return "";
}

static size_t path_of(const struct look *l, uint32_t number)
{
	size_t n = 0;
	for (uint32_t at = number; at && n < l->max; at = l->seen[at].parent) {
		const struct seen *s = &l->seen[at];
		if (!s->fn || s->fn == TREE_FN_ROOT)
			break;
		const uint64_t fn = s->fn & ~TREE_FN_GONE;
		l->path[n++] = (struct calltree_reader_fn){fn, s->fn & TREE_FN_GONE ? find_gone(l, fn, s->gone) : NULL};
	}
	return n;
}

static uint64_t advance_counter(uint64_t now, uint64_t *was)
{
	const uint64_t by = now > *was ? now - *was : 0;
	*was = now > *was ? now : *was;
	return by < CALLTREE_READER_MOST ? by : CALLTREE_READER_MOST;
}

static void look_at_node(struct look *l, uint32_t number, const struct tree_node *n)
{
	struct calltree_reader_node *known = &l->c->nodes[number];
	/* no function: a signal handler began the node and never came back; a parent must have been read before */
	l->seen[number] = (struct seen){n->fn, n->parent < number ? n->parent : 0, n->gone};
	if (!n->fn || n->fn == TREE_FN_ROOT)
		return;
	const uint64_t calls = advance_counter(n->calls, &known->calls),
		       ticks = advance_counter(n->ticks, &known->ticks);
	if (!calls && !ticks)
		return;
	const double ns = (double)ticks * l->tick;
	known->unsaved = l->c->changed = true;
	l->grown++;
	l->fn(l->arg, l->path, path_of(l, number), calls,
		ns < (double)CALLTREE_READER_MOST ? (uint64_t)ns : CALLTREE_READER_MOST);
}

static void look_at_chunk(struct look *l, uint32_t chunk, const uint8_t *bytes)
{
	struct tree_chunk head;
	memcpy(&head, bytes, sizeof(head));
	for (uint32_t i = 1; !head.text && i < head.used && i < TREE_PER_CHUNK; i++) {
		struct tree_node n;
		memcpy(&n, bytes + i * sizeof(n), sizeof(n));
		look_at_node(l, chunk * (uint32_t)TREE_PER_CHUNK + i, &n);
	}
}

/* Counts calls of threads for which there was no room. */
static void look_at_unplaced(struct look *l, uint64_t unplaced)
{
	const struct calltree_reader_fn full = {TREE_FN_FULL, NULL};
	const uint64_t calls = advance_counter(unplaced, &l->c->unplaced);
	if (!calls)
		return;
	l->c->changed = true;
	l->grown++;
	l->fn(l->arg, &full, 1, calls, 0);
}

/* Reads the texts first: the nodes of a module may lie before its text. */
static int find_all_gone(struct look *l, uint32_t n)
{
	union {
		struct tree_chunk head;
		char bytes[TREE_CHUNK];
	} chunk;
	int r = 0;
	for (uint32_t i = 1; i < n && r == 0; i++) {
		const uint64_t at = (uint64_t)i * TREE_CHUNK;
		r = read_at(l->c, &chunk, sizeof(chunk.head), at);
		if (r < 0 || !chunk.head.text)
			continue;
		r = read_at(l->c, &chunk, sizeof(chunk), at);
		if (r == 0)
			add_gone(l, i, chunk.bytes + sizeof(chunk.head));
	}
	return r;
}

static int read_tree(struct look *l, const struct tree_header *h)
{
	static uint8_t bytes[BATCH * TREE_CHUNK];
	const uint32_t n = (uint32_t)(l->n / TREE_PER_CHUNK);
	int r = find_all_gone(l, n);
	for (uint32_t at = 1; at < n && r == 0; at += BATCH) {
		const uint32_t some = n - at < BATCH ? n - at : BATCH;
		r = read_at(l->c, bytes, some * TREE_CHUNK, (uint64_t)at * TREE_CHUNK);
		for (uint32_t i = 0; i < some && r == 0; i++)
			look_at_chunk(l, at + i, bytes + i * TREE_CHUNK);
	}
	if (r == 0)
		look_at_unplaced(l, h->unplaced);
	return r;
}

int calltree_reader_look(struct calltree_reader *c, size_t max, calltree_reader_grown_fn *fn, void *arg)
{
	struct tree_header h;
	int r = c->memory < 0 ? -EBADF : read_header(c, &h);
	if (r < 0)
		return r;
	const uint64_t all = c->size / TREE_CHUNK, chunks = h.chunks < all ? h.chunks : all;
	struct look l = {.c = c, .tick = tick_of(&h), .n = chunks * TREE_PER_CHUNK, .max = max, .fn = fn, .arg = arg};
	l.seen = calloc(l.n + 1, sizeof(*l.seen));
	l.path = calloc(max + 1, sizeof(*l.path));
	r = l.seen && l.path && make_room(c, l.n) ? read_tree(&l, &h) : -ENOMEM;
	free(l.seen);
	free(l.path);
	free(l.gone);
	return r < 0 ? r : l.grown;
}

static void ignore_call_path(void *arg, const struct calltree_reader_fn *path, size_t n, uint64_t calls, uint64_t ns) {}

int calltree_reader_skip(struct calltree_reader *c)
{
	return calltree_reader_look(c, 0, ignore_call_path, NULL);
}

/* --- for a journal ----------------------------------------------------------------------------------------- */

bool calltree_reader_unsaved(const struct calltree_reader *c)
{
	return c->changed || c->anew;
}

void calltree_reader_save(struct calltree_reader *c, struct journal *j)
{
	size_t n = 0, last = 0;
	for (size_t i = 0; i < c->n; i++) {
		c->nodes[i].unsaved |= c->anew && (c->nodes[i].calls || c->nodes[i].ticks);
		n += c->nodes[i].unsaved;
	}
	journal_number(j, c->unplaced);
	journal_number(j, n);
	for (size_t i = 0; i < c->n; i++) {
		struct calltree_reader_node *node = &c->nodes[i];
		if (!node->unsaved)
			continue;
		journal_number(j, i - last);
		journal_number(j, node->calls);
		journal_number(j, node->ticks);
		node->unsaved = false;
		last = i;
	}
	c->anew = c->changed = false;
}

void calltree_reader_load(struct calltree_reader *c, struct journal_reader *s)
{
	const uint64_t unplaced = saved_number(s);
	const size_t n = saved_count(s, 3);
	uint64_t at = 0;
	if (!s->bad)
		c->unplaced = unplaced;
	for (size_t i = 0; i < n && !s->bad; i++) {
		at += saved_below(s, NODES_MAX);
		const uint64_t calls = saved_number(s), ticks = saved_number(s);
		const size_t room = at < c->n ? c->n : (size_t)at + 1 + c->n / 2;
		s->bad |= at >= NODES_MAX || !make_room(c, room < NODES_MAX ? room : NODES_MAX);
		if (!s->bad)
			c->nodes[at] = (struct calltree_reader_node){calls, ticks, false};
	}
}

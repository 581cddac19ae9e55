/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/calltree/calltree_stacks.h"
#include "shim/libpillion/core/arena.h"
#include "shim/libpillion/core/syscall.h"

#include <errno.h>

#define TABLE_FIRST 64u /* slots */
#define LOOKED_AT 8	/* trees, in search of one of an ended thread */

struct tree_switch calltree_switch;
struct tree_frame calltree_nowhere;
__thread struct tree_thread_own calltree_own = {.top = &calltree_nowhere};
static const struct calltree_observer *observer;

/*
 * Edges, open addressing: the number of the caller's node in the upper half, the callee's in the lower; 0 is a free
 * slot.
 */
struct calltree_table {
	uint32_t count, mask;
	uint64_t slots[];
};

static struct tree_node *node_of(uint32_t number)
{
	return (struct tree_node *)calltree_switch.base + number;
}

static uint32_t number_of(const struct tree_node *n)
{
	return (uint32_t)(n - (struct tree_node *)calltree_switch.base);
}

/* --- edges --------------------------------------------------------------------------------------------- */

static uint32_t hash_edge(uint32_t parent, uint64_t fn, uint64_t site)
{
	uint64_t h = (fn ^ (site << 21 | site >> 43) ^ (uint64_t)parent << 7) * 0x9e3779b97f4a7c15u;
	return (uint32_t)(h >> 32 ^ h >> 15);
}

static struct calltree_table *table_make(uint32_t slots)
{
	struct calltree_table *t = arena_take(sizeof(*t) + slots * sizeof(t->slots[0]), sizeof(t->slots[0]));
	if (t)
		t->mask = slots - 1;
	return t;
}

static struct tree_node *table_find(const struct calltree_table *t, uint32_t parent, uint64_t fn, uint64_t site)
{
	for (uint32_t i = hash_edge(parent, fn, site), n = 0; n <= t->mask; i++, n++) {
		uint64_t slot = t->slots[i & t->mask];
		if (!slot)
			break;
		struct tree_node *c = node_of((uint32_t)slot);
		if (slot >> 32 == parent && c->fn == fn && c->site == site)
			return c;
	}
	return NULL;
}

/* A handler in between may take the slot, or put the same edge, which then is there twice: both count. */
static void table_put(struct calltree_table *t, uint32_t parent, const struct tree_node *c)
{
	uint64_t value = (uint64_t)parent << 32 | number_of(c);
	for (uint32_t i = hash_edge(parent, c->fn, c->site), n = 0; n <= t->mask; i++, n++) {
		uint64_t none = 0;
		if (__atomic_compare_exchange_n(
			    &t->slots[i & t->mask], &none, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_fetch_add(&t->count, 1, __ATOMIC_RELAXED);
			return;
		}
	}
}

/* Doubles the table; if a handler was faster, its table stays. The old one is not freed. */
static void table_grow(struct tree_thread *t)
{
	struct calltree_table *old = t->table, *fresh = table_make((old->mask + 1) * 2);
	if (!fresh)
		return;
	for (uint32_t i = 0; i <= old->mask; i++)
		if (old->slots[i])
			table_put(fresh, (uint32_t)(old->slots[i] >> 32), node_of((uint32_t)old->slots[i]));
	if (old->count == fresh->count)
		__atomic_compare_exchange_n(&t->table, &old, fresh, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* --- nodes --------------------------------------------------------------------------------------------- */

static struct tree_node *node_make(struct tree_thread *t, uint32_t parent, uint64_t fn, uint64_t site)
{
	/* a handler in between may bring another chunk */
	struct tree_chunk *c = t->chunk;
	uint32_t i = c ? __atomic_fetch_add(&c->used, 1, __ATOMIC_RELAXED) : TREE_PER_CHUNK;
	if (i >= TREE_PER_CHUNK) {
		c = arena_chunk();
		if (!c)
			return NULL;
		c->tid = t->tid;
		c->used = 2;
		i = 1;
		t->chunk = c;
	}
	struct tree_node *n = (struct tree_node *)c + i;
	n->site = site;
	n->parent = parent;
	__atomic_store_n(&n->fn, fn, __ATOMIC_RELEASE);
	return n;
}

/* The node of the call, if it is on the path already: recursion ends up where it began. */
static struct tree_node *find_ancestor(struct tree_node *n, uint64_t fn, uint64_t site)
{
	for (; n->parent; n = node_of(n->parent))
		if (n->fn == fn && n->site == site)
			return n;
	return NULL;
}

struct tree_node *calltree_child(struct tree_frame *caller, uint64_t fn, uint64_t site)
{
	struct tree_thread *t = tree_stack_of(caller)->thread;
	struct tree_node *parent = caller->node, *n;
	uint32_t number = number_of(parent);
	if (parent == t->full)
		return parent;
	n = table_find(t->table, number, fn, site);
	if (!n) {
		if (t->table->count > t->table->mask / 2)
			table_grow(t);
		if (t->table->count > t->table->mask / 4 * 3)
			return t->full;
		n = find_ancestor(parent, fn, site);
		if (!n) {
			n = node_make(t, number, fn, site);
			if (observer)
				observer->called(fn);
		}
		if (!n)
			return t->full;
		table_put(t->table, number, n);
	}
	__atomic_store_n(&parent->kids[tree_kid(fn, site)], number_of(n), __ATOMIC_RELAXED);
	return n;
}

/* --- threads ------------------------------------------------------------------------------------------- */

static bool has_ended(uint32_t tid)
{
	long process = sys_call(getpid);
	return sys_call(tgkill, process, tid, 0) == -ESRCH;
}

/*
 * Takes a tree of an ended thread. Also one of the same tid: its thread has ended, or this thread would have it.
 * Looks at a few trees only, at others at each start of a thread: so no thread waits, even if many live.
 */
static struct tree_thread *reuse_tree(struct tree_thread **list, uint32_t tid)
{
	static uint32_t turn;
	uint32_t skip = __atomic_fetch_add(&turn, LOOKED_AT, __ATOMIC_RELAXED), looked = 0, n = 0;
	struct tree_thread *first = __atomic_load_n(list, __ATOMIC_ACQUIRE), *t;
	for (t = first; t; t = t->next)
		n++;
	t = first;
	for (skip = n ? skip % n : 0; skip; skip--)
		t = t->next;
	for (; t && looked < LOOKED_AT && looked < n; looked++, t = t->next ? t->next : first) {
		uint32_t owner = __atomic_load_n(&t->tid, __ATOMIC_ACQUIRE);
		if (owner && (owner == tid || has_ended(owner)) &&
			__atomic_compare_exchange_n(&t->tid, &owner, tid, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return t;
	}
	return NULL;
}

struct tree_stack *tree_stack_make(struct tree_thread *t)
{
	struct tree_stack *s = arena_take(sizeof(*s), CALLTREE_STACK_SIZE);
	if (!s)
		return NULL;
	s->thread = t;
	s->used = ++t->switches;
	s->next = t->stacks;
	t->stacks = s;
	t->n_stacks++;
	return s;
}

static struct tree_thread *make_tree(struct tree_thread **list, uint32_t tid)
{
	struct tree_thread *t = arena_take(sizeof(*t), 64);
	if (!t)
		return NULL;
	t->table = table_make(TABLE_FIRST);
	t->first = tree_stack_make(t);
	t->root = node_make(t, 0, TREE_FN_ROOT, 0);
	if (!t->table || !t->first || !t->root)
		return NULL;
	t->full = node_make(t, number_of(t->root), TREE_FN_FULL, 0);
	t->chunk->tid = tid;
	__atomic_store_n(&t->tid, tid, __ATOMIC_RELEASE);
	t->next = __atomic_load_n(list, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(list, &t->next, t, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return t;
}

struct tree_frame *calltree_begin(void)
{
	if (!arena_ready())
		return NULL;
	char *base = (char *)arena_header();
	if (calltree_switch.base != base) /* a forked child's, where memory came from outside */
		__atomic_store_n(&calltree_switch.base, base, __ATOMIC_RELAXED);
	struct tree_thread **list = (struct tree_thread **)arena_root(ARENA_THREADS);
	uint32_t tid = (uint32_t)sys_call(gettid);
	struct tree_thread *t = reuse_tree(list, tid);
	if (!t)
		t = make_tree(list, tid);
	if (!t)
		return NULL;
	for (struct tree_stack *s = t->stacks; s; s = s->next)
		s->used = s->over = 0;
	t->first->used = ++t->switches;
	t->first->frames[0] = (struct tree_frame){t->root, UINT64_MAX};
	calltree_own.top = t->first->frames;
	if (observer)
		observer->began();
	return calltree_own.top;
}

void calltree_observe(const struct calltree_observer *o)
{
	__atomic_store_n(&observer, o, __ATOMIC_RELEASE);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/aggregate.h"

#include "oci/base/array.h"
#include "oci/base/pair_table.h"
#include "oci/base/string_table.h"
#include "profiler/unwind/unwind.h"
#include "shim/libpillion/abi/label_text.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys are compared byte by byte: built in zeroed memory, no padding left undefined. */
struct who_key {
	uint32_t pid, tid;
	char process[64], thread[16], exe[64];
	char labels[LABEL_TEXT_MAX + 1]; /* the key has only the used bytes */
};

struct count {
	uint64_t count, weight;
};

struct step {
	struct stack_frame frame;
	struct pair path;
	uint32_t node;
};

const char frame_table_full[] = "[lost: table full]", frame_outside[] = "[outside pid namespace]",
	   frame_lost[] = "[lost]", frame_not_sampled[] = "[stack not sampled]", frame_nowhere[] = "[place unknown]",
	   frame_short[] = "[short waits]", frame_approximate[] = "[approximate]",
	   frame_quarantined[] = "[quarantined]";

#define ROOT UINT32_MAX
#define ROOM_FIRST 64  /* most of a node's containers are idle; a multiple of BITS */
#define WHO_GUESSES 64 /* most samples come from a recently seen thread: a guess, checked before use */

/*
 * Stacks form a tree: a node is a frame and its caller's node, a stack is its leaf's node. A stack that differs from
 * another one only in its leaf costs one node. The key of a node is its path, the frames from the root to it as one
 * number: all nodes of a stack can be looked up at once, and known frames need no look-up of their own.
 */
struct aggregate {
	struct pair_table frames;  /* (pointer and kind, address) */
	struct pair_table nodes;   /* by path */
	struct pair_table samples; /* (node, origin), with `struct sample_detail` in the upper halves */
	struct node {
		uint32_t caller, frame;
	} * node_list; /* by node number */
	size_t node_room;
	struct string_table whos;
	struct stack_frame *frame_list; /* by frame number */
	size_t frame_room;
	struct count *counts; /* by sample number */
	size_t count_room;
	uint64_t *touched; /* a bit for each sample: counted since the last save */
	struct {
		size_t frames, nodes, whos, samples;
		bool changed; /* since the last save */
	} saved;	      /* how many of each */
	uint64_t overflow, untimed;
	struct memory_limit *room;
	size_t held;			   /* bytes of it */
	bool full;			   /* known entries are found, none is added */
	uint32_t who_guesses[WHO_GUESSES]; /* numbers + 1 */
	/* the last stack, root first: the next one mostly begins the same way. Kept until aggregate_clear(). */
	struct step *last;
	size_t n_last, last_room;
};

int aggregate_new(struct aggregate **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

void aggregate_share(struct aggregate *a, struct memory_limit *room)
{
	a->room = room;
}

/* Charges the aggregate's growth to the memory limit that it shares. */
static void update_memory_use(struct aggregate *a)
{
	size_t now = a->room ? aggregate_memory(a) : 0;
	if (a->room)
		a->room->used += now - a->held;
	a->held = now;
}

static bool is_full(const struct aggregate *a)
{
	bool no_room = a->room && a->room->max && a->room->used >= a->room->max;
	return no_room || a->samples.count >= AGGREGATE_SAMPLES_MAX || a->nodes.count >= AGGREGATE_NODES_MAX;
}

void aggregate_clear(struct aggregate *a)
{
	struct memory_limit *room = a->room;
	if (room)
		room->used -= a->held;
	for (size_t i = 0; i < a->frames.count; i++) {
		module_unref(a->frame_list[i].module);
		jit_unref(a->frame_list[i].jit);
	}
	pair_table_done(&a->frames);
	pair_table_done(&a->nodes);
	pair_table_done(&a->samples);
	string_table_done(&a->whos);
	free(a->frame_list);
	free(a->node_list);
	free(a->counts);
	free(a->last);
	free(a->touched);
	memset(a, 0, sizeof(*a));
	a->room = room;
}

struct aggregate *aggregate_free(struct aggregate *a)
{
	if (a)
		aggregate_clear(a);
	free(a);
	return NULL;
}

static int64_t add_pair(const struct aggregate *a, struct pair_table *t, uint64_t x, uint64_t y)
{
	return a->full ? pair_table_find(t, x, y) : pair_table_add(t, x, y);
}

static bool same_frame(const struct stack_frame *x, const struct stack_frame *y)
{
	return x->vaddr == y->vaddr && x->kind == y->kind && x->module == y->module && x->jit == y->jit &&
	       x->name == y->name;
}

/* Each kind has at most one of these pointers; no pointer uses the upper bits. */
static uint64_t frame_what(const struct stack_frame *f)
{
	return (uintptr_t)f->module | (uintptr_t)f->jit | (uintptr_t)f->name | (uint64_t)f->kind << 62;
}

static int64_t add_frame(struct aggregate *a, const struct stack_frame *f)
{
	size_t had = a->frames.count;
	if (array_reserve(&a->frame_list, &a->frame_room, had + 1, sizeof(*f), ROOM_FIRST) < 0)
		return -ENOMEM;
	int64_t id = pair_table_add(&a->frames, frame_what(f), f->vaddr);
	if (id >= 0 && a->frames.count > had) {
		a->frame_list[id] = *f;
		module_ref(f->module);
		jit_ref(f->jit);
	}
	return id;
}

/* frames[n - 1] is the root; its node comes first. */
static size_t shared_with_last(const struct aggregate *a, const struct stack_frame *frames, size_t n)
{
	size_t i = 0;
	while (i < n && i < a->n_last && same_frame(&a->last[i].frame, &frames[n - 1 - i]))
		i++;
	return i;
}

static int64_t append_node(struct aggregate *a, struct pair path, uint32_t caller, uint32_t frame)
{
	if (array_reserve(&a->node_list, &a->node_room, a->nodes.count + 1, sizeof(struct node), ROOM_FIRST) < 0)
		return -ENOMEM;
	int64_t id = pair_table_append(&a->nodes, path.a, path.b);
	if (id >= 0)
		a->node_list[id] = (struct node){caller, frame};
	return id;
}

static int64_t add_node(struct aggregate *a, struct pair path, uint32_t caller, const struct stack_frame *f)
{
	int64_t id = pair_table_find(&a->nodes, path.a, path.b);
	if (id >= 0 || a->full)
		return id;
	int64_t frame = add_frame(a, f);
	return frame < 0 ? frame : append_node(a, path, caller, (uint32_t)frame);
}

/* Returns the leaf's node; ROOT: a stack without frames. */
static int64_t add_stack(struct aggregate *a, const struct stack_frame *frames, size_t n)
{
	struct pair paths[AGGREGATE_STACK_MAX];
	if (n > AGGREGATE_STACK_MAX)
		n = AGGREGATE_STACK_MAX;
	size_t i = shared_with_last(a, frames, n);
	struct pair path = i ? a->last[i - 1].path : (struct pair){0};
	for (size_t k = i; k < n; k++) {
		const struct stack_frame *f = &frames[n - 1 - k];
		path = paths[k] = pair_table_chain(path, frame_what(f), f->vaddr);
		pair_table_prefetch(&a->nodes, path.a, path.b);
	}
	int64_t node = i ? a->last[i - 1].node : ROOT;
	for (a->n_last = i; i < n; i++) {
		const struct stack_frame *f = &frames[n - 1 - i];
		node = add_node(a, paths[i], (uint32_t)node, f);
		if (node < 0)
			return node;
		if (a->n_last == i &&
			array_reserve(&a->last, &a->last_room, i + 1, sizeof(struct step), ROOM_FIRST) == 0)
			a->last[a->n_last++] = (struct step){*f, paths[i], (uint32_t)node};
	}
	return node;
}

static bool is_who(const struct aggregate *a, uint32_t id, const struct sample_origin *who)
{
	const struct who_key *key = a->whos.items[id].data;
	return key->pid == who->pid && key->tid == who->tid &&
	       !strncmp(key->process, who->process, sizeof(key->process) - 1) &&
	       !strncmp(key->thread, who->thread, sizeof(key->thread) - 1) &&
	       !strncmp(key->exe, who->exe, sizeof(key->exe) - 1) &&
	       !strcmp(key->labels, who->labels ? who->labels : "");
}

static size_t who_size(const struct who_key *key)
{
	return offsetof(struct who_key, labels) + strlen(key->labels) + 1;
}

static int64_t put_who(struct aggregate *a, const struct sample_origin *who)
{
	struct who_key key;
	memset(&key, 0, offsetof(struct who_key, labels));
	key.pid = who->pid;
	key.tid = who->tid;
	snprintf(key.process, sizeof(key.process), "%s", who->process);
	snprintf(key.thread, sizeof(key.thread), "%s", who->thread);
	snprintf(key.exe, sizeof(key.exe), "%s", who->exe);
	snprintf(key.labels, sizeof(key.labels), "%s", who->labels ? who->labels : "");
	const size_t size = who_size(&key);
	return a->full ? string_table_find(&a->whos, &key, size) : string_table_add(&a->whos, &key, size);
}

static int64_t add_who(struct aggregate *a, const struct sample_origin *who)
{
	uint32_t *guess = &a->who_guesses[who->tid % WHO_GUESSES];
	if (*guess && is_who(a, *guess - 1, who))
		return *guess - 1;
	int64_t id = put_who(a, who);
	if (id >= 0)
		*guess = (uint32_t)id + 1;
	return id;
}

#define BITS 64

/* Makes room for a sample's count and its bit. */
static int grow_counts(struct aggregate *a, size_t n)
{
	size_t had = a->count_room;
	int r = array_reserve(&a->counts, &a->count_room, n + 1, sizeof(struct count), ROOM_FIRST);
	if (r < 0 || a->count_room == had)
		return r;
	uint64_t *touched = realloc(a->touched, a->count_room / BITS * sizeof(*touched));
	if (!touched) {
		a->count_room = had;
		return -ENOMEM;
	}
	memset(touched + had / BITS, 0, (a->count_room - had) / BITS * sizeof(*touched));
	a->touched = touched;
	return 0;
}

static uint64_t join_halves(int64_t low, uint32_t high)
{
	return (uint32_t)low | (uint64_t)high << 32;
}

static int64_t add_sample(struct aggregate *a, const struct stack_frame *frames, size_t n,
	const struct sample_origin *who, const struct sample_detail *when)
{
	size_t had = a->samples.count;
	int r = grow_counts(a, had);
	int64_t stack = r < 0 ? r : add_stack(a, frames, n), w = stack < 0 ? stack : add_who(a, who);
	if (w < 0)
		return w;
	int64_t id = add_pair(a, &a->samples, join_halves(stack, when->cpu), join_halves(w, when->us));
	if (id >= 0 && a->samples.count > had)
		a->counts[id] = (struct count){0};
	return id;
}

static const struct sample_origin nobody = {.process = "", .thread = "", .exe = ""};
static const struct sample_detail any_time;

int64_t aggregate_put_of(
	struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who)
{
	size_t had = a->samples.count;
	a->full = is_full(a);
	int64_t id = add_sample(a, frames, n, who, &any_time);
	if (a->samples.count != had) {
		a->saved.changed = true;
		update_memory_use(a);
	}
	return id < 0 ? -ENOSPC : id;
}

int64_t aggregate_put(struct aggregate *a, const struct stack_frame *frames, size_t n)
{
	return aggregate_put_of(a, frames, n, &nobody);
}

void aggregate_count(struct aggregate *a, uint32_t id, uint64_t count, uint64_t weight)
{
	const uint64_t sum = a->counts[id].weight + weight;
	a->counts[id].count += count;
	a->counts[id].weight = sum <= INT64_MAX ? sum : INT64_MAX; /* as a profile's numbers */
	a->touched[id / BITS] |= 1ull << id % BITS;
	a->saved.changed = true;
}

void aggregate_add(struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who,
	uint64_t count, uint64_t weight)
{
	aggregate_add_at(a, frames, n, who, &any_time, count, weight);
}

void aggregate_add_at(struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who,
	const struct sample_detail *when, uint64_t count, uint64_t weight)
{
	static const struct stack_frame full = {.kind = FRAME_SPECIAL, .name = frame_table_full};
	size_t had = a->samples.count;
	if (had >= AGGREGATE_TIMED_MAX && (when->cpu || when->us)) {
		a->untimed += count;
		when = &any_time;
	}
	a->full = is_full(a);
	int64_t id = add_sample(a, frames, n, who, when);
	if (id < 0) {
		a->full = false;
		a->overflow += count;
		id = add_sample(a, &full, 1, &nobody, &any_time); /* one entry for all of them */
	}
	if (id >= 0)
		aggregate_count(a, (uint32_t)id, count, weight);
	a->saved.changed = true;
	if (a->samples.count != had)
		update_memory_use(a);
}

size_t aggregate_samples(const struct aggregate *a)
{
	return a->samples.count;
}

void aggregate_sample(const struct aggregate *a, size_t i, struct aggregate_sample *ret)
{
	const struct pair *sample = &a->samples.items[i];
	const struct who_key *who = a->whos.items[(uint32_t)sample->b].data;
	ret->count = a->counts[i].count;
	ret->weight = a->counts[i].weight;
	ret->who = (struct sample_origin){who->pid, who->tid, who->process, who->thread, who->exe, who->labels};
	ret->who_number = (uint32_t)sample->b;
	ret->when = (struct sample_detail){(uint32_t)(sample->a >> 32), (uint32_t)(sample->b >> 32)};
	ret->n = 0;
	for (uint32_t node = (uint32_t)sample->a; node != ROOT; node = a->node_list[node].caller)
		ret->frames[ret->n++] = a->node_list[node].frame;
}

size_t aggregate_whos(const struct aggregate *a)
{
	return a->whos.count;
}

size_t aggregate_frames(const struct aggregate *a)
{
	return a->frames.count;
}

const struct stack_frame *aggregate_frame(const struct aggregate *a, uint32_t id)
{
	return &a->frame_list[id];
}

uint64_t aggregate_overflow(const struct aggregate *a)
{
	return a->overflow;
}

uint64_t aggregate_untimed(const struct aggregate *a)
{
	return a->untimed;
}

size_t aggregate_memory(const struct aggregate *a)
{
	return sizeof(*a) + pair_table_memory(&a->frames) + pair_table_memory(&a->nodes) +
	       pair_table_memory(&a->samples) + string_table_memory(&a->whos) +
	       a->frame_room * sizeof(a->frame_list[0]) + a->node_room * sizeof(a->node_list[0]) +
	       a->count_room * sizeof(a->counts[0]) + a->count_room / 8 + a->last_room * sizeof(a->last[0]);
}

/* --- in a journal --------------------------------------------------------------------------------------- */

bool aggregate_changed(const struct aggregate *a)
{
	return a->saved.changed;
}

uint32_t aggregate_unsaved(const struct aggregate *a)
{
	return (uint32_t)a->saved.frames;
}

void aggregate_save_anew(struct aggregate *a)
{
	memset(&a->saved, 0, sizeof(a->saved));
	a->saved.changed = a->samples.count > 0;
	if (a->touched)
		memset(a->touched, 0xff, a->count_room / BITS * sizeof(*a->touched));
}

/* Kernel addresses are near the end of the address space: inverted they are short. */
static void save_frame(struct journal *j, const struct stack_frame *f)
{
	uint64_t number = f->kind == FRAME_USER ? module_id(f->module) : f->kind == FRAME_JIT ? jit_serial(f->jit) : 0;
	journal_number(j, number << 2 | f->kind);
	if (f->kind == FRAME_SPECIAL)
		journal_text(j, f->name);
	else
		journal_number(j, f->kind == FRAME_KERNEL ? ~f->vaddr : f->vaddr);
}

/* A caller's node is older than the node: writes the distance of their numbers; 0: the node is a root. */
static void save_node(struct journal *j, const struct node *node, size_t number)
{
	journal_number(j, node->caller == ROOT ? 0 : number - node->caller);
	journal_number(j, node->frame);
}

static void save_who(struct journal *j, const struct who_key *key)
{
	journal_number(j, key->pid);
	journal_number(j, key->tid);
	journal_text(j, key->process);
	journal_text(j, key->thread);
	journal_text(j, key->exe);
	journal_text(j, key->labels);
}

static void save_counts(struct aggregate *a, struct journal *j)
{
	size_t n = 0, last = 0, words = (a->samples.count + BITS - 1) / BITS;
	if (a->samples.count % BITS) /* save_anew sets bits without a sample, too */
		a->touched[words - 1] &= (1ull << a->samples.count % BITS) - 1;
	for (size_t i = 0; i < words; i++)
		n += (size_t)__builtin_popcountll(a->touched[i]);
	journal_number(j, n);
	for (size_t i = 0; i < words; i++)
		for (; a->touched[i]; a->touched[i] &= a->touched[i] - 1) {
			size_t id = i * BITS + (size_t)__builtin_ctzll(a->touched[i]);
			journal_number(j, id - last);
			journal_number(j, a->counts[id].count);
			journal_number(j, a->counts[id].weight);
			last = id;
		}
}

void aggregate_save(struct aggregate *a, struct journal *j)
{
	journal_number(j, a->overflow);
	journal_number(j, a->untimed);
	journal_number(j, a->frames.count - a->saved.frames);
	for (size_t i = a->saved.frames; i < a->frames.count; i++)
		save_frame(j, &a->frame_list[i]);
	journal_number(j, a->nodes.count - a->saved.nodes);
	for (size_t i = a->saved.nodes; i < a->nodes.count; i++)
		save_node(j, &a->node_list[i], i);
	journal_number(j, a->whos.count - a->saved.whos);
	for (size_t i = a->saved.whos; i < a->whos.count; i++)
		save_who(j, a->whos.items[i].data);
	journal_number(j, a->samples.count - a->saved.samples);
	for (size_t i = a->saved.samples; i < a->samples.count; i++) {
		const struct pair *sample = &a->samples.items[i];
		journal_number(j, (uint32_t)sample->a == ROOT ? 0 : (uint32_t)sample->a + 1);
		journal_number(j, (uint32_t)sample->b);
		journal_number(j, sample->a >> 32);
		journal_number(j, sample->b >> 32);
	}
	save_counts(a, j);
	a->saved.frames = a->frames.count;
	a->saved.nodes = a->nodes.count;
	a->saved.whos = a->whos.count;
	a->saved.samples = a->samples.count;
	a->saved.changed = false;
}

/* Returns the literal itself: frames are compared by its address. */
static const char *find_special_name(const char *text)
{
	static const char *const names[] = {frame_table_full, frame_outside, frame_lost, frame_not_sampled,
		frame_nowhere, frame_short, frame_approximate, frame_quarantined};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(text, names[i]))
			return names[i];
	for (unsigned i = 0; i < UNWIND_STOPS; i++) {
		const char *name = unwind_stop_name(i);
		if (name && !strcmp(text, name))
			return name;
	}
	return NULL;
}

/* Two frames that differed when they were saved may be equal now; each keeps its number. */
static int load_frame(struct aggregate *a, struct journal_reader *s, aggregate_find_fn *find, void *arg)
{
	uint64_t what = saved_number(s);
	struct stack_frame f = {.kind = what & 3};
	if (f.kind == FRAME_SPECIAL) {
		f.name = find_special_name(saved_text(s, 64));
		s->bad |= !f.name;
	} else {
		f.vaddr = saved_number(s);
		if (f.kind == FRAME_KERNEL)
			f.vaddr = ~f.vaddr;
		else
			find(arg, what >> 2, &f);
	}
	if (f.kind == FRAME_JIT && !f.jit)
		f.kind = FRAME_USER;
	if (s->bad || a->frames.count >= AGGREGATE_NODES_MAX + AGGREGATE_STACK_MAX)
		return -EBADMSG;
	if (array_reserve(&a->frame_list, &a->frame_room, a->frames.count + 1, sizeof(f), ROOM_FIRST) < 0)
		return -ENOMEM;
	int64_t id = pair_table_append(&a->frames, frame_what(&f), f.vaddr);
	if (id < 0)
		return (int)id;
	a->frame_list[id] = f;
	module_ref(f.module);
	jit_ref(f.jit);
	return 0;
}

static int load_node(struct aggregate *a, struct journal_reader *s)
{
	uint64_t up = saved_below(s, a->nodes.count + 1), frame = saved_below(s, a->frames.count);
	size_t had = a->nodes.count;
	if (s->bad || had >= AGGREGATE_NODES_MAX + AGGREGATE_STACK_MAX)
		return -EBADMSG;
	const struct stack_frame *f = &a->frame_list[frame];
	struct pair path = pair_table_chain(up ? a->nodes.items[had - up] : (struct pair){0}, frame_what(f), f->vaddr);
	int64_t id = append_node(a, path, up ? (uint32_t)(had - up) : ROOT, (uint32_t)frame);
	return id < 0 ? (int)id : 0;
}

static int load_who(struct aggregate *a, struct journal_reader *s)
{
	struct who_key key;
	size_t had = a->whos.count;
	memset(&key, 0, offsetof(struct who_key, labels));
	key.pid = (uint32_t)saved_below(s, 1ull << 32);
	key.tid = (uint32_t)saved_below(s, 1ull << 32);
	snprintf(key.process, sizeof(key.process), "%s", saved_text(s, sizeof(key.process) - 1));
	snprintf(key.thread, sizeof(key.thread), "%s", saved_text(s, sizeof(key.thread) - 1));
	snprintf(key.exe, sizeof(key.exe), "%s", saved_text(s, sizeof(key.exe) - 1));
	snprintf(key.labels, sizeof(key.labels), "%s", saved_text(s, sizeof(key.labels) - 1));
	int64_t id = s->bad ? -EBADMSG : string_table_add(&a->whos, &key, who_size(&key));
	return id < 0 ? (int)id : (size_t)id == had ? 0 : -EBADMSG;
}

/* No stack is longer than a sample has room for: the writer of the journal may not have checked that. */
static bool is_stack(const struct aggregate *a, uint64_t node)
{
	size_t n = 0;
	for (; node != ROOT && n <= AGGREGATE_STACK_MAX; n++)
		node = a->node_list[node].caller;
	return n <= AGGREGATE_STACK_MAX;
}

static int load_sample(struct aggregate *a, struct journal_reader *s)
{
	uint64_t node = saved_below(s, a->nodes.count + 1), who = saved_below(s, a->whos.count);
	uint64_t cpu = saved_below(s, 1ull << 32), us = saved_below(s, 1ull << 32);
	size_t had = a->samples.count;
	node = node ? node - 1 : ROOT;
	if (s->bad || had > AGGREGATE_SAMPLES_MAX || !is_stack(a, node))
		return -EBADMSG;
	if (grow_counts(a, had) < 0)
		return -ENOMEM;
	int64_t id = pair_table_append(
		&a->samples, join_halves((int64_t)node, (uint32_t)cpu), join_halves((int64_t)who, (uint32_t)us));
	if (id >= 0)
		a->counts[id] = (struct count){0};
	return id < 0 ? (int)id : 0;
}

static int load_counts(struct aggregate *a, struct journal_reader *s)
{
	size_t n = saved_count(s, 3), id = 0;
	for (size_t i = 0; i < n && !s->bad; i++) {
		uint64_t more = saved_below(s, AGGREGATE_SAMPLES_MAX + 1), count = saved_number(s);
		uint64_t weight = saved_number(s);
		id += more;
		s->bad |= id >= a->samples.count;
		if (!s->bad)
			a->counts[id] = (struct count){count, weight};
	}
	return s->bad ? -EBADMSG : 0;
}

int aggregate_load(struct aggregate *a, struct journal_reader *s, aggregate_find_fn *find, void *arg)
{
	int r = 0;
	a->overflow = saved_number(s);
	a->untimed = saved_number(s);
	for (size_t n = saved_count(s, 2); r == 0 && n; n--)
		r = load_frame(a, s, find, arg);
	for (size_t n = r < 0 ? 0 : saved_count(s, 2); r == 0 && n; n--)
		r = load_node(a, s);
	for (size_t n = r < 0 ? 0 : saved_count(s, 5); r == 0 && n; n--)
		r = load_who(a, s);
	for (size_t n = r < 0 ? 0 : saved_count(s, 4); r == 0 && n; n--)
		r = load_sample(a, s);
	if (r == 0)
		r = load_counts(a, s);
	update_memory_use(a);
	aggregate_save_anew(a);
	return r;
}

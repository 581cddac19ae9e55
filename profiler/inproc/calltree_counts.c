/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/inproc/calltree_counts.h"

#include "profiler/process/proc_maps.h"
#include "profiler/sample/sample_stack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED 4096 /* cached frames of functions, by a part of their address */

struct calltree_counts {
	const struct inproc_owner *owner;
	struct sampling *sampling; /* the owner's */
	uint32_t event;
	struct process *task;
	struct sample_origin who;
	struct named {
		struct calltree_reader_fn fn;
		struct stack_frame frame;
	} named[NAMED];
	struct module *modules[CALLTREE_READER_GONE_MAX]; /* that are gone from the process */
	size_t n_modules;
	bool unknown;
};

/* Holds one reference of each module; false: there is no room. Drops the reference of a module that is held already. */
static bool keep_module(struct calltree_counts *c, struct module *m)
{
	size_t i = 0;
	while (i < c->n_modules && c->modules[i] != m)
		i++;
	const bool known = i < c->n_modules, room = i < CALLTREE_READER_GONE_MAX;
	if (known || !room)
		module_unref(m);
	else
		c->modules[c->n_modules++] = m;
	return known || room;
}

/* Returns the frame of a function in a module that is unmapped by now: by the place where the module was. */
static struct stack_frame gone_frame(struct calltree_counts *c, const struct calltree_reader_fn *fn)
{
	struct stack_frame ret = {.kind = FRAME_USER};
	char line[TREE_TEXT_MAX];
	struct module_key key;
	uint64_t start, len, offset;
	snprintf(line, sizeof(line), "%s", fn->gone);
	line[strcspn(line, "\n")] = 0; /* its build-id */
	struct module *m;
	if (proc_maps_line(line, &start, &len, &offset, &key) != 1 ||
		c->owner->ops->module(c->owner->target, &key, &m) < 0 || !keep_module(c, m))
		return ret;
	ret.module = m;
	ret.vaddr = module_vaddr(ret.module, fn->fn - start + offset);
	return ret;
}

static struct stack_frame find_frame(struct calltree_counts *c, const struct calltree_reader_fn *fn)
{
	if (fn->fn == TREE_FN_FULL)
		return (struct stack_frame){.kind = FRAME_SPECIAL, .name = frame_table_full};
	if (c->sampling->quarantined)
		return (struct stack_frame){.kind = FRAME_USER, .vaddr = fn->fn};
	const struct stack_frame f =
		fn->gone ? gone_frame(c, fn) : sample_stack_frame(c->task, fn->fn, false, c->sampling->jit_room);
	c->unknown |= !fn->gone && f.kind == FRAME_USER && !f.module;
	return f;
}

static const struct stack_frame *find_cached_frame(struct calltree_counts *c, const struct calltree_reader_fn *fn)
{
	struct named *n = &c->named[(fn->fn >> 4 ^ fn->fn >> 16) % NAMED];
	if (!n->fn.fn || n->fn.fn != fn->fn || n->fn.gone != fn->gone)
		*n = (struct named){*fn, find_frame(c, fn)};
	return &n->frame;
}

static void on_grown(void *arg, const struct calltree_reader_fn *path, size_t n, uint64_t calls, uint64_t ns)
{
	struct calltree_counts *c = arg;
	struct stack_frame frames[AGGREGATE_STACK_MAX];
	for (size_t i = 0; i < n; i++)
		frames[i] = *find_cached_frame(c, &path[i]);
	if (c->sampling->quarantined)
		frames[n++] = (struct stack_frame){.kind = FRAME_SPECIAL, .name = frame_quarantined};
	aggregate_add(c->sampling->counts[c->event], frames, n, &c->who, calls, ns);
}

int calltree_count(
	struct calltree_reader *of, const struct inproc_owner *o, uint32_t event, uint32_t pid, bool *ret_unknown)
{
	struct process *task = process_table_get(o->sampling->processes, pid);
	struct calltree_counts *c = task ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return -ENOMEM;
	c->owner = o;
	c->sampling = o->sampling;
	c->event = event;
	c->task = task;
	c->who = (struct sample_origin){
		.pid = pid, .tid = pid, .process = task->comm, .thread = "", .exe = task->exe, .labels = ""};
	const int r = calltree_reader_look(of, AGGREGATE_STACK_MAX - 1, on_grown, c);
	if (r > 0)
		task->sampled = o->sampling->changed = true;
	*ret_unknown = c->unknown;
	while (c->n_modules)
		module_unref(c->modules[--c->n_modules]);
	free(c);
	return r < 0 ? r : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/sample/sample_stack.h"

#include <linux/perf_event.h>
#include <string.h>

#define SPECIALS 2
#define CALLERS_MAX 8

static bool is_marker(uint64_t ip)
{
	return ip >= (uint64_t)PERF_CONTEXT_MAX;
}

struct sampled {
	struct unwind *unwind;
	struct process *task;
	struct jit_room *room; /* for names of code without a file */
};

/* Code in memory without a file keeps its address: its name may be written down later (jit_symbols.h). */
static struct stack_frame named_frame(const struct sampled *of, struct module *module, uint64_t vaddr, uint64_t ip)
{
	struct process *p = of->task;
	if (module && module_state(module) == MODULE_ANONYMOUS) {
		if (!p->jit || jit_pid(p->jit) != p->pid) {
			struct jit *own = NULL;
			jit_new(p->pid, address_space_find_jitdump(p->space, p->pid), p->jit, of->room, &own);
			jit_unref(p->jit);
			p->jit = own;
		}
		if (p->jit)
			return (struct stack_frame){.kind = FRAME_JIT, .jit = p->jit, .vaddr = ip};
	}
	return (struct stack_frame){.kind = FRAME_USER, .module = module, .vaddr = vaddr};
}

static struct stack_frame user_frame(const struct sampled *of, uint64_t ip, bool is_return)
{
	const struct process *p = of->task;
	uint64_t at = ip - is_return; /* a return address may be the first byte behind a function that never returns */
	const struct mapping *m = address_space_find(p->space, at);
	struct module *module = m ? mapping_module(m) : NULL;
	return named_frame(of, module, module ? module_vaddr(module, at - m->start + m->pgoff) : 0, at);
}

/* The chain consists of sections, each behind a marker: kernel or user addresses follow. */
static size_t from_chain(const struct sampled *of, const struct record_sample *s, struct stack_frame *frames,
	size_t max, enum unwind_stop *ret_stop)
{
	uint64_t context = 0;
	size_t n = 0;
	bool first = true;
	for (uint64_t i = 0; i < s->n_chain && n < max; i++) {
		uint64_t ip = s->chain[i];
		if (is_marker(ip)) {
			context = ip;
			first = true;
			continue;
		}
		if (context == (uint64_t)PERF_CONTEXT_KERNEL)
			frames[n++] = (struct stack_frame){.kind = FRAME_KERNEL, .vaddr = ip};
		else if (context == (uint64_t)PERF_CONTEXT_USER) {
			frames[n] = user_frame(of, ip, !first);
			if (frames[n].kind == FRAME_USER && !frames[n].module &&
				!first) { /* code without frame pointers: the rest is not a stack */
				*ret_stop = UNWIND_UNKNOWN_MAPPING;
				break;
			}
			n++;
		}
		first = false;
	}
	return n;
}

static size_t from_snapshot(const struct sampled *of, const struct record_sample *s, struct stack_frame *frames,
	size_t max, enum unwind_stop *ret_stop)
{
	struct unwind_frame found[UNWIND_FRAMES_MAX];
	size_t n = unwind_user(of->unwind, address_space_unwind_map(of->task->space), &s->regs, s->stack, s->stack_size,
		found, max < UNWIND_FRAMES_MAX ? max : UNWIND_FRAMES_MAX, ret_stop);
	for (size_t i = 0; i < n; i++)
		frames[i] = named_frame(of, found[i].module, found[i].vaddr, found[i].ip - (i > 0));
	return n;
}

size_t sample_stack_plain(const struct record *r, struct stack_frame *frames)
{
	const struct record_sample *s = &r->sample;
	const bool in_kernel = (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	uint64_t context = 0, own = in_kernel ? s->has_regs ? s->regs.r[UNWIND_IP] : 0 : s->ip;
	size_t n = 0;
	for (uint64_t i = 0; i < s->n_chain && n < AGGREGATE_STACK_MAX - SPECIALS; i++) {
		if (is_marker(s->chain[i]))
			context = s->chain[i];
		else if (context == (uint64_t)PERF_CONTEXT_KERNEL)
			frames[n++] = (struct stack_frame){.kind = FRAME_KERNEL, .vaddr = s->chain[i]};
		else if (context == (uint64_t)PERF_CONTEXT_USER && !own)
			own = s->chain[i];
	}
	frames[n++] = (struct stack_frame){.kind = FRAME_USER, .vaddr = own};
	frames[n++] = (struct stack_frame){.kind = FRAME_SPECIAL, .name = frame_quarantined};
	return n;
}

size_t sample_stack_callers(
	struct unwind *u, const struct process *p, const struct record_sample *s, uint64_t *ret, size_t max)
{
	struct unwind_frame found[CALLERS_MAX + 1];
	struct unwind_regs regs = {0};
	regs.r[UNWIND_FP] = s->regs.r[UNWIND_FP];
	regs.r[UNWIND_SP] = s->regs.r[UNWIND_SP];
	regs.r[UNWIND_IP] = s->regs.r[UNWIND_IP];
	size_t size = s->stack_size < PERF_STACK_PLACE ? s->stack_size : PERF_STACK_PLACE;
	max = max < CALLERS_MAX ? max : CALLERS_MAX;
	size_t n =
		size ? unwind_brief(u, address_space_unwind_map(p->space), &regs, s->stack, size, found, max + 1) : 0;
	for (size_t i = 1; i < n; i++)
		ret[i - 1] = found[i].ip;
	return n ? n - 1 : 0;
}

struct stack_frame sample_stack_frame(struct process *p, uint64_t ip, bool is_return, struct jit_room *room)
{
	const struct sampled of = {NULL, p, room};
	return user_frame(&of, ip, is_return);
}

size_t sample_stack_frames(struct unwind *u, struct process *p, const struct record *r,
	const struct perf_layout *layout, struct jit_room *room, struct stack_frame *frames, enum unwind_stop *ret_stop)
{
	const struct sampled of = {u, p, room};
	const struct record_sample *s = &r->sample;
	uint32_t mode = r->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	*ret_stop = UNWIND_END;
	size_t n = from_chain(&of, s, frames, AGGREGATE_STACK_MAX - SPECIALS, ret_stop);
	if (layout->sample_type & PERF_SAMPLE_STACK_USER && s->has_regs)
		n += from_snapshot(&of, s, frames + n, AGGREGATE_STACK_MAX - SPECIALS - n, ret_stop);
	if (n == 0) /* no stacks asked for, or none available: the address alone */
		frames[n++] = mode == PERF_RECORD_MISC_KERNEL
				      ? (struct stack_frame){.kind = FRAME_KERNEL, .vaddr = s->ip}
				      : user_frame(&of, s->ip, false);
	const char *why = unwind_stop_name(*ret_stop);
	if (why)
		frames[n++] = (struct stack_frame){.kind = FRAME_SPECIAL, .name = why};
	return n;
}

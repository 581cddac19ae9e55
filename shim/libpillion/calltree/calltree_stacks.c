/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the stack that an address is on, and its frames that are left. A stack is known only by the frames that were
 * seen on it: an address belongs to it between its first and its last one, and for CALLTREE_REACH bytes around; to the
 * nearest, if it belongs to several.
 */
#include "shim/libpillion/calltree/calltree_stacks.h"
#include "shim/libpillion/core/arena.h"

#define AWAY UINT64_MAX

static uint64_t find_lowest_sp(const struct tree_stack *s, const struct tree_frame *top)
{
	return s->over && s->low < TREE_SP(top->place) ? s->low : TREE_SP(top->place);
}

/* Bytes from a stack to an address; AWAY: it is on another one */
static uint64_t measure_distance(const struct tree_stack *s, const struct tree_frame *top, uint64_t sp)
{
	if (top == s->frames)
		return AWAY;
	uint64_t high = TREE_SP(s->frames[1].place), low = find_lowest_sp(s, top);
	uint64_t off = sp > high ? sp - high : sp < low ? low - sp : 0;
	return off < CALLTREE_REACH ? off : AWAY;
}

static struct tree_stack *find_nearest_stack(struct tree_stack *now, const struct tree_frame *top, uint64_t sp)
{
	struct tree_stack *best = NULL;
	uint64_t least = measure_distance(now, top, sp);
	if (least != AWAY)
		best = now;
	for (struct tree_stack *s = now->thread->stacks; s && least; s = s->next) {
		uint64_t off = s == now || !s->used ? AWAY : measure_distance(s, s->top, sp);
		if (off < least) {
			best = s;
			least = off;
		}
	}
	return best;
}

static struct tree_frame *turn_to(struct tree_stack *now, struct tree_frame *top, struct tree_stack *to)
{
	if (now == to)
		return top;
	now->top = top;
	to->used = ++to->thread->switches;
	calltree_own.top = to->top;
	return to->top;
}

/* Takes a free stack, a new one, or the one that rested longest; NULL: there is no other one than this. */
static struct tree_stack *allocate_stack(struct tree_stack *now)
{
	struct tree_thread *t = now->thread;
	struct tree_stack *oldest = NULL;
	for (struct tree_stack *s = t->stacks; s; s = s->next)
		if (s != now && s != t->first && (!oldest || s->used < oldest->used))
			oldest = s;
	if (!oldest || oldest->used) {
		struct tree_stack *fresh = t->n_stacks < CALLTREE_STACKS ? tree_stack_make(t) : NULL;
		oldest = fresh ? fresh : oldest;
	}
	if (oldest)
		oldest->used = ++t->switches;
	return oldest;
}

/* The stack is entered from `from`: its path goes on from there. */
static void enter_from(struct tree_stack *s, struct tree_stack *from, const struct tree_frame *top)
{
	s->from = from;
	s->over = 0;
	s->frames[0] = (struct tree_frame){top->node, UINT64_MAX};
}

/* No frame is left on the stack. Returns the new top. */
static struct tree_frame *leave_stack(struct tree_stack *s)
{
	if (s == s->thread->first)
		return s->frames;
	s->used = 0;
	struct tree_stack *to = s->from->used ? s->from : s->thread->first;
	return to->top;
}

/* --- a call -------------------------------------------------------------------------------------------- */

/* The call is inlined into t's function: it has the same stack frame, and so the same place to return to. */
static bool has_inlined(const struct tree_frame *t, uint64_t site, uint64_t sp, uint64_t ra)
{
	return TREE_SP(t->place) == sp && (t->node->site == site || t->node->fn == TREE_FN_FULL) &&
	       (uint16_t)t->place != (uint16_t)ra;
}

static bool is_left(const struct tree_frame *t, uint64_t site, uint64_t sp, uint64_t ra)
{
	return TREE_SP(t->place) < sp || (TREE_SP(t->place) == sp && !has_inlined(t, site, sp, ra));
}

/* A call below the last possible frame: counted at once; only the number of such calls is kept. */
static void count_deep(struct tree_stack *s, struct tree_frame *last, uint64_t fn, uint64_t site, uint64_t sp)
{
	s->over++;
	s->low = sp;
	tree_count(calltree_child(last, fn, site));
}

static void count_unplaced(void)
{
	static uint64_t nowhere; /* lost, while a forked child's first thread makes the memory */
	struct tree_header *h = arena_header();
	__atomic_fetch_add(h ? &h->unplaced : &nowhere, 1, __ATOMIC_RELAXED);
}

/* Turns to the stack that a call at `sp` is on, and returns it, with its top in *top */
static struct tree_stack *stack_for_call(struct tree_frame **top, uint64_t site, uint64_t sp, uint64_t ra)
{
	struct tree_frame *t = *top;
	struct tree_stack *now = tree_stack_of(t), *s = find_nearest_stack(now, t, sp);
	bool first = t == now->frames; /* no frame is on a known stack: the call begins this one, wherever it is */
	if (!s && !first) {
		s = allocate_stack(now);
		if (s) {
			enter_from(s, now, t);
			s->top = s->frames;
		}
	}
	if (!s)
		s = now;
	t = turn_to(now, t, s);
	while (t > s->frames && is_left(t, site, sp, ra))
		t--;
	if (t == s->frames && s != s->thread->first && s != now)
		enter_from(s, now, now->top);
	if (!tree_is_last(t))
		s->over = 0;
	*top = t;
	return s;
}

/* Returns the frame of the caller, as the new top; NULL: the call was counted already. */
static struct tree_frame *caller_of(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	struct tree_frame *t = calltree_own.top;
	bool below = t->place - TREE_PLACE(sp) - TREE_PLACE(1) < TREE_NEAR;
	if ((below || has_inlined(t, site, sp, ra)) && !tree_is_last(t))
		return t;
	if (t == &calltree_nowhere || !tree_stack_of(t)->thread)
		t = calltree_begin();
	if (!t) {
		count_unplaced();
		return NULL;
	}
	struct tree_stack *s = stack_for_call(&t, site, sp, ra);
	calltree_own.top = t;
	if (!tree_is_last(t))
		return t;
	count_deep(s, t, fn, site, sp);
	return NULL;
}

void tree_enter_oddly(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	struct tree_frame *t = caller_of(fn, site, sp, ra);
	if (!t)
		return;
	struct tree_node *n = calltree_child(t, fn, site);
	tree_count(n);
	tree_push(t + 1, n, TREE_PLACE(sp) | (ra & 0xffff));
}

/* --- a return ------------------------------------------------------------------------------------------ */

/*
 * Returns the top after a function has returned with its hook at `sp`: all frames below have gone, and its own too if
 * the hook was a jump. Else its own is there, or, with a variable array, somewhat above. If it is not there, it was
 * entered before counting began, or forgotten.
 */
static struct tree_frame *pop_frames(struct tree_stack *s, struct tree_frame *t, uint64_t fn, uint64_t sp, bool jumped)
{
	while (t > s->frames && TREE_SP(t->place) < sp)
		t--;
	for (struct tree_frame *f = t; !jumped && f > s->frames && TREE_SP(f->place) < sp + CALLTREE_REACH; f--)
		if (f->node->fn == fn || f->node->fn == TREE_FN_FULL)
			return f - 1;
	return t;
}

void tree_leave_oddly(uint64_t fn, uint64_t site, uint64_t sp, uint64_t ra)
{
	struct tree_frame *t = calltree_own.top;
	struct tree_stack *s = tree_stack_of(t), *to;
	if (t == &calltree_nowhere || !s->thread)
		return;
	to = find_nearest_stack(s, t, sp);
	if (to) {
		t = turn_to(s, t, to);
		s = to;
		if (tree_is_last(t) && s->over && sp <= TREE_SP(t->place)) {
			s->over--;
			s->low = sp;
			return;
		}
		t = pop_frames(s, t, fn, sp, ra == site);
	} else if (t > s->frames && t->node->fn == fn) {
		t--; /* a frame larger than the reach */
	} else {
		return;
	}
	s->over = 0;
	calltree_own.top = t > s->frames ? t : leave_stack(s);
}

uint32_t calltree_path(uint64_t *ret, uint32_t max)
{
	const struct tree_frame *f = calltree_own.top;
	uint32_t n = 0;
	for (unsigned i = 0; i < CALLTREE_STACKS && f && f != &calltree_nowhere; i++) {
		const struct tree_stack *s = tree_stack_of(f);
		for (; f > s->frames && n < max; f--)
			if (f->place && f->node->fn > TREE_FN_LAST && !(f->node->fn & TREE_FN_GONE))
				ret[n++] = f->node->fn;
		f = s->from ? s->from->top : NULL;
	}
	return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/dwarf_expr.h"

#define EVAL_STACK 16

struct eval {
	uint64_t stack[EVAL_STACK];
	unsigned n;
	bool bad;
};

static void push_value(struct eval *v, uint64_t x)
{
	if (v->n == EVAL_STACK)
		v->bad = true;
	else
		v->stack[v->n++] = x;
}

static uint64_t pop_value(struct eval *v)
{
	if (!v->n) {
		v->bad = true;
		return 0;
	}
	return v->stack[--v->n];
}

static uint64_t two_operands(uint8_t op, uint64_t a, uint64_t b, bool *ret_bad)
{
	const int64_t sa = (int64_t)a, sb = (int64_t)b;
	switch (op) {
	case 0x1a:
		return a & b;
	case 0x1c:
		return a - b;
	case 0x1e:
		return a * b;
	case 0x21:
		return a | b;
	case 0x22:
		return a + b;
	case 0x24:
		return b < 64 ? a << b : 0;
	case 0x25:
		return b < 64 ? a >> b : 0;
	case 0x26:
		return (uint64_t)(sa >> (b < 64 ? b : 63));
	case 0x29:
		return a == b;
	case 0x2a:
		return sa >= sb;
	case 0x2b:
		return sa > sb;
	case 0x2c:
		return sa <= sb;
	case 0x2d:
		return sa < sb;
	case 0x2e:
		return a != b;
	default:
		*ret_bad = true;
		return 0;
	}
}

/* False: it is none of those that only push something. */
static bool push_operand(
	struct eval *v, struct dwarf_cursor *r, uint8_t op, const uint64_t regs[DWARF_REGS], uint32_t known)
{
	if (op >= 0x30 && op <= 0x4f) /* lit0 ... lit31 */
		return push_value(v, op - 0x30u), true;
	if (op >= 0x70 && op < 0x70 + DWARF_REGS) /* breg0 ... */
		return v->bad |= !(known & 1u << (op - 0x70)), push_value(v, regs[op - 0x70] + (uint64_t)dwarf_sleb(r)),
		       true;
	switch (op) {
	case 0x08: /* const1u, 1s, 2u, ... 8s */
	case 0x0a:
	case 0x0c:
	case 0x0e:
		return push_value(v, dwarf_uint(r, 1u << (op - 0x08) / 2)), true;
	case 0x09:
	case 0x0b:
	case 0x0d:
	case 0x0f:
		return push_value(v, (uint64_t)dwarf_sint(r, 1u << (op - 0x09) / 2)), true;
	case 0x10: /* constu, consts */
		return push_value(v, dwarf_uleb(r)), true;
	case 0x11:
		return push_value(v, (uint64_t)dwarf_sleb(r)), true;
	}
	return false;
}

static void eval_one(struct eval *v, struct dwarf_cursor *r, const uint64_t regs[DWARF_REGS], uint32_t known,
	dwarf_expr_read_fn *read, void *arg)
{
	uint8_t op = dwarf_u8(r);
	uint64_t a, b;
	if (push_operand(v, r, op, regs, known))
		return;
	switch (op) {
	case 0x06: /* deref */
		a = pop_value(v);
		if (v->bad || !read(arg, a, &b))
			v->bad = true;
		else
			push_value(v, b);
		return;
	case 0x12: /* dup */
		a = pop_value(v);
		push_value(v, a);
		push_value(v, a);
		return;
	case 0x23: /* plus_uconst */
		a = pop_value(v);
		push_value(v, a + dwarf_uleb(r));
		return;
	case 0x96: /* nop */
		return;
	default:
		b = pop_value(v);
		a = pop_value(v);
		push_value(v, two_operands(op, a, b, &v->bad));
	}
}

bool dwarf_expr_eval(struct dwarf_expr x, const uint64_t regs[DWARF_REGS], uint32_t known, const uint64_t *first,
	dwarf_expr_read_fn *read, void *arg, uint64_t *ret)
{
	struct eval v = {.n = 0};
	struct dwarf_cursor r = dwarf_read(x.bytes, x.len);
	if (first)
		push_value(&v, *first);
	while (!v.bad && !r.bad && r.p < r.end)
		eval_one(&v, &r, regs, known, read, arg);
	if (v.bad || r.bad || !v.n)
		return false;
	*ret = v.stack[v.n - 1];
	return true;
}

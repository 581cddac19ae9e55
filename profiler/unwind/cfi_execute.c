/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/cfi_execute.h"

/* Index into rule.at, or -1. */
static int slot_of(uint64_t reg)
{
#define SLOT(slot, reg) [reg] = (slot) + 1,
	static const int8_t slots[DWARF_REGS] = {[DWARF_RA] = CFI_RULE_SAVED_RA + 1, CFI_SAVED_REGS(SLOT)};
	return slots[reg] - 1;
}

/* --- states */

static void copy_state(struct cfi_state *to, const struct cfi_state *from)
{
	to->usual = from->usual;
	to->gone = from->gone;
	to->odd = from->odd;
	to->odd_cfa = from->odd_cfa;
	if (from->odd || from->odd_cfa)
		to->full = from->full;
}

static void clear_state(struct cfi_state *s, bool signal)
{
	memset(s, 0, sizeof(*s));
	s->usual.kind = CFI_RULE_FRAME;
	s->usual.signal = signal;
	for (unsigned i = 0; i < CFI_RULE_SAVED; i++)
		s->usual.at[i] = CFI_RULE_SAME;
	s->odd_cfa = true;
	s->full.cfa.how = CFI_REGISTER_UNDEFINED;
}

static struct cfi_register get_place(const struct cfi_state *s, enum dwarf_reg reg)
{
	if (s->odd & 1u << reg)
		return s->full.reg[reg];
	if (s->gone & 1u << reg)
		return (struct cfi_register){.how = CFI_REGISTER_UNDEFINED};
	const int slot = slot_of(reg);
	if (slot < 0 || s->usual.at[slot] == CFI_RULE_SAME)
		return (struct cfi_register){.how = CFI_REGISTER_SAME_VALUE};
	return (struct cfi_register){.how = CFI_REGISTER_OFFSET, .n = 8 * (int64_t)s->usual.at[slot]};
}

/* Registers that we do not have, vectors and flags, are ignored. */
static void set_place(struct cfi_state *s, uint64_t reg, struct cfi_register place)
{
	if (reg >= DWARF_REGS)
		return;
	const int slot = slot_of(reg);
	const uint32_t bit = 1u << reg;
	const int64_t words = place.n / 8;
	const bool usual = place.how == CFI_REGISTER_OFFSET && slot >= 0 && place.n % 8 == 0 && words > INT16_MIN &&
			   words <= INT16_MAX;
	s->odd &= ~bit;
	s->gone &= ~bit;
	if (slot >= 0)
		s->usual.at[slot] = usual ? (int16_t)words : CFI_RULE_SAME;
	if (usual || place.how == CFI_REGISTER_SAME_VALUE)
		return;
	if (place.how == CFI_REGISTER_UNDEFINED && slot < 0 && reg != DWARF_SP) {
		s->gone |= bit; /* a register that a callee need not save */
	} else {
		s->odd |= bit;
		s->full.reg[reg] = place;
	}
}

void cfi_to_full(const struct cfi_state *s, struct cfi_rule_full *ret)
{
	memset(ret, 0, sizeof(*ret)); /* rules are compared as bytes */
	ret->cfa = s->odd_cfa ? s->full.cfa
			      : (struct cfi_register){
					.how = CFI_REGISTER_REGISTER, .reg = s->usual.cfa_reg, .n = s->usual.cfa};
	for (unsigned i = 0; i < DWARF_REGS; i++)
		ret->reg[i] = get_place(s, i);
}

static void set_cfa(struct cfi_execute *p, uint64_t reg, int64_t n)
{
	struct cfi_state *s = &p->now;
	p->reader.bad |= reg >= DWARF_REGS;
	s->odd_cfa = n < INT32_MIN || n > INT32_MAX;
	if (s->odd_cfa)
		s->full.cfa = (struct cfi_register){.how = CFI_REGISTER_REGISTER, .reg = (uint8_t)reg, .n = n};
	s->usual.cfa_reg = (uint8_t)reg;
	s->usual.cfa = s->odd_cfa ? 0 : (int32_t)n;
}

static void set_cfa_offset(struct cfi_execute *p, int64_t n)
{
	const struct cfi_state *s = &p->now;
	p->reader.bad |= s->odd_cfa && s->full.cfa.how != CFI_REGISTER_REGISTER;
	set_cfa(p, s->usual.cfa_reg, n);
}

static void set_cfa_register(struct cfi_execute *p, uint64_t reg)
{
	const struct cfi_state *s = &p->now;
	p->reader.bad |= s->odd_cfa && s->full.cfa.how != CFI_REGISTER_REGISTER;
	set_cfa(p, reg, s->odd_cfa ? s->full.cfa.n : s->usual.cfa);
}

/* --- instructions */

static struct cfi_register take_expression(struct cfi_execute *p, enum cfi_register_kind how)
{
	struct dwarf_cursor *r = &p->reader;
	uint64_t len = dwarf_uleb(r);
	const uint8_t *bytes = dwarf_take(r, len);
	if (!bytes || !len || len > CFI_EXPRESSION_MAX) {
		r->bad = true;
		return (struct cfi_register){0};
	}
	return (struct cfi_register){.how = (uint8_t)how, .len = (uint16_t)len, .n = bytes - p->section->bytes->data};
}

static void restore_register(struct cfi_execute *p, uint64_t reg)
{
	if (reg < DWARF_REGS)
		set_place(&p->now, reg, get_place(&p->initial[p->cie - p->section->cies], (enum dwarf_reg)reg));
}

static void remember_state(struct cfi_execute *p)
{
	if (p->n_remembered == CFI_REMEMBER_MAX)
		p->reader.bad = true;
	else
		copy_state(&p->remembered[p->n_remembered++], &p->now);
}

static void restore_state(struct cfi_execute *p)
{
	if (!p->n_remembered)
		p->reader.bad = true;
	else
		copy_state(&p->now, &p->remembered[--p->n_remembered]);
}

static void put_at(struct cfi_execute *p, uint64_t reg, enum cfi_register_kind how, uint64_t words)
{
	int64_t n = (int64_t)(words * (uint64_t)p->cie->data_align);
	set_place(&p->now, reg, (struct cfi_register){.how = (uint8_t)how, .n = n});
}

/* An instruction about the CFA; false: it is none. */
static bool run_cfa(struct cfi_execute *p, uint8_t op)
{
	struct dwarf_cursor *r = &p->reader;
	const uint64_t scale = (uint64_t)p->cie->data_align;
	uint64_t reg;
	switch (op) {
	case 0x0c: /* def_cfa */
		reg = dwarf_uleb(r);
		set_cfa(p, reg, (int64_t)dwarf_uleb(r));
		return true;
	case 0x0d: /* def_cfa_register */
		set_cfa_register(p, dwarf_uleb(r));
		return true;
	case 0x0e: /* def_cfa_offset */
		set_cfa_offset(p, (int64_t)dwarf_uleb(r));
		return true;
	case 0x0f: /* def_cfa_expression */
		p->now.full.cfa = take_expression(p, CFI_REGISTER_VAL_EXPRESSION);
		p->now.odd_cfa = true;
		return true;
	case 0x12: /* def_cfa_sf */
		reg = dwarf_uleb(r);
		set_cfa(p, reg, (int64_t)((uint64_t)dwarf_sleb(r) * scale));
		return true;
	case 0x13: /* def_cfa_offset_sf */
		set_cfa_offset(p, (int64_t)((uint64_t)dwarf_sleb(r) * scale));
		return true;
	}
	return false;
}

/* An instruction about one register, which is its first operand; false: it is none. */
static bool run_register(struct cfi_execute *p, uint8_t op)
{
	struct dwarf_cursor *r = &p->reader;
	uint64_t reg = dwarf_uleb(r), other;
	switch (op) {
	case 0x05: /* offset_extended */
		put_at(p, reg, CFI_REGISTER_OFFSET, dwarf_uleb(r));
		return true;
	case 0x06: /* restore_extended */
		restore_register(p, reg);
		return true;
	case 0x07: /* undefined */
		set_place(&p->now, reg, (struct cfi_register){.how = CFI_REGISTER_UNDEFINED});
		return true;
	case 0x08: /* same_value */
		set_place(&p->now, reg, (struct cfi_register){.how = CFI_REGISTER_SAME_VALUE});
		return true;
	case 0x09: /* register */
		other = dwarf_uleb(r);
		r->bad |= other >= DWARF_REGS;
		set_place(&p->now, reg, (struct cfi_register){.how = CFI_REGISTER_REGISTER, .reg = (uint8_t)other});
		return true;
	case 0x10: /* expression */
		set_place(&p->now, reg, take_expression(p, CFI_REGISTER_EXPRESSION));
		return true;
	case 0x11: /* offset_extended_sf */
		put_at(p, reg, CFI_REGISTER_OFFSET, (uint64_t)dwarf_sleb(r));
		return true;
	case 0x14: /* val_offset */
		put_at(p, reg, CFI_REGISTER_VAL_OFFSET, dwarf_uleb(r));
		return true;
	case 0x15: /* val_offset_sf */
		put_at(p, reg, CFI_REGISTER_VAL_OFFSET, (uint64_t)dwarf_sleb(r));
		return true;
	case 0x16: /* val_expression */
		set_place(&p->now, reg, take_expression(p, CFI_REGISTER_VAL_EXPRESSION));
		return true;
	case 0x2e: /* GNU_args_size, which is no register */
		return true;
	case 0x2f: /* GNU_negative_offset_extended */
		put_at(p, reg, CFI_REGISTER_OFFSET, -dwarf_uleb(r));
		return true;
	}
	return false;
}

/* An instruction that is no advance; DWARF 5, 7.24. */
static void run_one(struct cfi_execute *p, uint8_t op)
{
	switch (op >> 6) {
	case 2:
		put_at(p, op & 0x3f, CFI_REGISTER_OFFSET, dwarf_uleb(&p->reader));
		return;
	case 3:
		restore_register(p, op & 0x3f);
		return;
	}
	if (op == 0x0a) /* remember_state */
		remember_state(p);
	else if (op == 0x0b) /* restore_state */
		restore_state(p);
	else if (op != 0x00 && !run_cfa(p, op) && !run_register(p, op)) /* 0: nop */
		p->reader.bad = true;
}

/* How far an instruction moves on, or -1 when it is another one. */
static int64_t read_advance_loc(struct dwarf_cursor *r, uint8_t op)
{
	if (op >> 6 == 1)
		return op & 0x3f;
	return op == 0x02   ? (int64_t)dwarf_uint(r, 1)
	       : op == 0x03 ? (int64_t)dwarf_uint(r, 2)
	       : op == 0x04 ? (int64_t)dwarf_uint(r, 4)
			    : -1;
}

/* Sets the state that holds before the entry's own instructions. */
static bool run_initial(struct cfi_execute *p)
{
	const struct cfi_cie *cie = p->cie;
	const size_t slot = (size_t)(cie - p->section->cies);
	p->n_remembered = 0;
	if (p->initial_of[slot].known && p->initial_of[slot].off == cie->off) {
		copy_state(&p->now, &p->initial[slot]);
		return true;
	}
	clear_state(&p->initial[slot], cie->signal);
	clear_state(&p->now, cie->signal);
	p->reader = cie->program;
	while (!p->reader.bad && p->reader.p < p->reader.end)
		run_one(p, dwarf_u8(&p->reader));
	p->initial[slot] = p->now;
	p->initial_of[slot].known = !p->reader.bad;
	p->initial_of[slot].off = cie->off;
	return !p->reader.bad;
}

void cfi_execute_begin(struct cfi_execute *p, const struct cfi_entry *e, uint64_t limit)
{
	p->cie = cfi_cie_get(p->section, e->cie);
	p->at = e->start;
	p->limit = limit;
	p->bad = !p->cie || !run_initial(p);
	p->done = p->bad;
	p->reader = dwarf_read(p->section->bytes->data + e->program, e->stop - e->program);
}

static bool is_usual(const struct cfi_state *s)
{
	return !s->odd && !s->odd_cfa && s->usual.at[CFI_RULE_SAVED_RA] != CFI_RULE_SAME;
}

/*
 * Shortcuts for nearly all instructions: those with operands of one byte, in a state of the usual form. A module has a
 * million of them and is on its first sample, so the words that they change are kept in registers. Everything that can
 * be done here is done here, as the change to run_any() and back takes time. The sequence that a prologue repeats, an
 * advance, the CFA's offset and a register's place, is one step. A shortcut is refused where run_any() knows more, also
 * for malformed instructions.
 */
struct shortcut {
	const uint8_t *at, *end;
	uint64_t from;
	uint64_t cfa, low, high; /* words of the rule */
};

#define INLINE static inline __attribute__((always_inline))

/* Where rule.at has a register: bits of the words `low` and `high`. */
#define AT(slot, reg)                                                                                                  \
	[reg] = {(slot) < 4 ? 0xffffull << 16 * ((slot) % 4) : 0, (slot) < 4 ? 0 : 0xffffull << 16 * ((slot) % 4)},
static const struct {
	uint64_t low, high;
} at_bits[DWARF_RA] = {CFI_SAVED_REGS(AT)};

/* Word by word: a load that spans two stores which have just been made would wait for both. */
INLINE void save_words(struct cfi_rule *to, const struct shortcut *x)
{
	memcpy((char *)to, &x->cfa, sizeof(x->cfa));
	memcpy((char *)to + 8, &x->low, sizeof(x->low));
	memcpy((char *)to + 16, &x->high, sizeof(x->high));
}

INLINE void load_words(struct shortcut *x, const struct cfi_rule *from)
{
	x->cfa = cfi_rule_word(from, 0);
	x->low = cfi_rule_word(from, 1);
	x->high = cfi_rule_word(from, 2);
}

/* The next eight bytes, of which the instructions have `left`: behind their end are nops. */
INLINE uint64_t peek_instructions(const uint8_t *at, size_t left)
{
	uint64_t w;
	memcpy(&w, at, sizeof(w));
	return left >= sizeof(w) ? w : w & ((1ull << 8 * left) - 1);
}

/* An advance: bytes it takes, 0: it is none; *ret_step: how far. */
INLINE size_t short_advance(uint64_t w, size_t left, uint64_t *ret_step)
{
	if ((w & 0xc0) == 0x40)
		return *ret_step = w & 0x3f, 1;
	if ((uint8_t)w == 0x02 && left > 1)
		return *ret_step = (uint8_t)(w >> 8), 2;
	if ((uint8_t)w == 0x03 && left > 2)
		return *ret_step = (uint16_t)(w >> 8), 3;
	return 0;
}

/* def_cfa_offset, offset, or the one and then the other: bytes they take. */
INLINE size_t short_offsets(struct shortcut *x, uint64_t w, size_t left)
{
	size_t len = 0;
	if ((w & 0x80ff) == 0x0e && left > 1) {
		x->cfa = (uint32_t)x->cfa | (w >> 8 & 0x7f) << 32;
		w >>= 16;
		len = 2;
	}
	if ((w & 0x80c0) == 0x80 && (w & 0x3f) < DWARF_RA && left > len + 1) {
		const uint64_t low = at_bits[w & 0x3f].low, high = at_bits[w & 0x3f].high;
		const uint64_t words = (uint16_t) - (w >> 8 & 0x7f) * 0x0001000100010001ull;
		x->low ^= (x->low ^ words) & low;
		x->high ^= (x->high ^ words) & high;
		len += low | high ? 2 : 0;
	}
	return len;
}

/* Instructions that come once or twice in a function. Returns the bytes that it takes, 0: refused. */
INLINE size_t short_other(struct cfi_execute *p, struct shortcut *x, uint64_t w)
{
	const uint8_t operand = (uint8_t)(w >> 8), second = (uint8_t)(w >> 16);
	struct cfi_state *s;
	switch ((uint8_t)w) {
	case 0x00: /* nop */
		return 1;
	case 0x0a: /* remember_state */
		if (p->n_remembered == CFI_REMEMBER_MAX)
			return 0;
		s = &p->remembered[p->n_remembered++];
		s->odd = 0;
		s->odd_cfa = false;
		s->gone = p->now.gone;
		save_words(&s->usual, x);
		return 1;
	case 0x0b: /* restore_state */
		if (!p->n_remembered || !is_usual(s = &p->remembered[p->n_remembered - 1]))
			return 0;
		p->n_remembered--;
		p->now.gone = s->gone;
		load_words(x, &s->usual);
		return 1;
	case 0x0c: /* def_cfa */
		if (operand >= DWARF_REGS || second >= 0x80)
			return 0;
		x->cfa = (x->cfa & 0xffff00ff) | (uint64_t)operand << 8 | (uint64_t)second << 32;
		return 3;
	case 0x0d: /* def_cfa_register */
		if (operand >= DWARF_REGS)
			return 0;
		x->cfa = (x->cfa & ~0xff00ull) | (uint64_t)operand << 8;
		return 2;
	case 0x0e: /* def_cfa_offset of large frames */
		if (operand < 0x80 || second >= 0x80)
			return 0;
		x->cfa = (uint32_t)x->cfa | (uint64_t)((operand & 0x7fu) | second << 7) << 32;
		return 3;
	case 0x2e: /* GNU_args_size */
		return operand < 0x80 ? 2 : 0;
	}
	return 0;
}

/* Index of the next row: one of no length is none. */
INLINE size_t put_short(struct shortcut *x, struct cfi_row *rows, size_t n, uint64_t step)
{
	rows[n].from = x->from;
	save_words(&rows[n].rule, x);
	x->from += step;
	return n + (step > 0);
}

static size_t run_shortcuts(struct cfi_execute *p, struct cfi_row *rows, size_t n)
{
	const uint8_t *const section_end = p->section->bytes->data + p->section->bytes->size;
	const uint64_t limit = p->limit;
	struct shortcut x = {.at = p->reader.p, .end = p->reader.end, .from = p->at};
	load_words(&x, &p->now.usual);
	while (n < CFI_BATCH && x.from < limit && section_end - x.at >= 8) {
		const size_t left = (size_t)(x.end - x.at);
		uint64_t w = peek_instructions(x.at, left), step;
		if (!w && left <= 8) { /* the end: only nops are left */
			n = put_short(&x, rows, n, limit - x.from);
			break;
		}
		size_t len = short_advance(w, left, &step);
		if (len) {
			n = put_short(&x, rows, n, step);
			w >>= 8 * len;
		}
		len += short_offsets(&x, w, left - len);
		if (!len && (!(len = short_other(p, &x, w)) || len > left))
			break;
		x.at += len;
	}
	p->done = x.from >= limit;
	p->at = x.from;
	p->reader.p = x.at;
	save_words(&p->now.usual, &x);
	return n;
}

/* The row that ends here; a rule that is not of the usual form ends the batch. */
static bool put_row(struct cfi_execute *p, struct cfi_row *rows, size_t *n)
{
	const bool usual = is_usual(&p->now);
	rows[*n] = (struct cfi_row){p->at, p->now.usual};
	if (!usual)
		rows[*n].rule.kind = CFI_RULE_FULL;
	++*n;
	return usual;
}

/* The next instruction, whatever it is; false: the batch ends. */
static bool run_any(struct cfi_execute *p, struct cfi_row *rows, size_t *n)
{
	struct dwarf_cursor *r = &p->reader;
	if (r->p == r->end) {
		p->done = true;
		return put_row(p, rows, n);
	}
	uint8_t op = dwarf_u8(r);
	int64_t step = read_advance_loc(r, op);
	if (step < 0)
		run_one(p, op);
	p->bad = r->bad;
	if (step <= 0 || p->bad)
		return !p->bad;
	bool usual = put_row(p, rows, n);
	p->at += (uint64_t)step;
	p->done = p->at >= p->limit;
	return usual;
}

size_t cfi_execute_rows(struct cfi_execute *p, struct cfi_row rows[CFI_BATCH])
{
	size_t n = 0;
	bool more = true;
	while (more && n < CFI_BATCH && !p->done) {
		if (is_usual(&p->now) && p->cie->data_align == -8)
			n = run_shortcuts(p, rows, n);
		if (n < CFI_BATCH && !p->done)
			more = run_any(p, rows, &n);
		p->done |= p->bad;
	}
	return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/epilogue.h"
#include "shim/event/insn_length.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PUSHED_MAX 32 /* of a way, below the stack pointer that it began with */
#define WAYS_MAX 48   /* beside the one under way */
#define VISITS_BITS 12
_Static_assert(EPILOGUE_INSNS_MAX < 1u << VISITS_BITS, "there is always room");

/* --- values: those of registers at the address, and where they were saved, as far as they are known */

enum value_kind {
	VALUE_OTHER,
	VALUE_REGISTER, /* what register `n` had at the beginning */
	VALUE_ADDRESS,	/* base + n */
	VALUE_SAVED,	/* what memory at base + n had at the beginning */
};

/* All addresses are relative to the stack pointer that a way began with, or to the frame pointer. */
struct value {
	uint8_t kind, base; /* base: DWARF_RSP or DWARF_RBP */
	int32_t n;
};

/*
 * A call may be a function's last instruction, as that of abort(3) is: what is behind it may be another function. So a
 * way is the more doubtful the more calls it went on behind. The least doubtful one that comes to a return counts.
 *
 * Padding behind a call nearly always says that the function ends there: what such a way alone says is not believed.
 * (In glibc 2.41, held against its tables: 39 wrong rules of 45,771 instead of 522, for 1 % more that are unknown.)
 */
#define DOUBT_PADDING (1u << 16) /* more than calls without padding come to */
struct way {
	uint64_t at;
	unsigned doubt;
	struct value sp; /* VALUE_ADDRESS or VALUE_OTHER */
	struct value reg[DWARF_REGS];
	struct value pushed[PUSHED_MAX]; /* by words below the beginning */
};

/* An address that a way has come by. */
struct visit {
	uint32_t search; /* the number of the search; of another one the entry is free */
	unsigned doubt;
	uint64_t at;
	struct value sp;
};

struct epilogue {
	uint32_t search; /* the number of the one under way */
	struct visit visits[1u << VISITS_BITS];
	/* of the search under way */
	const struct epilogue_known *known;
	const struct elf_section *code; /* around the way; NULL: not looked up yet */
	struct way way;			/* under way */
	struct way ways[WAYS_MAX];
	unsigned n_ways, insns; /* insns: that may still be looked at */
	bool contradiction;
	bool obscure;	      /* a way could not be followed */
	struct cfi_rule rule; /* kind CFI_RULE_NONE: no way has come to a return */
	unsigned doubt;	      /* of the way that did */
};

static struct value address_of(uint8_t base, int64_t n)
{
	if (n != (int32_t)n)
		return (struct value){.kind = VALUE_OTHER};
	return (struct value){VALUE_ADDRESS, base, (int32_t)n};
}

static struct value offset_value(struct value v, int64_t n)
{
	return v.kind == VALUE_ADDRESS ? address_of(v.base, v.n + n) : (struct value){.kind = VALUE_OTHER};
}

/* The slot of `pushed` for an address; NULL: it has none, and memory there is as it was. */
static struct value *pushed_at(struct way *w, struct value address)
{
	if (address.kind != VALUE_ADDRESS || address.base != DWARF_RSP || address.n >= 0 || address.n % 8 ||
		address.n < -8 * PUSHED_MAX)
		return NULL;
	return &w->pushed[-address.n / 8 - 1];
}

static struct value load_value(struct way *w, struct value address)
{
	const struct value *pushed = pushed_at(w, address);
	if (pushed)
		return *pushed;
	if (address.kind != VALUE_ADDRESS || (address.base == DWARF_RSP && address.n < 0))
		return (struct value){.kind = VALUE_OTHER};
	return (struct value){VALUE_SAVED, address.base, address.n};
}

static void push_value(struct way *w, struct value v)
{
	w->sp = offset_value(w->sp, -8);
	struct value *to = pushed_at(w, w->sp);
	if (to)
		*to = v;
}

static struct value pop_value(struct way *w)
{
	const struct value v = load_value(w, w->sp);
	w->sp = offset_value(w->sp, 8);
	return v;
}

/* What a register holds as an address: the frame pointer of the beginning is one, any other is not. */
static struct value as_address(struct value v)
{
	if (v.kind == VALUE_REGISTER && v.n == DWARF_RBP)
		return address_of(DWARF_RBP, 0);
	return v.kind == VALUE_ADDRESS ? v : (struct value){.kind = VALUE_OTHER};
}

/* --- a return */

/*
 * Registers of the caller that a rule has places for: those are below the return address. Assembly may use registers
 * without saving them where its caller, which it knows, does not need them.
 */
static void fill_saved(const struct way *w, uint8_t base, int64_t cfa, struct cfi_rule *ret)
{
#define REG(slot, reg) reg,
	static const uint8_t regs[] = {CFI_SAVED_REGS(REG)};
	for (unsigned i = 0; i < sizeof(regs); i++) {
		const struct value v = w->reg[regs[i]];
		const int64_t words = (v.n - cfa) / 8;
		if (v.kind == VALUE_REGISTER && v.n == regs[i])
			continue;
		if (v.kind == VALUE_SAVED && v.base == base && (v.n - cfa) % 8 == 0 && words < -1 &&
			words > CFI_RULE_SAME)
			ret->at[i] = (int16_t)words;
		else
			ret->lost |= (uint8_t)(1u << i);
	}
}

/* Two ways to the return: what they do not agree on is lost. False: they return to different places. */
static bool merge_rule(struct cfi_rule *r, const struct cfi_rule *other)
{
	if (r->cfa_reg != other->cfa_reg || r->cfa != other->cfa)
		return false;
	r->lost |= other->lost;
	for (unsigned i = 0; i < CFI_RULE_SAVED_RA; i++) {
		if (r->at[i] != other->at[i])
			r->lost |= (uint8_t)(1u << i);
		if (r->lost & 1u << i)
			r->at[i] = CFI_RULE_SAME;
	}
	return true;
}

/* The function returns: its return address is at the stack pointer. */
static void note_return(struct epilogue *s)
{
	const struct way *w = &s->way;
	const int64_t cfa = (int64_t)w->sp.n + 8;
	struct cfi_rule r = {.kind = CFI_RULE_FRAME, .cfa_reg = w->sp.base, .cfa = (int32_t)cfa};
	for (unsigned i = 0; i < CFI_RULE_SAVED; i++)
		r.at[i] = CFI_RULE_SAME;
	r.at[CFI_RULE_SAVED_RA] = -1;
	const bool below = w->sp.base == DWARF_RSP && w->sp.n < 0;
	s->contradiction |= below;
	if (w->sp.kind != VALUE_ADDRESS || below || cfa > INT32_MAX)
		return;
	fill_saved(w, w->sp.base, cfa, &r);
	if (s->rule.kind == CFI_RULE_NONE) {
		s->rule = r;
		s->doubt = w->doubt;
	} else
		s->contradiction |= !merge_rule(&s->rule, &r);
}

/* --- instructions */

struct insn {
	const uint8_t *p; /* behind prefixes and REX */
	uint64_t next;	  /* where the next one begins */
	size_t left;	  /* bytes from p */
	uint8_t rex;
	bool narrow; /* 66: of operands of two bytes, or a part of the opcode */
};

static int32_t read_signed(const uint8_t *p, size_t size)
{
	int32_t n;
	if (size == 1)
		return (int8_t)*p;
	memcpy(&n, p, sizeof(n));
	return n;
}

static bool is_prefix(uint8_t b)
{
	return b == 0x66 || b == 0x67 || b == 0xf0 || b == 0xf2 || b == 0xf3 || b == 0x2e || b == 0x3e || b == 0x26 ||
	       b == 0x36 || b == 0x64 || b == 0x65;
}

static bool is_rex(uint8_t b)
{
	return (b & 0xf0) == 0x40;
}

static uint8_t get_byte(const struct epilogue *s, uint64_t vaddr) /* which is in the code */
{
	return s->code->data[vaddr - s->code->vaddr];
}

static bool read_insn(const struct epilogue *s, struct insn *ret)
{
	const uint64_t off = s->way.at - s->code->vaddr;
	if (off >= s->code->size)
		return false;
	const uint8_t *p = s->code->data + off;
	const int size = insn_length(p, s->code->size - off);
	if (size <= 0)
		return false;
	*ret = (struct insn){.next = s->way.at + (uint64_t)size};
	const uint8_t *end = p + size;
	for (; p < end && (is_prefix(*p) || is_rex(*p)); p++) {
		ret->rex = is_rex(*p) ? *p : 0; /* it counts where it is the last one */
		ret->narrow |= *p == 0x66;
	}
	ret->p = p;
	ret->left = (size_t)(end - p);
	return p < end;
}

#define REX_B(i) ((i)->rex & 1)
#define REX_R(i) ((i)->rex >> 2 & 1)
#define REX_W(i) ((i)->rex >> 3 & 1)

/* The machine's numbers of registers to DWARF's (psABI, figure 3.36). */
static uint8_t dwarf_reg_of(unsigned n)
{
	static const uint8_t of[8] = {
		DWARF_RAX, DWARF_RCX, DWARF_RDX, DWARF_RBX, DWARF_RSP, DWARF_RBP, DWARF_RSI, DWARF_RDI};
	return n < 8 ? of[n] : (uint8_t)n;
}

struct modrm {
	uint8_t reg, rm; /* of DWARF; rm: the register, or the base of memory */
	uint8_t op;	 /* the bits of reg as they are */
	bool memory;	 /* at rm + disp, `plain`: without an index */
	bool plain;
	int32_t disp;
};

/* Behind an opcode of one byte. An instruction that is none of ours may be too short for it: memory that is not plain.
 */
static struct modrm read_modrm(const struct insn *i)
{
	const uint8_t *p = i->p + 1, *end = i->p + i->left;
	if (i->left < 2)
		return (struct modrm){.memory = true};
	const unsigned mod = *p >> 6, op = *p >> 3 & 7, low = *p & 7;
	struct modrm m = {.reg = dwarf_reg_of(op | REX_R(i) << 3),
		.rm = dwarf_reg_of(low | REX_B(i) << 3),
		.op = (uint8_t)op,
		.memory = mod != 3,
		.plain = true};
	if (!m.memory)
		return m;
	p++;
	if (low == 4 && p < end) {
		m.plain = (*p >> 3 & 7) == 4 && !(i->rex & 2); /* no index */
		m.rm = dwarf_reg_of((*p & 7) | REX_B(i) << 3);
		m.plain &= !(mod == 0 && (*p & 7) == 5);
		p++;
	} else {
		m.plain = !(mod == 0 && low == 5); /* relative to the instruction */
	}
	const size_t size = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (size > (size_t)(end - p))
		m.plain = false;
	else if (size)
		m.disp = read_signed(p, size);
	return m;
}

/* Memory at rm + disp, as an address of ours. */
static struct value address_of_memory(const struct way *w, const struct modrm *m)
{
	if (!m->plain)
		return (struct value){.kind = VALUE_OTHER};
	if (m->rm == DWARF_RSP)
		return offset_value(w->sp, m->disp);
	return offset_value(as_address(w->reg[m->rm]), m->disp);
}

static struct value get_register(const struct way *w, uint8_t reg)
{
	return reg == DWARF_RSP ? w->sp : w->reg[reg];
}

static void set_register(struct way *w, uint8_t reg, struct value v)
{
	if (reg == DWARF_RSP)
		w->sp = as_address(v);
	else
		w->reg[reg] = v;
}

/* mov, lea and arithmetic of whole registers, as far as it is of use. */
static void execute_modrm(struct way *w, const struct insn *i)
{
	const uint8_t op = i->p[0];
	const struct modrm m = read_modrm(i);
	const struct value other = {.kind = VALUE_OTHER};
	switch (op) {
	case 0x8b: /* mov to reg */
		if (m.memory)
			set_register(w, m.reg, REX_W(i) ? load_value(w, address_of_memory(w, &m)) : other);
		else
			set_register(w, m.reg, REX_W(i) ? get_register(w, m.rm) : other);
		break;
	case 0x89: /* mov from reg */
		if (!m.memory) {
			set_register(w, m.rm, REX_W(i) ? get_register(w, m.reg) : other);
		} else {
			struct value *to = pushed_at(w, address_of_memory(w, &m));
			if (to)
				*to = REX_W(i) ? get_register(w, m.reg) : other;
		}
		break;
	case 0x8d: /* lea */
		set_register(w, m.reg, REX_W(i) && m.memory ? address_of_memory(w, &m) : other);
		break;
	case 0x81:
	case 0x83: { /* add and sub of a number; the others of this group */
		const int32_t n = read_signed(i->p + i->left - (op == 0x83 ? 1 : 4), op == 0x83 ? 1 : 4);
		if (m.memory || m.rm != DWARF_RSP || m.op == 7) /* cmp */
			break;
		w->sp = !REX_W(i)   ? other
			: m.op == 0 ? offset_value(w->sp, n)
			: m.op == 5 ? offset_value(w->sp, -(int64_t)n)
				    : other;
		break;
	}
	default:
		break;
	}
}

/* True: an instruction of two operands that changes the register in rm; false for one that changes reg, or none. */
static bool changes_rsp(const struct insn *i)
{
	const uint8_t op = i->p[0];
	const struct modrm m = read_modrm(i);
	if (op < 0x38 && (op & 7) == 1) /* add, or, adc, sbb, and, sub, xor to rm */
		return !m.memory && m.rm == DWARF_RSP;
	if (op < 0x38 && (op & 7) == 3) /* to reg */
		return m.reg == DWARF_RSP;
	if (op == 0x87) /* xchg */
		return m.reg == DWARF_RSP || (!m.memory && m.rm == DWARF_RSP);
	if (op == 0xc7 || op == 0xf7 || op == 0xd1 || op == 0xc1 || op == 0xd3) /* mov of a number; not, neg; shifts */
		return !m.memory && m.rm == DWARF_RSP && !(op == 0xf7 && m.op < 2);
	return op == 0x63 && m.reg == DWARF_RSP; /* movslq */
}

enum end {
	GOES_ON,
	CALLS,
	RETURNS,
	ENDS,	/* nothing comes then: a trap */
	LEAVES, /* for an address that the code does not tell */
	JUMPS,
	BRANCHES,
};

/* Changes the way by an instruction of one byte, or of a group that is told by its second one. */
static enum end execute_group(struct way *w, const struct insn *i)
{
	const struct modrm m = read_modrm(i);
	if (i->p[0] == 0xff && m.op == 6) /* push of memory */
		push_value(w, load_value(w, m.memory ? address_of_memory(w, &m) : (struct value){.kind = VALUE_OTHER}));
	if (i->p[0] == 0x8f && m.op == 0) /* else XOP */
		pop_value(w);
	if (i->p[0] == 0xff && m.op >= 4 && m.op <= 5) {
		/* a stub of .plt, or a call of its kind, jumps through a slot of its own: to another function */
		const bool slot = m.op == 4 && m.memory && (i->p[1] & 0xc7) == 5;
		return slot ? RETURNS : LEAVES;
	}
	return i->p[0] == 0xff && (m.op == 2 || m.op == 3) ? CALLS : GOES_ON;
}

static enum end execute_insn(struct way *w, const struct insn *i, uint64_t *ret_target)
{
	const uint8_t op = i->p[0];
	const struct value other = {.kind = VALUE_OTHER};
	const uint8_t low = dwarf_reg_of((op & 7) | REX_B(i) << 3);
	switch (op) {
	case 0x50 ... 0x57:
		push_value(w, i->narrow ? other : get_register(w, low));
		if (i->narrow)
			w->sp = other;
		return GOES_ON;
	case 0x58 ... 0x5f:
		if (i->narrow)
			w->sp = other;
		else if (low == DWARF_RSP)
			w->sp = other;
		else
			set_register(w, low, pop_value(w));
		return GOES_ON;
	case 0x68:
	case 0x6a:
	case 0x9c: /* pushf */
		push_value(w, other);
		return GOES_ON;
	case 0x9d: /* popf */
		pop_value(w);
		return GOES_ON;
	case 0xc9: /* leave */
		w->sp = as_address(w->reg[DWARF_RBP]);
		w->reg[DWARF_RBP] = pop_value(w);
		return GOES_ON;
	case 0xc8: /* enter */
		w->sp = other;
		return GOES_ON;
	case 0xe8:
		return CALLS;
	case 0x90 ... 0x97: /* xchg with rax */
	case 0xb8 ... 0xbf: /* mov of a number */
		if (low == DWARF_RSP)
			w->sp = other;
		return GOES_ON;
	case 0xc2:
	case 0xc3:
		return RETURNS;
	case 0xca: /* returns to another segment, or from an interrupt */
	case 0xcb:
	case 0xcf:
		return LEAVES;
	case 0xcc: /* int3, int, hlt */
	case 0xcd:
	case 0xf4:
		return ENDS;
	case 0xe9:
	case 0xeb:
		*ret_target = i->next + (uint64_t)(int64_t)read_signed(i->p + 1, op == 0xeb ? 1 : 4);
		return JUMPS;
	case 0x70 ... 0x7f:
	case 0xe0 ... 0xe3: /* loop, jrcxz */
		*ret_target = i->next + (uint64_t)(int64_t)read_signed(i->p + 1, 1);
		return BRANCHES;
	case 0x0f:
		if (i->left >= 6 && (i->p[1] & 0xf0) == 0x80) {
			*ret_target = i->next + (uint64_t)(int64_t)read_signed(i->p + 2, 4);
			return BRANCHES;
		}
		if (i->left > 2 && (i->p[1] & 0xf0) == 0x40 &&
			dwarf_reg_of((i->p[2] >> 3 & 7) | REX_R(i) << 3) == DWARF_RSP)
			w->sp = other;					/* cmov */
		return i->left > 1 && i->p[1] == 0x0b ? ENDS : GOES_ON; /* ud2 */
	case 0x8f:
	case 0xff:
		return execute_group(w, i);
	case 0x81:
	case 0x83:
	case 0x89:
	case 0x8b:
	case 0x8d:
		execute_modrm(w, i);
		return GOES_ON;
	default:
		if (changes_rsp(i))
			w->sp = other;
		return GOES_ON;
	}
}

/* --- ways */

/* True: a way has been here. With another stack pointer, one of two that are as doubtful cannot be what runs. */
static bool was_here(struct epilogue *s)
{
	const struct way *w = &s->way;
	uint32_t i = (uint32_t)(w->at * 0x9e3779b97f4a7c15ull >> (64 - VISITS_BITS));
	struct visit *v = &s->visits[i];
	while (v->search == s->search && v->at != w->at)
		v = &s->visits[i = (i + 1) % (1u << VISITS_BITS)];
	if (v->search == s->search) {
		s->contradiction |= v->doubt == w->doubt && v->sp.kind == VALUE_ADDRESS &&
				    w->sp.kind == VALUE_ADDRESS && v->sp.base == w->sp.base && v->sp.n != w->sp.n;
		return true;
	}
	*v = (struct visit){s->search, w->doubt, w->at, w->sp};
	return false;
}

static void add_way(struct epilogue *s, uint64_t at, unsigned doubt)
{
	if (s->n_ways == WAYS_MAX) {
		s->obscure = true;
		return;
	}
	struct way *to = &s->ways[s->n_ways++];
	*to = s->way;
	to->at = at;
	to->doubt = s->way.doubt + doubt;
}

/* Takes the least doubtful way, of several the last one. False: there is none that could still count. */
static bool take_way(struct epilogue *s)
{
	unsigned best = s->n_ways;
	for (unsigned i = s->n_ways; i-- > 0;)
		if (best == s->n_ways || s->ways[i].doubt < s->ways[best].doubt)
			best = i;
	if (best == s->n_ways || (s->rule.kind != CFI_RULE_NONE && s->ways[best].doubt > s->doubt))
		return false;
	s->way = s->ways[best];
	s->ways[best] = s->ways[--s->n_ways];
	return true;
}

static bool is_in_code(const struct epilogue *s, uint64_t vaddr)
{
	return s->code && vaddr - s->code->vaddr < s->code->size;
}

/* A jump may lead to another stretch of code. */
static bool enter_code(struct epilogue *s, uint64_t vaddr)
{
	if (!is_in_code(s, vaddr))
		s->code = s->known->code(s->known->arg, vaddr);
	return is_in_code(s, vaddr);
}

/* Padding before another function, for the alignment: a nop of any length, or int3. */
static bool is_padding(const struct epilogue *s, uint64_t vaddr)
{
	for (unsigned i = 0; i < INSN_LENGTH_MAX && is_in_code(s, vaddr); i++, vaddr++)
		if (get_byte(s, vaddr) != 0x66 && get_byte(s, vaddr) != 0x2e)
			break;
	if (!is_in_code(s, vaddr))
		return false;
	const uint8_t b = get_byte(s, vaddr);
	return b == 0x90 || b == 0xcc || (b == 0x0f && is_in_code(s, vaddr + 1) && get_byte(s, vaddr + 1) == 0x1f);
}

static void follow_way(struct epilogue *s)
{
	struct insn i;
	uint64_t target = 0;
	while (!s->contradiction && s->insns && !was_here(s)) {
		s->insns--;
		if (!enter_code(s, s->way.at) || !read_insn(s, &i)) {
			s->obscure = true;
			return;
		}
		switch (execute_insn(&s->way, &i, &target)) {
		case GOES_ON:
			s->way.at = i.next;
			break;
		case CALLS: /* what is called before the next function begins does not return */
			if (s->known->begins(s->known->arg, i.next))
				return;
			add_way(s, i.next, is_padding(s, i.next) ? DOUBT_PADDING : 1);
			return;
		case JUMPS:
			if (s->known->begins(s->known->arg, target)) {
				note_return(s);
				return;
			}
			s->way.at = target;
			break;
		case BRANCHES:
			add_way(s, target, 0);
			s->way.at = i.next;
			break;
		case RETURNS:
			note_return(s);
			return;
		case LEAVES:
			s->obscure = true;
			return;
		case ENDS:
			return;
		}
	}
}

static void begin_search(struct epilogue *s, const struct epilogue_known *known, uint64_t vaddr, unsigned insns)
{
	if (++s->search == 0) { /* numbers begin again: none may be left of the last time */
		memset(s->visits, 0, sizeof(s->visits));
		s->search = 1;
	}
	s->known = known;
	s->code = NULL;
	s->insns = insns < EPILOGUE_INSNS_MAX ? insns : EPILOGUE_INSNS_MAX;
	s->contradiction = s->obscure = false;
	s->rule = (struct cfi_rule){.kind = CFI_RULE_NONE};
	s->way = (struct way){.at = vaddr, .sp = address_of(DWARF_RSP, 0)};
	for (unsigned i = 0; i < DWARF_REGS; i++)
		s->way.reg[i] = (struct value){.kind = VALUE_REGISTER, .n = (int32_t)i};
	s->n_ways = 0;
	add_way(s, vaddr, 0);
}

/* What a signal handler returns to; the kernel then takes the registers of the code that was interrupted. */
static bool is_restorer(const struct elf_section *code, uint64_t vaddr)
{
	static const uint8_t restorer[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}; /* mov $15, %rax; syscall */
	const uint64_t off = vaddr - code->vaddr;
	return off < code->size && code->size - off >= sizeof(restorer) &&
	       !memcmp(code->data + off, restorer, sizeof(restorer));
}

enum epilogue_outcome epilogue_find(struct epilogue *s, const struct epilogue_known *known, uint64_t vaddr, bool called,
	unsigned *insns, struct cfi_rule *ret)
{
	begin_search(s, known, vaddr, *insns);
	const bool begins = known->begins(known->arg, vaddr);
	const unsigned had = s->insns;
	*ret = (struct cfi_rule){.kind = CFI_RULE_NONE};
	if (enter_code(s, vaddr) && is_restorer(s->code, vaddr))
		return EPILOGUE_UNKNOWN;
	while (!begins && !s->contradiction && take_way(s))
		follow_way(s);
	if (begins && !called) /* nothing but the call has happened, which pushed the return address */
		note_return(s);
	*insns -= had - s->insns;
	const bool other = s->rule.kind != CFI_RULE_NONE && s->doubt >= DOUBT_PADDING;
	if (s->contradiction || other || (s->rule.kind == CFI_RULE_NONE && (s->obscure || !s->insns)))
		return EPILOGUE_UNKNOWN;
	*ret = s->rule;
	return s->rule.kind == CFI_RULE_NONE ? EPILOGUE_NEVER : EPILOGUE_FOUND;
}

int epilogue_new(struct epilogue **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

struct epilogue *epilogue_free(struct epilogue *s)
{
	free(s);
	return NULL;
}

/* call: E8 and four bytes, or FF /2 with up to six more and a prefix (SDM, volume 2, "CALL"). */
bool epilogue_is_behind_call(const struct elf_section *code, uint64_t vaddr)
{
	const uint64_t off = vaddr - code->vaddr;
	if (off > code->size)
		return false;
	if (is_restorer(code, vaddr))
		return true;
	for (size_t size = 2; size <= 8 && size <= off; size++) {
		const uint8_t *p = code->data + off - size;
		if (insn_length(p, size) != (int)size)
			continue;
		const uint8_t *op = p;
		while (op < p + size - 2 && (is_prefix(*op) || is_rex(*op)))
			op++;
		if ((*op == 0xe8 && op + 5 == p + size) || (*op == 0xff && (op[1] & 0x38) == 0x10))
			return true;
	}
	return false;
}

#define FP_SHARE 4096 /* bytes of code for each place that sets one up, at most */

bool epilogue_keeps_fp(const struct elf_section *code)
{
	static const uint8_t insns[][4] = {{0x55, 0x48, 0x89, 0xe5}, {0x55, 0x48, 0x8b, 0xec}}; /* push; mov */
	size_t n = 0;
	for (unsigned i = 0; i < sizeof(insns) / sizeof(insns[0]); i++) {
		const uint8_t *p = code->data, *end = code->data + code->size;
		for (; (p = memmem(p, (size_t)(end - p), insns[i], sizeof(insns[i]))); p += sizeof(insns[i]))
			n++;
	}
	return n > code->size / FP_SHARE;
}

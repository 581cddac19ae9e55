/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/unwind.h"

#include "profiler/unwind/eh_frame_hdr.h"
#include "profiler/unwind/epilogue.h"
#include "profiler/unwind/unwind_table.h"

#include <elf.h>
#include <errno.h>
#include <libunwind.h>
#include <stdlib.h>
#include <string.h>

/*
 * How a stack is walked. Each step takes the compiled rule of the frame's address (unwind_table.h). Where the table has
 * none, but .eh_frame has an entry (one that unwind_table.c left out), libunwind is the last resort, for that step
 * alone: it gets a cursor, with registers and memory from the callbacks below and `struct walk` behind these. Before
 * each step the walk knows the mapping of the frame's code, and with it the only module from which libunwind may read
 * sections during that step. Else the frame pointer decides.
 */

/* exported, but in no header; tools that unwind remotely declare it themselves */
extern int UNW_OBJ(dwarf_search_unwind_table)(
	unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di, unw_proc_info_t *pi, int need_unwind_info, void *arg);

/* Words that libunwind may read: a frame never seen before takes some hundred, one in its cache about five. */
#define STEP_READS 16384
#define WALK_READS 262144
#define LOOK_UPS 16 /* look-ups for the last resort, each of which vets an entry */
#define WALK_RULES                                                                                                     \
	4 /* rules of a stack that are read from code, if each takes as long as it may; most take a hundredth */

/*
 * Behind the last pop and before the return, gcc's rules still say where registers were saved: below the stack pointer,
 * where the snapshot does not reach. They have been restored by then.
 */
#define POPPED (CFI_RULE_SAVED * 8)

/* Memory this far above the stack pointer is stack that the snapshot does not reach; the default RLIMIT_STACK. */
#define STACK_REACH (8u << 20)

struct cache { /* libunwind's data for one set of mappings */
	struct unwind_cache base;
	struct unwind *owner;
	struct cache *older, *newer;
	struct unwind_cache **slot; /* where the space holds us */
	unw_addr_space_t as;
};

/*
 * Where the return addresses of a thread's last sample were. Most of its callers are still there, and a snapshot is
 * cold: fetched one after the other, each by the address that the one before led to, they keep a walk waiting; fetched
 * at once they come together.
 */
#define PLACES 64
#define THREADS 32 /* told apart by where their stacks are */
struct places {
	unsigned n, n_rules;
	uint64_t at[PLACES];
	uint16_t rules[PLACES]; /* where the rules were */
};

/*
 * Rules of late. Most calls were seen a moment ago, and the way to a rule through its table is half a dozen lines of
 * cold memory. Here it is one line, and it is known ahead.
 */
#define RULES_BITS 11
struct recent_rule {
	uint64_t key; /* unwind_table_key */
	struct cfi_rule rule;
};

/* Rules that were read from code, and those that were not found there. */
#define CODE_RULES_BITS 10

struct unwind {
	struct places places[THREADS], no_thread; /* no_thread: of brief walks */
	struct recent_rule rules[1u << RULES_BITS], code_rules[1u << CODE_RULES_BITS];
	struct epilogue *epilogue; /* NULL: not needed so far */
	uint64_t last_resorts, code_stacks;
	bool no_last_resort;
	size_t reach;
	size_t count;
	struct cache *oldest, *newest; /* by use */
};

/* A mapping that frames of this stack were in: neighbours are often in the same one. */
#define CODES 4
struct walk {
	struct unwind_map map;
	uint64_t reg[DWARF_REGS]; /* of the frame; the return address is its ip */
	const uint8_t *stack;
	uint64_t stack_start, stack_end;
	uint64_t reached; /* the highest stack pointer in it */
	struct unwind *owner;
	struct places *places;
	unw_cursor_t cursor;

	unsigned next_code;
	uint32_t known;	  /* bit mask of registers that are */
	bool by_code;	  /* a rule was read from code */
	bool exact;	  /* the ip is that of an instruction, not a return address */
	bool brief;	  /* no more than the usual rules */
	bool other_stack; /* a signal handler ran on its own stack, and the interrupted one is not in the snapshot */
	struct unwind_code *code; /* the mapping at the ip */
	const struct unwind_table *rows;
	uint64_t vaddr; /* of the address that is looked up */
	struct unwind_code codes[CODES];

	unsigned step_reads, walk_reads, look_ups, last_resorts;
	unsigned code_insns; /* that may still be looked at (epilogue.h) */
	bool no_info, searching;
	enum unwind_stop trouble; /* first reason for a failed read in this step */
};

const char *unwind_stop_name(enum unwind_stop stop)
{
	static const char *const names[UNWIND_STOPS] = {
		[UNWIND_STACK] = "[truncated: stack]",
		[UNWIND_NO_INFO] = "[truncated: no unwind info]",
		[UNWIND_BAD_MEMORY] = "[truncated: bad memory]",
		[UNWIND_UNKNOWN_MAPPING] = "[truncated: unknown mapping]",
		[UNWIND_DEPTH] = "[truncated: depth]",
		[UNWIND_LOST_MAPPING] = "[truncated: lost mapping]",
		[UNWIND_SWITCH] = "[truncated: stack switch]",
	};
	return stop < UNWIND_STOPS ? names[stop] : NULL;
}

/* --- memory */

static bool stack_read(const struct walk *w, uint64_t addr, uint64_t *ret)
{
	if (addr < w->stack_start || addr > w->stack_end || w->stack_end - addr < sizeof(*ret))
		return false;
	memcpy(ret, w->stack + (addr - w->stack_start), sizeof(*ret));
	return true;
}

/* Why a read outside of the snapshot failed. */
static enum unwind_stop stack_trouble(const struct walk *w, uint64_t addr)
{
	bool above = addr >= w->stack_start && addr - w->stack_start < STACK_REACH;
	return above ? UNWIND_STACK : UNWIND_BAD_MEMORY;
}

/* Lay the section's bytes over a word; libunwind reads aligned words, and the ends of a section need not be. */
static bool section_read(const struct elf_section *s, uint64_t vaddr, uint64_t *word)
{
	uint64_t off = vaddr - s->vaddr;
	if (s->data && off < s->size && s->size - off >= sizeof(*word)) {
		memcpy(word, s->data + off, sizeof(*word));
		return true;
	}
	bool any = false;
	for (unsigned i = 0; s->data && i < sizeof(*word); i++)
		if (vaddr + i - s->vaddr < s->size) {
			((uint8_t *)word)[i] = s->data[vaddr + i - s->vaddr];
			any = true;
		}
	return any;
}

static bool image_read(const struct walk *w, uint64_t addr, uint64_t *ret)
{
	const struct elf *elf = w->code->elf;
	uint64_t vaddr = addr - w->code->bias;
	if (!elf)
		return false;
	*ret = 0;
	bool frame = section_read(&elf->eh_frame, vaddr, ret);
	return section_read(&elf->eh_frame_hdr, vaddr, ret) || frame;
}

static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *val, int write, void *arg)
{
	struct walk *w = arg;
	if (write || w->step_reads == 0 || w->walk_reads == 0)
		return -UNW_EINVAL;
	w->step_reads--;
	w->walk_reads--;
	uint64_t word;
	if (stack_read(w, addr, &word) || image_read(w, addr, &word)) {
		*val = word;
		return 0;
	}
	if (w->searching) { /* libunwind follows the pointer to the personality routine, which is of no use here */
		*val = 0;
		return 0;
	}
	if (w->trouble == UNWIND_END)
		w->trouble = stack_trouble(w, addr);
	return -UNW_EINVAL;
}

/* --- registers, unwind tables, and the other callbacks of libunwind */

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *val, int write, void *arg)
{
	_Static_assert((int)UNW_TDEP_SP == (int)DWARF_SP && (int)UNW_TDEP_IP == (int)DWARF_RA,
		"libunwind counts as DWARF does");
	const struct walk *w = arg;
	if (write || reg < 0 || reg >= DWARF_REGS || !(w->known & 1u << reg))
		return -UNW_EBADREG;
	*val = reg == DWARF_RA && !w->exact ? w->reg[reg] - 1 : w->reg[reg]; /* it takes the first ip literally */
	return 0;
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi, int need_unwind_info, void *arg)
{
	struct walk *w = arg;
	const struct unwind_code *code = w->code;
	uint64_t entry;
	w->no_info = true;
	if (!code->elf || eh_frame_hdr_find(code->elf, ip - code->bias, &entry) < 0)
		return -UNW_ENOINFO;
	/* the search is done: libunwind gets a table of the one entry */
	unw_dyn_info_t di = {
		.format = UNW_INFO_FORMAT_REMOTE_TABLE,
		.start_ip = 0,
		.end_ip = ~(unw_word_t)0,
		.u.rti = {.segbase = code->bias + code->elf->eh_frame_hdr.vaddr,
			.table_data = code->bias + entry,
			.table_len = 1},
	};
	w->searching = true;
	int r = UNW_OBJ(dwarf_search_unwind_table)(as, ip, &di, pi, need_unwind_info, arg);
	w->searching = false;
	w->no_info = r < 0;
	return r < 0 ? -UNW_ENOINFO : 0;
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
	/* libunwind frees its own data */
}

static int no_dyn_info_list(unw_addr_space_t as, unw_word_t *addr, void *arg)
{
	return -UNW_ENOINFO;
}

static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *val, int write, void *arg)
{
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	return -UNW_EINVAL;
}

static int no_proc_name(unw_addr_space_t as, unw_word_t ip, char *buf, size_t size, unw_word_t *offset, void *arg)
{
	return -UNW_EINVAL;
}

/* --- libunwind's address spaces */

static void list_remove(struct cache *c)
{
	struct unwind *u = c->owner;
	*(c->older ? &c->older->newer : &u->oldest) = c->newer;
	*(c->newer ? &c->newer->older : &u->newest) = c->older;
	u->count--;
}

static void list_append(struct cache *c)
{
	struct unwind *u = c->owner;
	c->newer = NULL;
	c->older = u->newest;
	*(u->newest ? &u->newest->newer : &u->oldest) = c;
	u->newest = c;
	u->count++;
}

static void cache_drop(struct unwind_cache *base)
{
	struct cache *c = (struct cache *)base; /* the first member */
	list_remove(c);
	unw_destroy_addr_space(c->as);
	free(c);
}

static void cache_free(struct cache *c)
{
	*c->slot = NULL;
	cache_drop(&c->base);
}

static unw_addr_space_t addr_space_new(void)
{
	unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = no_dyn_info_list,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = no_fpreg,
		.resume = no_resume,
		.get_proc_name = no_proc_name,
	};
	unw_addr_space_t as = unw_create_addr_space(&accessors, 0);
	if (as)
		unw_set_caching_policy(as, UNW_CACHE_GLOBAL);
	return as;
}

static struct cache *cache_new(struct unwind *u, struct unwind_cache **slot)
{
	struct cache *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->as = addr_space_new();
	if (!c->as) {
		free(c);
		return NULL;
	}
	c->base.drop = cache_drop;
	c->owner = u;
	c->slot = slot;
	*slot = &c->base;
	list_append(c);
	return c;
}

static struct cache *cache_get(struct unwind *u, const struct unwind_map *map)
{
	struct unwind_cache **slot = map->ops->cache(map->space);
	struct cache *c = (struct cache *)*slot;
	if (c && c->owner == u) {
		list_remove(c);
		list_append(c);
		return c;
	}
	if (c)
		cache_free(c);
	if (u->count >= UNWIND_CACHES)
		cache_free(u->oldest);
	return cache_new(u, slot);
}

/* --- one step: each returns UNWIND_END as "goes on", with the ip 0 when the stack is complete */

/* True: it may be a return address. Code that a table describes says no more than that it is code. */
static bool is_behind_call(const struct walk *w, uint64_t ra)
{
	struct unwind_code c;
	if (!w->map.ops->find(w->map.space, ra - 1, &c))
		return false;
	const struct code_stretch *code = c.rows ? unwind_table_code(c.rows, ra - 1 - c.bias) : NULL;
	return !code || epilogue_is_behind_call(&code->bytes, ra - c.bias);
}

static void set_reg(struct walk *w, enum dwarf_reg reg, uint64_t value)
{
	w->reg[reg] = value;
	w->known |= 1u << reg;
}

/*
 * At the frame pointer are the caller's frame pointer and the return address. A caller with frame pointer 0, or without
 * a return address, is the outermost frame; in a leaf, which may use the register for anything, that says nothing.
 */
static enum unwind_stop step_pointer(struct walk *w)
{
	uint64_t fp = w->reg[DWARF_FP], caller, ra;
	if (!(w->known & 1u << DWARF_FP))
		return UNWIND_NO_INFO;
	if (!fp && !w->exact) {
		w->reg[DWARF_RA] = 0;
		return UNWIND_END;
	}
	if (fp % 8 || fp < w->reg[DWARF_SP])
		return UNWIND_NO_INFO;
	if (!stack_read(w, fp, &caller) || !stack_read(w, fp + 8, &ra))
		return stack_trouble(w, fp) == UNWIND_STACK ? UNWIND_STACK : UNWIND_NO_INFO;
	if (ra ? !is_behind_call(w, ra) : w->exact)
		return UNWIND_NO_INFO;
	set_reg(w, DWARF_RA, ra);
	set_reg(w, DWARF_SP, fp + 16);
	set_reg(w, DWARF_FP, caller);
	w->exact = false;
	return UNWIND_END;
}

/*
 * The caller's stack lies above, unless this is a signal handler's frame, which may have a stack of its own. A leaf may
 * have popped its return address into a register (vfork): its caller's begins where it is.
 */
static enum unwind_stop enter_caller(struct walk *w, uint64_t sp, uint64_t ra, bool signal, bool popped)
{
	if (sp < w->reg[DWARF_SP] + !popped && !signal)
		return UNWIND_BAD_MEMORY;
	w->other_stack = signal && (sp < w->stack_start || sp > w->stack_end);
	set_reg(w, DWARF_SP, sp);
	set_reg(w, DWARF_RA, ra);
	w->exact = signal;
	return UNWIND_END;
}

static enum unwind_stop step_frame(struct walk *w, const struct cfi_rule *r)
{
#define REG(slot, reg) reg,
	static const uint8_t regs[] = {CFI_SAVED_REGS(REG)};
	uint64_t cfa = w->reg[r->cfa_reg] + (uint64_t)(int64_t)r->cfa, ra, value;
	if (!(w->known & 1u << r->cfa_reg))
		return UNWIND_NO_INFO;
	uint64_t place = cfa + (uint64_t)((int64_t)r->at[CFI_RULE_SAVED - 1] * 8);
	if (!stack_read(w, place, &ra))
		return stack_trouble(w, place);
	if (w->places->n < PLACES)
		w->places->at[w->places->n++] = place;
	for (unsigned i = 0; i < sizeof(regs); i++) {
		if (r->at[i] == CFI_RULE_SAME)
			continue;
		uint64_t slot = cfa + (uint64_t)((int64_t)r->at[i] * 8);
		if (stack_read(w, slot, &value))
			set_reg(w, regs[i], value);
		else if (!(w->exact && slot < w->reg[DWARF_SP] && w->reg[DWARF_SP] - slot <= POPPED))
			w->known &= ~(1u << regs[i]);
	}
	if (r->lost)
		for (unsigned i = 0; i < sizeof(regs); i++)
			w->known &= ~((uint32_t)(r->lost >> i & 1) << regs[i]);
	return enter_caller(w, cfa, ra, r->signal, false);
}

static bool read_for_rule(void *arg, uint64_t addr, uint64_t *ret)
{
	struct walk *w = arg;
	if (!w->walk_reads)
		return false;
	w->walk_reads--;
	if (stack_read(w, addr, ret))
		return true;
	if (w->trouble == UNWIND_END)
		w->trouble = stack_trouble(w, addr);
	return false;
}

/* The value that a register has in the caller; false: it cannot be found. */
static bool find_place(struct walk *w, const struct cfi_register *p, enum dwarf_reg reg, uint64_t cfa, uint64_t *ret)
{
	uint64_t at;
	switch ((enum cfi_register_kind)p->how) {
	case CFI_REGISTER_SAME_VALUE:
		*ret = w->reg[reg];
		return w->known & 1u << reg;
	case CFI_REGISTER_UNDEFINED:
		return false;
	case CFI_REGISTER_OFFSET:
		return read_for_rule(w, cfa + (uint64_t)p->n, ret);
	case CFI_REGISTER_VAL_OFFSET:
		*ret = cfa + (uint64_t)p->n;
		return true;
	case CFI_REGISTER_REGISTER:
		*ret = w->reg[p->reg] + (uint64_t)p->n;
		return w->known & 1u << p->reg;
	case CFI_REGISTER_EXPRESSION:
		return unwind_table_eval(w->rows, p, w->reg, w->known, &cfa, read_for_rule, w, &at) &&
		       read_for_rule(w, at, ret);
	case CFI_REGISTER_VAL_EXPRESSION:
		return unwind_table_eval(w->rows, p, w->reg, w->known, &cfa, read_for_rule, w, ret);
	}
	return false;
}

static enum unwind_stop step_full(struct walk *w, const struct cfi_rule *r)
{
	const struct cfi_rule_full *f = unwind_table_full(w->rows, r);
	uint64_t cfa, next[DWARF_REGS];
	uint32_t known = 0;
	w->trouble = UNWIND_END;
	bool found = f->cfa.how == CFI_REGISTER_VAL_EXPRESSION
			     ? unwind_table_eval(w->rows, &f->cfa, w->reg, w->known, NULL, read_for_rule, w, &cfa)
			     : find_place(w, &f->cfa, DWARF_SP, 0, &cfa);
	if (!found)
		return w->trouble != UNWIND_END ? w->trouble : UNWIND_NO_INFO;
	memcpy(next, w->reg, sizeof(next));
	for (unsigned i = 0; i < DWARF_REGS; i++)
		if (find_place(w, &f->reg[i], i, cfa, &next[i]))
			known |= 1u << i;
	bool has_sp = f->reg[DWARF_SP].how == CFI_REGISTER_SAME_VALUE || known & 1u << DWARF_SP;
	if (!has_sp || !(known & 1u << DWARF_RA) || f->reg[DWARF_RA].how == CFI_REGISTER_SAME_VALUE)
		return w->trouble != UNWIND_END ? w->trouble : UNWIND_NO_INFO;
	uint64_t sp = f->reg[DWARF_SP].how == CFI_REGISTER_SAME_VALUE ? cfa : next[DWARF_SP], old_sp = w->reg[DWARF_SP];
	memcpy(w->reg, next, sizeof(next));
	w->known = known;
	w->reg[DWARF_SP] = old_sp;
	bool popped = w->exact && f->reg[DWARF_RA].how == CFI_REGISTER_REGISTER;
	return enter_caller(w, sp, next[DWARF_RA], r->signal, popped);
}

/* Steps with libunwind, for entries that unwind_table.c left out. */
static enum unwind_stop step_last_resort(struct walk *w)
{
	unw_word_t value, ip, sp;
	struct cache *c = cache_get(w->owner, &w->map);
	w->step_reads = STEP_READS;
	w->trouble = UNWIND_END;
	w->no_info = false; /* libunwind does not ask for an entry that is in its cache */
	if (!c || unw_init_remote(&w->cursor, c->as, w) < 0)
		return UNWIND_NO_INFO;
	int r = unw_step(&w->cursor);
	if (w->no_info)
		return UNWIND_NO_INFO;
	if (r < 0)
		return w->trouble != UNWIND_END ? w->trouble : UNWIND_NO_INFO;
	unw_get_reg(&w->cursor, UNW_REG_IP, &ip);
	unw_get_reg(&w->cursor, UNW_REG_SP, &sp);
	if (r == 0 || !ip) {
		w->reg[DWARF_RA] = 0;
		return UNWIND_END;
	}
	for (int i = 0; i < DWARF_RA; i++)
		if (i != DWARF_SP && unw_get_reg(&w->cursor, i, &value) == 0)
			set_reg(w, i, value);
		else if (i != DWARF_SP)
			w->known &= ~(1u << i);
	w->last_resorts++;
	return enter_caller(w, sp, ip, unw_is_signal_frame(&w->cursor) > 0, false);
}

static bool may_be_left_out(struct walk *w)
{
	struct unwind_table_stats stats;
	unwind_table_stats(w->rows, &stats);
	return !w->owner->no_last_resort && stats.left_out && w->look_ups && w->look_ups--;
}

/* --- code that no table describes (epilogue.h) */

static const struct elf_section *code_around(const void *arg, uint64_t vaddr)
{
	const struct walk *w = arg;
	const struct code_stretch *code = unwind_table_code(w->rows, vaddr);
	return code ? &code->bytes : NULL;
}

static bool is_function(const void *arg, uint64_t vaddr)
{
	const struct walk *w = arg;
	return w->map.ops->begins(w->code->module, vaddr);
}

/* The rule that the code says. Of kind CFI_RULE_END: the function never returns; CFI_RULE_NONE: it is unknown. */
static struct cfi_rule find_code_rule(struct walk *w)
{
	struct unwind *u = w->owner;
	const bool called = !w->exact;
	const uint64_t vaddr = w->vaddr + called; /* the instruction that comes next */
	const uint64_t key = unwind_table_code_key(w->rows, vaddr) ^ (uint64_t)called << 31 ^ (uint64_t)w->brief << 63;
	struct recent_rule *recent = &u->code_rules[key * 0x9e3779b97f4a7c15ull >> (64 - CODE_RULES_BITS)];
	if (recent->key == key)
		return recent->rule;
	struct cfi_rule rule = {.kind = CFI_RULE_NONE};
	if (!u->epilogue && epilogue_new(&u->epilogue) < 0)
		return rule;
	const struct epilogue_known known = {code_around, is_function, w};
	const unsigned quota = w->brief ? EPILOGUE_INSNS_BRIEF : EPILOGUE_INSNS_MAX;
	unsigned insns = quota < w->code_insns ? quota : w->code_insns;
	const unsigned had = insns;
	w->map.ops->enter(w->code->module);
	if (epilogue_find(u->epilogue, &known, vaddr, called, &insns, &rule) == EPILOGUE_NEVER)
		rule.kind = CFI_RULE_END;
	w->map.ops->leave(w->code->module);
	w->code_insns -= had - insns;
	if (insns || had == quota) /* else it was cut for this stack alone */
		*recent = (struct recent_rule){key, rule};
	return rule;
}

/* The return address that a rule leads to: it must be behind a call, or be 0, the end of a stack. */
static bool is_believable(const struct walk *w, const struct cfi_rule *r)
{
	const uint64_t cfa = w->reg[r->cfa_reg] + (uint64_t)(int64_t)r->cfa;
	uint64_t ra;
	return w->known & 1u << r->cfa_reg &&
	       (!stack_read(w, cfa - 8, &ra) || (ra ? is_behind_call(w, ra) : !w->exact));
}

/*
 * Where the code says nothing, the frame pointer does, if the code around keeps one: else it is that of a function
 * further out. One of 0 is the end where code never returns: threads begin so. Else it may be anything.
 */
static enum unwind_stop step_code(struct walk *w)
{
	const struct code_stretch *code = w->rows ? unwind_table_code(w->rows, w->vaddr) : NULL;
	if (!code)
		return step_pointer(w);
	const struct cfi_rule r = find_code_rule(w);
	if (r.kind == CFI_RULE_FRAME && is_believable(w, &r)) {
		const enum unwind_stop stop = step_frame(w, &r);
		w->by_code |= stop == UNWIND_END;
		return stop;
	}
	return (w->reg[DWARF_FP] ? code->keeps_fp : r.kind == CFI_RULE_END) ? step_pointer(w) : UNWIND_NO_INFO;
}

/* --- the rule of a frame */

/* Steps by the expressions of the file itself. */
static enum unwind_stop step_by_file(struct walk *w, const struct cfi_rule *r)
{
	const struct module *m = w->code->module;
	w->map.ops->enter(m);
	enum unwind_stop stop = step_full(w, r);
	w->map.ops->leave(m);
	return stop;
}

/* No rule: an entry may have been left out of the table, or there is none. */
static enum unwind_stop step_without_rule(struct walk *w)
{
	enum unwind_stop stop = UNWIND_NO_INFO;
	uint64_t entry;
	bool found = false;
	if (w->rows && may_be_left_out(w)) {
		const struct module *m = w->code->module;
		w->map.ops->enter(m);
		found = eh_frame_hdr_find(w->code->elf, w->vaddr, &entry) == 0;
		if (found)
			stop = step_last_resort(w);
		w->map.ops->leave(m);
	}
	return found ? stop : step_code(w);
}

static enum unwind_stop apply_rule(struct walk *w, const struct cfi_rule *r)
{
	switch ((enum cfi_rule_kind)r->kind) {
	case CFI_RULE_END:
		w->reg[DWARF_RA] = 0;
		return UNWIND_END;
	case CFI_RULE_FRAME:
		return step_frame(w, r);
	case CFI_RULE_FULL:
		return w->brief ? UNWIND_NO_INFO : step_by_file(w, r);
	case CFI_RULE_SWITCH:
		return UNWIND_SWITCH;
	case CFI_RULE_NONE:
		break;
	}
	return step_without_rule(w);
}

/*
 * The functions before main and before a thread's, where a C library has no unwind information (musl, and ld.so's own
 * first one). The kernel enters them, or they jump to one another. They call the program and, with what it returns,
 * exit(3) or pthread_exit(3): no way returns from there. Without a symbol they are known by that. `called`: the module
 * of the function that the frame called.
 */
#define ENTRY_MAX 128 /* bytes of the function at a file's entry point */
static bool is_beginning(const struct walk *w, const struct module *called)
{
	static const char *const names[] = {
		"libc_start_main_stage2", "__libc_start_main", "_start_c", "_start", "clone", "__clone"};
	const struct module *m = w->code->module;
	const struct elf *elf = w->code->elf;
	if (elf && elf->entry && w->vaddr - elf->entry < ENTRY_MAX)
		return true;
	const char *name = w->map.ops->symbol(m, w->vaddr);
	for (size_t i = 0; name && i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return !name && !w->exact && called && called != m && w->map.ops->is_libc(m);
}

static void prefetch_places(struct walk *w)
{
	const uint64_t mb = w->stack_start >> 20;
	struct places *p = w->places = &w->owner->places[(mb ^ mb >> 8 ^ (uintptr_t)w->map.space >> 6) % THREADS];
	if (w->brief) {
		w->places = &w->owner->no_thread;
		w->places->n = w->places->n_rules = 0;
		return;
	}
	for (unsigned i = 0; i < p->n; i++)
		if (p->at[i] - w->stack_start < w->stack_end - w->stack_start)
			__builtin_prefetch(w->stack + (p->at[i] - w->stack_start));
	for (unsigned i = 0; i < p->n_rules; i++)
		__builtin_prefetch(&w->owner->rules[p->rules[i]]);
	p->n = p->n_rules = 0;
}

/* The mapping at an address; NULL: nothing is mapped there. */
static struct unwind_code *find_code(struct walk *w, uint64_t addr)
{
	for (unsigned i = 0; i < CODES; i++)
		if (addr - w->codes[i].start < w->codes[i].end - w->codes[i].start)
			return &w->codes[i];
	struct unwind_code *c = &w->codes[w->next_code % CODES];
	if (!w->map.ops->find(w->map.space, addr, c))
		return NULL;
	w->next_code++;
	return c;
}

/* The frame's code. False: nothing is mapped there. */
static bool find_frame_code(struct walk *w, struct unwind_frame *ret)
{
	uint64_t ip = w->reg[DWARF_RA], lookup = w->exact ? ip : ip - 1;
	struct unwind_code *c = find_code(w, lookup);
	w->code = c;
	w->rows = c ? c->rows : NULL;
	*ret = (struct unwind_frame){NULL, lookup, ip};
	if (!c)
		return false;
	ret->module = c->module;
	ret->vaddr = w->vaddr = lookup - c->bias;
	return true;
}

static const struct cfi_rule *find_rule(struct walk *w)
{
	static const struct cfi_rule none = {.kind = CFI_RULE_NONE};
	if (!w->rows)
		return &none;
	uint64_t key = w->exact ? 0 : unwind_table_key(w->rows, w->vaddr); /* an exact ip may be anywhere */
	if (!key)
		return unwind_table_find(w->rows, w->vaddr);
	uint16_t at = (uint16_t)(key * 0x9e3779b97f4a7c15ull >> (64 - RULES_BITS));
	struct recent_rule *recent = &w->owner->rules[at];
	if (w->places->n_rules < PLACES)
		w->places->rules[w->places->n_rules++] = at;
	if (recent->key != key)
		*recent = (struct recent_rule){key, *unwind_table_find(w->rows, w->vaddr)};
	return &recent->rule;
}

/* Notes the highest stack pointer. A stack of its own, as a signal handler's may be, does not count. */
static void note_reach(struct walk *w)
{
	uint64_t sp = w->reg[DWARF_SP];
	if (sp > w->reached && sp <= w->stack_end)
		w->reached = sp;
}

static enum unwind_stop walk_stack(struct walk *w, struct unwind_frame *frames, size_t max, size_t *ret_n)
{
	enum unwind_stop stop;
	do {
		struct unwind_frame frame;
		if (*ret_n == max)
			return UNWIND_DEPTH;
		bool known = find_frame_code(w, &frame);
		const struct cfi_rule *rule = find_rule(w);
		/* the kernel "called" a signal trampoline at its first byte, not after a call */
		frame.vaddr += rule->signal && !w->exact;
		if (known || !*ret_n) /* a leaf may be anywhere, but nothing is called from where no code is */
			frames[(*ret_n)++] = frame;
		if (!known)
			return w->map.ops->lossy(w->map.space) ? UNWIND_LOST_MAPPING : UNWIND_UNKNOWN_MAPPING;
		const bool other_stack = w->other_stack;
		stop = apply_rule(w, rule);
		note_reach(w);
		if (stop == UNWIND_BAD_MEMORY && other_stack)
			return UNWIND_SWITCH;
		if (stop == UNWIND_NO_INFO && rule->kind == CFI_RULE_NONE && !w->brief &&
			is_beginning(w, *ret_n > 1 ? frames[*ret_n - 2].module : NULL))
			return UNWIND_END;
	} while (stop == UNWIND_END && w->reg[DWARF_RA]);
	return stop;
}

/* libunwind sets itself up at the first cursor: a pipe, mincore(2). Here the process still may do that. */
int unwind_new(struct unwind **ret)
{
	struct walk first = {.exact = true};
	struct unwind *u = calloc(1, sizeof(*u));
	unw_addr_space_t as = addr_space_new();
	if (!u || !as) {
		if (as)
			unw_destroy_addr_space(as);
		free(u);
		return -ENOMEM;
	}
	unw_init_remote(&first.cursor, as, &first);
	unw_destroy_addr_space(as);
	*ret = u;
	return 0;
}

struct unwind *unwind_free(struct unwind *u)
{
	while (u && u->oldest)
		cache_free(u->oldest);
	if (u)
		epilogue_free(u->epilogue);
	free(u);
	return NULL;
}

/* perf's order of registers to DWARF's */
static void take_regs(struct walk *w, const struct unwind_regs *regs)
{
	for (unsigned i = 0; i < DWARF_REGS; i++)
		w->reg[i] = regs->r[unwind_reg_of[i]];
	w->known = (1u << DWARF_REGS) - 1;
}

static void begin_walk(struct walk *w, struct unwind *u, struct unwind_map map, const struct unwind_regs *regs,
	const void *stack, size_t size, bool brief)
{
	w->map = map;
	w->stack = stack;
	w->stack_start = w->reached = regs->r[UNWIND_SP];
	w->owner = u;
	w->exact = true;
	w->brief = brief;
	w->by_code = false;
	w->other_stack = false;
	w->walk_reads = WALK_READS;
	w->code_insns = WALK_RULES * (brief ? EPILOGUE_INSNS_BRIEF : EPILOGUE_INSNS_MAX);
	w->look_ups = brief ? 0 : LOOK_UPS;
	w->last_resorts = w->next_code = 0;
	memset(w->codes, 0, sizeof(w->codes));
	w->searching = false;
	take_regs(w, regs);
	if (size > UINT64_MAX - w->stack_start)
		size = 0;
	w->stack_end = w->stack_start + size;
	prefetch_places(w);
}

size_t unwind_user(struct unwind *u, struct unwind_map map, const struct unwind_regs *regs, const void *stack,
	size_t size, struct unwind_frame *frames, size_t max, enum unwind_stop *ret_stop)
{
	size_t n = 0;
	struct walk w; /* the cursor in it has kilobytes that need not be cleared */
	begin_walk(&w, u, map, regs, stack, size, false);
	*ret_stop = walk_stack(&w, frames, max < UNWIND_FRAMES_MAX ? max : UNWIND_FRAMES_MAX, &n);
	u->last_resorts += w.last_resorts;
	u->code_stacks += w.by_code;
	u->reach = w.reached - w.stack_start;
	return n;
}

size_t unwind_brief(struct unwind *u, struct unwind_map map, const struct unwind_regs *regs, const void *stack,
	size_t size, struct unwind_frame *frames, size_t max)
{
	size_t n = 0;
	struct walk w;
	begin_walk(&w, u, map, regs, stack, size, true);
	walk_stack(&w, frames, max < UNWIND_FRAMES_MAX ? max : UNWIND_FRAMES_MAX, &n);
	return n;
}

size_t unwind_reach(const struct unwind *u)
{
	return u->reach;
}

uint64_t unwind_code_stacks(const struct unwind *u)
{
	return u->code_stacks;
}

uint64_t unwind_last_resorts(const struct unwind *u)
{
	return u->last_resorts;
}

void unwind_no_last_resort(struct unwind *u)
{
	u->no_last_resort = true;
}

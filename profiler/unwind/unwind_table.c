/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/unwind_table.h"

#include "oci/base/array.h"
#include "profiler/unwind/cfi_execute.h"
#include "profiler/unwind/epilogue.h"
#include "profiler/unwind/unwind_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_SHIFT 12
#define PAGES_MAX (1u << 20) /* 4 GiB of code */
#define BUCKETS_MIN 1024
#define SEARCHED_MAX (1ull << 30) /* half a second; real files have few expressions, and search a few MB */
#define PROBES_MAX 64
#define FRAMES 256
#define UNWIND_TABLE_STEP (64u << 10) /* bytes by which they grow where there is address space */
#define UNWIND_TABLE_BYTES (UNWIND_TABLE_MAX * sizeof(struct row))
#define HUGE_PAGE ((size_t)2 << 20)

struct row {
	uint32_t at; /* from base */
	uint32_t rule;
};

struct unwind_table {
	uint64_t base; /* lowest address with an entry */
	uint32_t serial;
	struct row *rows;
	struct cfi_rule *rules;
	struct cfi_rule_full *full;
	uint32_t *pages; /* for each page the first row in it or behind; one more at the end */
	uint8_t *bytes;	 /* of expressions */
	size_t n_rows, n_rules, n_full, n_pages, n_bytes;
	size_t mapped; /* bytes of rows, where they have a mapping of their own; 0: they are malloc'ed */
	size_t entries, left_out;
	struct code_stretch *code; /* without entries, by address */
	size_t n_code, room_code;
};

/* The state while the table is made. */
struct builder {
	struct unwind_table *t;
	const struct elf *elf;
	struct array_limit budget;
	struct unwind_entries entries;
	size_t room_rows, room_rules, room_full;
	size_t huge;	/* bytes of rows in huge pages */
	uint32_t reach; /* from base: the index over pages has a quarter of the bytes */
	uint32_t *hash; /* of rules: index + 1, open addressing; small, for nearly all that is done is looking up */
	uint32_t mask;	/* buckets - 1 */
	struct cfi_execute programs[UNWIND_ENTRIES_CFI];
	uint32_t frames[FRAMES]; /* rules of Go's usual frames, by their words: index + 1 */
	size_t go_steps;	 /* its tables may be shared by functions, so the section's size bounds nothing */
	size_t searched;	 /* bytes of expressions: a byte of the section may ask for a search of all of them */
};

/* --- rules */

static uint32_t hash_rule(const struct cfi_rule *r)
{
	return (uint32_t)((cfi_rule_word(r, 0) * 0x9e3779b97f4a7c15ull + cfi_rule_word(r, 1) * 0xff51afd7ed558ccdull +
				  cfi_rule_word(r, 2) * 0xc4ceb9fe1a85ec53ull) >>
			  32);
}

static bool rule_equal(const struct cfi_rule *a, const struct cfi_rule *b)
{
	return !((cfi_rule_word(a, 0) ^ cfi_rule_word(b, 0)) | (cfi_rule_word(a, 1) ^ cfi_rule_word(b, 1)) |
		 (cfi_rule_word(a, 2) ^ cfi_rule_word(b, 2)));
}

/* An empty bucket for a rule; where PROBES_MAX are taken, the next one is as good as any. */
static uint32_t *free_bucket(const struct builder *b, const struct cfi_rule *r)
{
	uint32_t at = hash_rule(r), *bucket = &b->hash[at & b->mask];
	for (unsigned i = 0; *bucket && i < PROBES_MAX; i++)
		bucket = &b->hash[++at & b->mask];
	return bucket;
}

static int more_buckets(struct builder *b)
{
	size_t n = b->hash ? 4 * ((size_t)b->mask + 1) : BUCKETS_MIN, bytes = n * sizeof(*b->hash);
	if (b->budget.used + bytes > b->budget.max)
		return -E2BIG;
	uint32_t *hash = calloc(n, sizeof(*hash));
	if (!hash)
		return -ENOMEM;
	b->budget.used += bytes - bytes / 4;
	free(b->hash);
	b->hash = hash;
	b->mask = (uint32_t)n - 1;
	for (size_t i = 0; i < b->t->n_rules; i++)
		*free_bucket(b, &b->t->rules[i]) = (uint32_t)i + 1;
	return 0;
}

static int64_t add_rule(struct builder *b, const struct cfi_rule *r)
{
	struct unwind_table *t = b->t;
	if (t->n_rules == UNWIND_TABLE_RULES_MAX)
		return -E2BIG;
	int error = array_reserve_limited(&b->budget, &t->rules, &b->room_rules, t->n_rules + 1, sizeof(*r));
	if (error == 0 && 2 * t->n_rules >= b->mask)
		error = more_buckets(b);
	if (error < 0)
		return error;
	*free_bucket(b, r) = (uint32_t)t->n_rules + 1;
	t->rules[t->n_rules++] = *r;
	return (int64_t)t->n_rules - 1;
}

/* Index of an equal rule, made if there is none; -ENOMEM, -E2BIG. */
static inline int64_t intern_rule(struct builder *b, const struct cfi_rule *r)
{
	uint32_t at = hash_rule(r), i;
	for (unsigned probes = 0; (i = b->hash[at & b->mask]) && probes <= PROBES_MAX; at++, probes++)
		if (rule_equal(&b->t->rules[i - 1], r))
			return i - 1;
	return add_rule(b, r);
}

/* The expression of a place, from a section into the table. */
static int keep_expression(struct builder *b, const struct elf_section *from, struct cfi_register *p)
{
	struct unwind_table *t = b->t;
	if (p->how != CFI_REGISTER_EXPRESSION && p->how != CFI_REGISTER_VAL_EXPRESSION)
		return 0;
	const uint8_t *bytes = from->data + p->n;
	b->searched += t->n_bytes;
	if (b->searched > SEARCHED_MAX)
		return -E2BIG;
	const uint8_t *same = t->bytes ? memmem(t->bytes, t->n_bytes, bytes, p->len) : NULL;
	if (!t->bytes && !(t->bytes = malloc(UNWIND_TABLE_EXPRESSIONS_MAX)))
		return -ENOMEM;
	if (!same && UNWIND_TABLE_EXPRESSIONS_MAX - t->n_bytes < p->len)
		return -E2BIG;
	p->n = same ? same - t->bytes : (int64_t)t->n_bytes;
	if (!same) {
		memcpy(t->bytes + t->n_bytes, bytes, p->len);
		t->n_bytes += p->len;
	}
	return 0;
}

static int64_t to_full(struct builder *b, const struct cfi_state *s, const struct elf_section *from, struct cfi_rule *r)
{
	struct unwind_table *t = b->t;
	struct cfi_rule_full full;
	cfi_to_full(s, &full);
	int error = keep_expression(b, from, &full.cfa);
	for (unsigned i = 0; i < DWARF_REGS && error == 0; i++)
		error = keep_expression(b, from, &full.reg[i]);
	if (error < 0)
		return error;
	r->kind = CFI_RULE_FULL;
	r->cfa = (int32_t)t->n_full - 1;
	if (t->n_full && !memcmp(&t->full[t->n_full - 1], &full, sizeof(full)))
		return 0;
	if (t->n_full == UNWIND_TABLE_FULL_MAX)
		return -E2BIG;
	error = array_reserve_limited(&b->budget, &t->full, &b->room_full, t->n_full + 1, sizeof(*t->full));
	if (error < 0)
		return error;
	t->full[t->n_full] = full;
	r->cfa = (int32_t)t->n_full++;
	return 0;
}

static int64_t odd_rule(struct builder *b, const struct cfi_state *s, const struct elf_section *from)
{
	struct cfi_rule r = {.signal = s->usual.signal};
	bool undefined = s->odd & 1u << DWARF_RA && s->full.reg[DWARF_RA].how == CFI_REGISTER_UNDEFINED;
	int64_t error = undefined ? 0 : to_full(b, s, from, &r);
	if (undefined)
		r.kind = CFI_RULE_END;
	return error < 0 ? error : intern_rule(b, &r);
}

/* --- rows */

/* Bytes of rows to expect: compilers need no more than 4 bytes to describe 5 bytes of rows. */
static size_t expected_bytes(const struct builder *b)
{
	const size_t described = b->elf->eh_frame.size ? b->elf->eh_frame.size : b->elf->debug_frame.size;
	const size_t bytes = described + described / 4;
	return bytes < UNWIND_TABLE_BYTES ? bytes : UNWIND_TABLE_BYTES;
}

/* Elsewhere a part of a huge page could be left over. The advice is for speed only: not to follow it is no error. */
static int map_rows(struct builder *b, size_t huge)
{
	char *p = mmap(
		NULL, UNWIND_TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -ENOMEM;
	madvise(p, huge, MADV_HUGEPAGE);
	if (huge < UNWIND_TABLE_BYTES)
		madvise(p + huge, UNWIND_TABLE_BYTES - huge, MADV_NOHUGEPAGE);
	b->huge = huge;
	b->t->rows = (struct row *)(void *)p;
	b->t->mapped = UNWIND_TABLE_BYTES;
	return 0;
}

/*
 * A page takes as long to get as a hundred rows to make, so a large table gets huge ones as far as it is expected to
 * fill them, and has address space for all that may come: nothing is copied when it grows. A small one is as large as
 * expected at once.
 */
static int reserve_rows(struct builder *b)
{
	struct unwind_table *t = b->t;
	size_t bytes = expected_bytes(b);
	if (bytes >= HUGE_PAGE)
		bytes -= bytes % HUGE_PAGE;
	if (!bytes || b->budget.used + 2 * bytes > b->budget.max)
		return 0;
	int error = bytes < HUGE_PAGE ? 0 : map_rows(b, bytes);
	if (error == 0 && !t->mapped && !(t->rows = malloc(bytes)))
		error = -ENOMEM;
	b->budget.used += bytes;
	b->room_rows = bytes / sizeof(*t->rows);
	return error;
}

static int more_rows(struct builder *b)
{
	struct unwind_table *t = b->t;
	if (t->n_rows == UNWIND_TABLE_MAX)
		return -E2BIG;
	if (!t->mapped)
		return array_reserve_limited(&b->budget, &t->rows, &b->room_rows, t->n_rows + 1, sizeof(*t->rows));
	if (b->budget.used + UNWIND_TABLE_STEP > b->budget.max)
		return -E2BIG;
	madvise(t->rows + b->room_rows, UNWIND_TABLE_STEP, MADV_POPULATE_WRITE);
	b->budget.used += UNWIND_TABLE_STEP;
	b->room_rows += UNWIND_TABLE_STEP / sizeof(*t->rows);
	return 0;
}

static void free_rows(struct unwind_table *t)
{
	if (t->mapped)
		munmap(t->rows, t->mapped);
	else
		free(t->rows);
	t->rows = NULL;
	t->mapped = 0;
}

/* Gives back unused bytes. A huge page is given back whole or not at all: a part of one stays where it is. */
static void shrink_rows(struct unwind_table *t, size_t huge)
{
	const size_t bytes = t->n_rows * sizeof(*t->rows), unit = bytes < huge ? HUGE_PAGE : (size_t)getpagesize();
	const size_t kept = (bytes + unit - 1) / unit * unit;
	void *p;
	if (!bytes) {
		free_rows(t);
	} else if (t->mapped) {
		munmap((char *)t->rows + kept, t->mapped - kept);
		t->mapped = kept;
	} else if ((p = realloc(t->rows, bytes))) {
		t->rows = p;
	}
}

/* Rows come in order of addresses; one at the address of the last replaces it, one with its rule is none. */
static inline int put_row(struct builder *b, uint64_t vaddr, uint32_t rule)
{
	struct unwind_table *t = b->t;
	uint64_t at = vaddr - t->base;
	if (at > b->reach)
		return -ERANGE;
	if (t->n_rows && t->rows[t->n_rows - 1].at >= at) {
		if (t->rows[t->n_rows - 1].at > at)
			return 0; /* backwards: an end that wrapped */
		t->n_rows--;
	}
	if (t->n_rows && t->rows[t->n_rows - 1].rule == rule)
		return 0;
	if (t->n_rows == b->room_rows) {
		int error = more_rows(b);
		if (error < 0)
			return error;
	}
	t->rows[t->n_rows++] = (struct row){(uint32_t)at, rule};
	return 0;
}

/* Rows of one entry up to `limit`, where the next one begins. -EBADMSG: the rows before are good. */
static int run_entry(struct builder *b, const struct cfi_entry *e, uint64_t limit)
{
	struct cfi_execute *p = &b->programs[unwind_entries_section(e->from)];
	struct cfi_row batch[CFI_BATCH];
	size_t n;
	int error = 0;
	cfi_execute_begin(p, e, limit);
	while ((n = cfi_execute_rows(p, batch))) {
		for (size_t i = 0; i < n; i++) {
			const struct cfi_rule *r = &batch[i].rule;
			int64_t rule =
				r->kind == CFI_RULE_FRAME ? intern_rule(b, r) : odd_rule(b, &p->now, p->section->bytes);
			error = rule < 0 ? (int)rule : put_row(b, batch[i].from, (uint32_t)rule);
			if (error < 0)
				return error;
		}
	}
	if (!p->bad)
		return 0;
	error = put_row(b, p->at, 0);
	return error < 0 ? error : -EBADMSG;
}

/*
 * The kernel "returns" to its first byte, so the byte before is looked up. The caller's registers are in the signal's
 * frame, which the stack pointer is at.
 */
static int put_sigreturn(struct builder *b, const struct cfi_entry *e)
{
	struct cfi_state s = {.usual = {.kind = CFI_RULE_FRAME, .signal = 1, .cfa_reg = DWARF_SP}};
	for (unsigned i = 0; i < CFI_RULE_SAVED; i++)
		s.usual.at[i] = CFI_RULE_SAME;
	s.odd = 1u << DWARF_FP | 1u << DWARF_SP | 1u << DWARF_RA;
	s.full.reg[DWARF_FP] = (struct cfi_register){.how = CFI_REGISTER_OFFSET, .n = UNWIND_SIGNAL_FP};
	s.full.reg[DWARF_SP] = (struct cfi_register){.how = CFI_REGISTER_OFFSET, .n = UNWIND_SIGNAL_SP};
	s.full.reg[DWARF_RA] = (struct cfi_register){.how = CFI_REGISTER_OFFSET, .n = UNWIND_SIGNAL_IP};
	int64_t rule = odd_rule(b, &s, NULL);
	return rule < 0 ? (int)rule : put_row(b, e->start - (e->start > b->t->base), (uint32_t)rule);
}

/* Index of the rule of a function's stretch. */
static inline int64_t intern_stretch(struct builder *b, const struct gofunc *f, int64_t delta)
{
	const enum cfi_rule_kind other = f->is_root ? CFI_RULE_END : f->switches ? CFI_RULE_SWITCH : CFI_RULE_NONE;
	const bool frame = delta >= 0 && delta <= INT32_MAX - 8 && !f->switches && !f->is_root;
	uint32_t *known = frame && delta % 8 == 0 && delta / 8 < FRAMES ? &b->frames[delta / 8] : NULL;
	if (known && *known)
		return *known - 1;
	const struct cfi_rule r = frame ? unwind_go_rule(delta) : (struct cfi_rule){.kind = other};
	int64_t rule = intern_rule(b, &r);
	if (known && rule >= 0)
		*known = (uint32_t)rule + 1;
	return rule;
}

static int run_function(struct builder *b, const struct cfi_entry *e, uint64_t limit)
{
	struct gofunc f;
	struct godeltas d;
	uint64_t from;
	bool good = gopclntab_func(&b->entries.go, e->program, &f);
	if (good && f.is_sigreturn)
		return put_sigreturn(b, e);
	int error = put_row(b, e->start, 0); /* until there is better */
	if (error < 0 || !good)
		return error < 0 ? error : -EBADMSG;
	for (godeltas_begin(&b->entries.go, &f, &d); godeltas_next(&d, &from) && from < limit;) {
		if (++b->go_steps > 2 * UNWIND_TABLE_MAX)
			return -E2BIG;
		int64_t rule = intern_stretch(b, &f, d.delta);
		error = rule < 0 ? (int)rule : put_row(b, from, (uint32_t)rule);
		if (error < 0)
			return error;
	}
	return error;
}

static int run_plt(struct builder *b, const struct cfi_entry *e, uint64_t limit)
{
	const bool lazy = b->elf->plt[e->program].lazy;
	struct cfi_row rows[UNWIND_STUB_ROWS];
	int64_t r = 0;
	for (uint64_t at = e->start; at < limit && r >= 0; at += lazy ? ELF_ARCH_STUB : limit - at) {
		const size_t n = unwind_stub_rows(lazy, lazy && at == e->start, rows);
		for (size_t i = 0; i < n && r >= 0; i++) {
			r = intern_rule(b, &rows[i].rule);
			if (r >= 0)
				r = put_row(b, at + rows[i].from, (uint32_t)r);
		}
	}
	return r < 0 ? (int)r : 0;
}

/* The rows of an entry, and where it ends before the next one. -EBADMSG as above. */
static int run_one(struct builder *b, const struct cfi_entry *e, uint64_t next)
{
	const uint64_t limit = e->end < next ? e->end : next;
	int r = e->from == FROM_GO    ? run_function(b, e, limit)
		: e->from == FROM_PLT ? run_plt(b, e, limit)
				      : run_entry(b, e, limit);
	if ((r < 0 && r != -EBADMSG) || e->end >= next)
		return r;
	const int end = put_row(b, e->end, 0);
	return end < 0 ? end : r;
}

/* -E2BIG, -ERANGE: code beyond has no rule. */
static int run_entries(struct builder *b)
{
	struct cfi_entry now, next = {0};
	bool more = unwind_entries_next(&b->entries, &now);
	int r = 0;
	while (more && r >= 0) {
		more = unwind_entries_next(&b->entries, &next);
		if (!more || next.start > now.start)
			r = run_one(b, &now, more ? next.start : UINT64_MAX);
		if (r == -EBADMSG) {
			b->t->left_out++;
			r = 0;
		}
		now = next;
	}
	if (r < 0)
		b->t->left_out += unwind_entries_left(&b->entries) + more + 1;
	return r;
}

static int make_rows(struct builder *b)
{
	struct unwind_table *t = b->t;
	const struct cfi_rule none = {.kind = CFI_RULE_NONE};
	int64_t r = reserve_rows(b);
	if (r >= 0)
		r = intern_rule(b, &none);
	if (r >= 0)
		r = run_entries(b);
	if (r < 0 && t->n_rows)
		t->rows[t->n_rows - 1].rule = 0;
	return r == -ENOMEM ? -ENOMEM : 0;
}

static int index_pages(struct unwind_table *t)
{
	size_t last = t->n_rows ? t->rows[t->n_rows - 1].at >> PAGE_SHIFT : 0, row = 0;
	t->n_pages = (last < PAGES_MAX ? last : PAGES_MAX) + 1;
	t->pages = malloc((t->n_pages + 1) * sizeof(*t->pages) + (t->bytes ? UNWIND_TABLE_EXPRESSIONS_MAX : 0));
	if (!t->pages)
		return -ENOMEM;
	for (size_t page = 0; page < t->n_pages; page++) {
		while (row < t->n_rows && t->rows[row].at < page << PAGE_SHIFT)
			row++;
		t->pages[page] = (uint32_t)row;
	}
	t->pages[t->n_pages] = (uint32_t)t->n_rows;
	return 0;
}

static void shrink_arrays(struct unwind_table *t)
{
	void *p;
	if (t->n_rules && (p = reallocarray(t->rules, t->n_rules, sizeof(*t->rules))))
		t->rules = p;
	if (t->n_bytes && (p = realloc(t->bytes, t->n_bytes)))
		t->bytes = p;
	if (t->n_full && (p = reallocarray(t->full, t->n_full, sizeof(*t->full))))
		t->full = p;
}

static int build_table(struct builder *b)
{
	struct unwind_table *t = b->t;
	struct unwind_entries *e = &b->entries;
	int r = unwind_entries_open(e, b->elf, &b->budget, b->reach);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < UNWIND_ENTRIES_CFI; i++)
		b->programs[i].section = &e->sections[i];
	t->base = e->base;
	b->budget.used += ((e->last >> PAGE_SHIFT) + 2) * sizeof(*t->pages);
	r = make_rows(b);
	t->entries = e->count;
	t->left_out += e->left_out;
	if (r == 0)
		shrink_rows(t, b->huge);
	return r == 0 ? index_pages(t) : r;
}

/* Two of 4 billion tables may have the same serial. */
static uint32_t next_serial(void)
{
	static uint32_t last;
	uint32_t n = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return n ? n : 1;
}

int unwind_table_build(const struct elf *f, size_t max, struct unwind_table **ret)
{
	struct unwind_table *t = calloc(1, sizeof(*t));
	struct builder *b = calloc(1, sizeof(*b));
	int r = t && b ? 0 : -ENOMEM;
	if (r == 0) {
		b->elf = f;
		b->t = t;
		b->budget.max = max;
		b->reach = max / 4 / sizeof(*t->pages) < PAGES_MAX
				   ? (uint32_t)(max / 4 / sizeof(*t->pages) << PAGE_SHIFT)
				   : UINT32_MAX;
		r = more_buckets(b);
		r = r == -ENOMEM ? r : build_table(b);
	}
	if (b) {
		free(b->hash);
		unwind_entries_done(&b->entries);
	}
	free(b);
	if (r < 0) {
		unwind_table_free(t);
		return r;
	}
	shrink_arrays(t);
	t->serial = next_serial();
	*ret = t;
	return 0;
}

struct unwind_table *unwind_table_free(struct unwind_table *t)
{
	if (t) {
		free_rows(t);
		free(t->rules);
		free(t->full);
		free(t->pages);
		free(t->bytes);
		unwind_table_drop_code(t);
	}
	free(t);
	return NULL;
}

static size_t code_bytes(const struct unwind_table *t)
{
	size_t n = t->n_code * sizeof(*t->code);
	for (size_t i = 0; i < t->n_code; i++)
		n += t->code[i].bytes.size;
	return n;
}

size_t unwind_table_bytes(const struct unwind_table *t)
{
	return t ? sizeof(*t) + (t->mapped ? t->mapped : t->n_rows * sizeof(*t->rows)) +
			       t->n_rules * sizeof(*t->rules) + t->n_full * sizeof(*t->full) +
			       (t->n_pages + 1) * sizeof(*t->pages) + t->n_bytes + code_bytes(t)
		 : 0;
}

void unwind_table_stats(const struct unwind_table *t, struct unwind_table_stats *ret)
{
	*ret = (struct unwind_table_stats){t->n_rows, t->n_rules, t->n_full, t->entries, t->left_out};
}

/* --- code without entries */

#define CODE_STRETCH_MIN 64 /* bytes: shorter ones are between functions, for the alignment */
#define CODE_STRETCHES_MAX 65536

/* -ENOMEM, -E2BIG */
static int add_code(struct unwind_table *t, uint64_t from, uint64_t to)
{
	if (to <= from || to - from < CODE_STRETCH_MIN)
		return 0;
	if (t->n_code == CODE_STRETCHES_MAX || to - from > ELF_UNWIND_MAX)
		return -E2BIG;
	int r = array_reserve(&t->code, &t->room_code, t->n_code + 1, sizeof(*t->code), 4);
	if (r == 0)
		t->code[t->n_code++] = (struct code_stretch){.bytes = {.vaddr = from, .size = to - from}};
	return r;
}

/* Stretches of a segment that have no rule. *row: the first one that may be in it. */
static int find_code(struct unwind_table *t, const struct elf_segment *s, size_t *row)
{
	const uint64_t end = s->vaddr + s->filesz;
	uint64_t from = s->vaddr;
	bool described = false;
	int r = 0;
	for (; r == 0 && *row < t->n_rows && t->base + t->rows[*row].at < end; ++*row) {
		const uint64_t at = t->base + t->rows[*row].at;
		const bool has = t->rules[t->rows[*row].rule].kind != CFI_RULE_NONE;
		if (!described && has && at > from)
			r = add_code(t, from, at);
		if (!has && at > from)
			from = at;
		described = has;
	}
	return r == 0 && !described ? add_code(t, from, end) : r;
}

/* The file may have anything as segments: they are taken where they are in order. */
static void find_all_code(struct unwind_table *t, const struct elf *f)
{
	uint64_t last = 0;
	size_t row = 0;
	int r = 0;
	for (unsigned i = 0; i < f->n_segments && r == 0; i++) {
		const struct elf_segment *s = &f->segments[i];
		if (!s->exec || s->vaddr < last || s->vaddr + s->filesz < s->vaddr)
			continue;
		r = find_code(t, s, &row);
		last = s->vaddr + s->filesz;
	}
}

static bool read_code(struct code_stretch *to, const struct elf *f, struct elf_source src)
{
	struct elf_section *c = &to->bytes;
	for (unsigned i = 0; i < f->n_segments && !c->data; i++) {
		const struct elf_segment *s = &f->segments[i];
		if (s->exec && c->vaddr - s->vaddr < s->filesz)
			elf_bytes(src, s->offset + (c->vaddr - s->vaddr), c->size, "code", &c->data, NULL);
	}
	to->keeps_fp = c->data && epilogue_keeps_fp(c);
	return c->data;
}

void unwind_table_read_code(struct unwind_table *t, const struct elf *f, struct elf_source src, size_t max)
{
	size_t out = 0;
	if (!t->left_out)
		find_all_code(t, f);
	const size_t bytes = code_bytes(t);
	const bool wanted = bytes <= max && bytes <= ELF_UNWIND_MAX;
	for (size_t i = 0; i < t->n_code && wanted; i++)
		if (read_code(&t->code[i], f, src))
			t->code[out++] = t->code[i];
	t->n_code = out;
	struct code_stretch *tight = out ? reallocarray(t->code, out, sizeof(*t->code)) : NULL;
	if (tight || !out) {
		if (!out)
			free(t->code);
		t->code = tight;
	}
}

void unwind_table_drop_code(struct unwind_table *t)
{
	for (size_t i = 0; i < t->n_code; i++)
		free(t->code[i].bytes.data);
	free(t->code);
	t->code = NULL;
	t->n_code = 0;
}

const struct code_stretch *unwind_table_code(const struct unwind_table *t, uint64_t vaddr)
{
	size_t lo = 0, hi = t->n_code;
	while (lo < hi) { /* the first stretch behind the address */
		const size_t mid = lo + (hi - lo) / 2;
		if (t->code[mid].bytes.vaddr > vaddr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo && vaddr - t->code[lo - 1].bytes.vaddr < t->code[lo - 1].bytes.size ? &t->code[lo - 1] : NULL;
}

uint64_t unwind_table_code_key(const struct unwind_table *t, uint64_t vaddr)
{
	return (uint64_t)t->serial << 32 | (uint32_t)(vaddr - t->code[0].bytes.vaddr);
}

/* --- use */

const struct cfi_rule *unwind_table_find(const struct unwind_table *t, uint64_t vaddr)
{
	static const struct cfi_rule none = {.kind = CFI_RULE_NONE};
	uint64_t at = vaddr - t->base;
	if (vaddr < t->base || at > UINT32_MAX || !t->n_rows)
		return &none;
	size_t page = at >> PAGE_SHIFT < t->n_pages ? at >> PAGE_SHIFT : t->n_pages - 1;
	size_t lo = t->pages[page], hi = t->pages[page + 1];
	while (lo < hi) { /* the first row behind `at` */
		size_t mid = lo + (hi - lo) / 2;
		if (t->rows[mid].at > at)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo ? &t->rules[t->rows[lo - 1].rule] : &none;
}

uint64_t unwind_table_key(const struct unwind_table *t, uint64_t vaddr)
{
	uint64_t at = vaddr - t->base;
	return vaddr < t->base || at > UINT32_MAX ? 0 : (uint64_t)t->serial << 32 | at;
}

const struct cfi_rule_full *unwind_table_full(const struct unwind_table *t, const struct cfi_rule *r)
{
	return &t->full[r->cfa];
}

bool unwind_table_eval(const struct unwind_table *t, const struct cfi_register *p, const uint64_t regs[DWARF_REGS],
	uint32_t known, const uint64_t *first, dwarf_expr_read_fn *read, void *arg, uint64_t *ret)
{
	struct dwarf_expr x = {t->bytes + p->n, p->len};
	return dwarf_expr_eval(x, regs, known, first, read, arg, ret);
}

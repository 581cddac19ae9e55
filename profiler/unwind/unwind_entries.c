/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/unwind/unwind_entries.h"

#include <errno.h>
#include <stdlib.h>

/*
 * An entry is kept as the place where its code begins and its place in the file, and no more: a file has a hundred
 * thousand, and to read one again takes less time than to touch memory for it.
 */
struct entry_key {
	uint32_t at;	/* from base */
	uint32_t where; /* enum entry_source, and the offset in its section, the function's number or that in elf.plt */
};
#define WHERE_BITS 30
_Static_assert(ELF_UNWIND_MAX <= 1u << WHERE_BITS, "an offset of a section");

static void add_key(struct unwind_entries *x, enum entry_source from, uint32_t where, uint64_t start)
{
	const uint64_t at = start - x->origin;
	if (at > UINT32_MAX ||
		array_reserve_limited(x->budget, &x->keys, &x->room_keys, x->n_keys + 1, sizeof(*x->keys)) < 0)
		x->left_out++;
	else
		x->keys[x->n_keys++] = (struct entry_key){(uint32_t)at, (uint32_t)from << WHERE_BITS | where};
}

static bool is_code(const struct elf *f, uint64_t vaddr)
{
	for (unsigned i = 0; i < f->n_segments; i++)
		if (f->segments[i].exec && vaddr - f->segments[i].vaddr < f->segments[i].memsz)
			return true;
	return false;
}

static uint64_t lowest_address(const struct elf *f)
{
	uint64_t lowest = f->n_segments ? UINT64_MAX : 0;
	for (unsigned i = 0; i < f->n_segments; i++)
		lowest = f->segments[i].vaddr < lowest ? f->segments[i].vaddr : lowest;
	return lowest;
}

static void collect_entries(struct unwind_entries *x, enum entry_source from, const struct elf_section *bytes)
{
	struct cfi_section *s = &x->sections[unwind_entries_section(from)];
	struct cfi_entry e;
	uint32_t at;
	s->bytes = bytes;
	for (uint64_t off = 0; cfi_entry_next(s, &off, &at);) {
		x->count++;
		if (cfi_entry_read(s, at, &e)) {
			/* entries of code that a linker dropped stay in .debug_frame, at an address without code */
			if (from == FROM_EH_FRAME || is_code(x->elf, e.start))
				add_key(x, from, at, e.start);
		} else
			x->left_out++;
	}
}

static void collect_plt(struct unwind_entries *x)
{
	for (uint32_t i = 0; x->elf->machine == ELF_ARCH_NATIVE && i < 2; i++) {
		const struct elf_plt *p = &x->elf->plt[i];
		if (p->size && is_code(x->elf, p->vaddr))
			add_key(x, FROM_PLT, i, p->vaddr);
	}
}

/* Go's functions; those that a linker took from C are in .eh_frame, which counts where both have one. */
static void collect_functions(struct unwind_entries *x)
{
	const struct elf_section *s = &x->elf->gopclntab;
	struct gofunc f;
	if (!gopclntab_open(s->data, s->size, &x->go) || !is_code(x->elf, x->go.text))
		return;
	for (size_t i = 0; i < x->go.n_funcs; i++) {
		if (!gopclntab_range(&x->go, i, &f))
			continue;
		x->count++;
		add_key(x, FROM_GO, (uint32_t)i, f.start);
	}
}

/* --- keys in order of addresses; of those that begin together the last one read comes last */

#define RADIX_BITS 11
#define RADIX (1u << RADIX_BITS)

static void sort_by(struct entry_key *to, const struct entry_key *from, size_t n, unsigned shift)
{
	size_t count[RADIX + 1] = {0};
	for (size_t i = 0; i < n; i++)
		count[(from[i].at >> shift) % RADIX + 1]++;
	for (size_t d = 0; d < RADIX; d++)
		count[d + 1] += count[d];
	for (size_t i = 0; i < n; i++)
		to[count[(from[i].at >> shift) % RADIX]++] = from[i];
}

/* Counts keys from the lowest one, and leaves out those too far above it. True: they are sorted already. */
static bool rebase_keys(struct unwind_entries *x, uint32_t reach)
{
	bool sorted = true;
	size_t n = 0;
	uint32_t lowest = x->n_keys ? UINT32_MAX : 0, last = 0;
	for (size_t i = 0; i < x->n_keys; i++)
		lowest = x->keys[i].at < lowest ? x->keys[i].at : lowest;
	for (size_t i = 0; i < x->n_keys; i++) {
		const uint32_t at = x->keys[i].at - lowest;
		if (at > reach)
			continue;
		sorted &= last <= at;
		last = at > last ? at : last;
		x->keys[n++] = (struct entry_key){at, x->keys[i].where};
	}
	x->base = x->n_keys ? x->origin + lowest : 0;
	x->left_out += x->n_keys - n;
	x->n_keys = n;
	x->last = last;
	return sorted;
}

static int sort_keys(struct unwind_entries *x, uint32_t reach)
{
	const size_t bytes = x->n_keys * sizeof(*x->keys);
	bool sorted = rebase_keys(x, reach);
	if (!sorted && x->budget->used + bytes > x->budget->max) {
		x->left_out += x->n_keys;
		x->n_keys = 0;
	}
	if (sorted || !x->n_keys)
		return 0;
	struct entry_key *other = malloc(bytes);
	if (!other)
		return -ENOMEM;
	sort_by(other, x->keys, x->n_keys, 0);
	sort_by(x->keys, other, x->n_keys, RADIX_BITS);
	sort_by(other, x->keys, x->n_keys, 2 * RADIX_BITS);
	free(x->keys);
	x->keys = other;
	return 0;
}

/* Collects the entries that count less first. */
int unwind_entries_open(struct unwind_entries *x, const struct elf *f, struct array_limit *budget, uint32_t reach)
{
	x->elf = f;
	x->budget = budget;
	x->origin = lowest_address(f);
	x->sections[unwind_entries_section(FROM_DEBUG_FRAME)].debug = true;
	x->sections[unwind_entries_section(FROM_EH_FRAME)].open_ended = f->eh_frame_open_ended;
	collect_plt(x);
	collect_functions(x);
	collect_entries(x, FROM_DEBUG_FRAME, &f->debug_frame);
	collect_entries(x, FROM_EH_FRAME, &f->eh_frame);
	return sort_keys(x, reach);
}

void unwind_entries_done(struct unwind_entries *x)
{
	free(x->keys);
	x->keys = NULL;
}

/* --- entries one after the other */

/* Entries that count only where there is no other: the program itself unwinds by .eh_frame. */
static bool is_weak(struct entry_key k)
{
	const enum entry_source from = k.where >> WHERE_BITS;
	return from == FROM_DEBUG_FRAME || from == FROM_PLT;
}

/* For an entry that is no call frame information, `program` is its number. */
static bool read_entry(struct unwind_entries *x, struct entry_key k, struct cfi_entry *ret)
{
	const uint32_t at = k.where % (1u << WHERE_BITS);
	ret->from = k.where >> WHERE_BITS;
	ret->program = at;
	if (ret->from == FROM_GO) {
		struct gofunc f = {0};
		bool good = gopclntab_range(&x->go, at, &f);
		ret->start = f.start;
		ret->end = f.end;
		if (good) /* it is run after the entry before */
			__builtin_prefetch(x->go.data + f.pcsp);
		return good;
	}
	if (ret->from != FROM_PLT)
		return cfi_entry_read(&x->sections[unwind_entries_section(ret->from)], at, ret);
	ret->start = x->elf->plt[at].vaddr;
	ret->end = ret->start + x->elf->plt[at].size;
	return ret->end > ret->start;
}

/* True if a weak entry, the last that was taken, is where others are. */
static bool is_covered(struct unwind_entries *x, const struct cfi_entry *e)
{
	while (x->next_strong < x->n_keys && (x->next_strong < x->next_key || is_weak(x->keys[x->next_strong])))
		x->next_strong++;
	return e->start < x->covered || (x->next_strong < x->n_keys && e->end > x->base + x->keys[x->next_strong].at);
}

/* Linkers leave descriptions in another order than functions: those that come soon are fetched. */
static void prefetch_entry(const struct unwind_entries *x)
{
	const size_t soon = x->next_key + 8;
	if (soon >= x->n_keys || x->keys[soon].where >> WHERE_BITS != FROM_EH_FRAME)
		return;
	const uint8_t *entry = x->elf->eh_frame.data + x->keys[soon].where % (1u << WHERE_BITS);
	__builtin_prefetch(entry);
	__builtin_prefetch(entry + 64);
}

bool unwind_entries_next(struct unwind_entries *x, struct cfi_entry *ret)
{
	while (x->next_key < x->n_keys) {
		const struct entry_key k = x->keys[x->next_key++];
		prefetch_entry(x);
		if (!read_entry(x, k, ret))
			continue;
		if (!is_weak(k)) {
			x->covered = ret->end > x->covered ? ret->end : x->covered;
			return true;
		}
		if (!is_covered(x, ret))
			return true;
	}
	return false;
}

size_t unwind_entries_left(const struct unwind_entries *x)
{
	return x->n_keys - x->next_key;
}

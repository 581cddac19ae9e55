/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symtab.h"

#include "oci/base/array.h"
#include "profiler/elf/gopclntab.h"
#include "profiler/elf/minidebuginfo.h"
#include "profiler/symbol/symbol_arch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 4095	 /* a longer name is cut: without a bound, overlapping names cost bytes times symbols */
#define ENTRIES_PER_READ (43690) /* 1 MiB of symbol table at a time */
#define NO_PARENT UINT32_MAX
#define RANK_PLT 6
#define NEST_MAX 16 /* enclosing functions looked at in a search */

/* While a table is built, a name is a string table of the file, and an offset in it. */
#define NAME_DYNAMIC (1u << 31)
#define NAME_PLT (1u << 30)
#define NAME_OFFSET (NAME_PLT - 1)
_Static_assert(SYMTAB_STRINGS_MAX <= NAME_OFFSET, "an offset into a string table leaves two bits free");

struct symbol {
	uint64_t address;
	uint32_t size; /* of an open-ended one: up to the end of its section */
	uint32_t name;
	uint32_t parent; /* index of the function around this one's start, or NO_PARENT */
	uint8_t rank;	 /* lower is preferred */
	bool open;	 /* the file says size 0: it ends where the next one starts, so it is never a parent */
};
_Static_assert(sizeof(struct symbol) == 24, "a node's memory is symbols times this");

/* --- collecting: symbol tables of the file, in file order */

struct strings {
	uint8_t *data; /* NUL-terminated */
	uint64_t size;
};

struct builder {
	struct elf_source src;
	struct elf_tables file;
	struct symbol *table;
	size_t count, room;
	bool truncated;
	struct strings names[2]; /* .strtab, .dynstr */
};

static void builder_done(struct builder *b)
{
	elf_tables_done(&b->file);
	free(b->table);
	free(b->names[0].data);
	free(b->names[1].data);
}

static uint32_t clamp_size(uint64_t size)
{
	return size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

static int add_symbol(struct builder *b, const struct symbol *s)
{
	if (b->count == SYMTAB_MAX) {
		b->truncated = true;
		return 0;
	}
	if (array_reserve(&b->table, &b->room, b->count + 1, sizeof(*b->table), 4096) < 0)
		return -ENOMEM;
	b->table[b->count++] = *s;
	return 0;
}

/* FUNC before NOTYPE, then GLOBAL before WEAK before LOCAL. */
uint8_t symtab_rank(unsigned char info)
{
	unsigned bind = ELF64_ST_BIND(info);
	unsigned order = bind == STB_LOCAL ? 2 : bind == STB_WEAK ? 1 : 0; /* GNU_UNIQUE is global */
	return (uint8_t)((ELF64_ST_TYPE(info) == STT_NOTYPE ? SYMTAB_RANK_LABEL : 0) + order);
}

static bool is_in_section(const Elf64_Shdr *section, uint64_t vaddr)
{
	return vaddr >= section->sh_addr && vaddr - section->sh_addr < section->sh_size;
}

static const Elf64_Shdr *section_of_symbol(const struct elf_tables *file, const Elf64_Sym *s)
{
	if (s->st_shndx == SHN_UNDEF || s->st_shndx >= SHN_LORESERVE)
		return NULL;
	if (!file->by_segment)
		return s->st_shndx < file->n_sections ? &file->sections[s->st_shndx] : NULL;
	for (size_t i = 1; i < file->n_sections; i++)
		if (file->sections[i].sh_flags & SHF_EXECINSTR && is_in_section(&file->sections[i], s->st_value))
			return &file->sections[i];
	return NULL;
}

const Elf64_Shdr *symtab_code(const struct elf_tables *file, const Elf64_Sym *s, const struct symbol_names *names)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	if ((type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) || s->st_name >= names->size)
		return NULL;
	const Elf64_Shdr *section = section_of_symbol(file, s);
	char first = names->data[s->st_name];
	/* "$x" and "$d" say where aarch64 code and data begin: not names */
	if (!section || !first || (type == STT_NOTYPE && (first == '$' || !(section->sh_flags & SHF_EXECINSTR))))
		return NULL;
	/* labels such as etext stand behind the last byte of their section: they cover nothing */
	return s->st_size || is_in_section(section, s->st_value) ? section : NULL;
}

/* A symbol of the file as one of ours; false if it names no code. `which` says which string table. */
static bool convert_symbol(const struct builder *b, const Elf64_Sym *s, uint32_t which, struct symbol *ret)
{
	const struct strings *from = &b->names[which ? 1 : 0];
	const struct symbol_names names = {(const char *)from->data, from->size};
	const Elf64_Shdr *section = symtab_code(&b->file, s, &names);
	if (!section)
		return false;
	*ret = (struct symbol){
		.address = s->st_value,
		.size = clamp_size(s->st_size),
		.name = s->st_name | which,
		.parent = NO_PARENT,
		.rank = symtab_rank(s->st_info),
		.open = !s->st_size,
	};
	if (ret->open)
		ret->size = clamp_size(section->sh_size - (s->st_value - section->sh_addr));
	return true;
}

static int read_names(struct builder *b, const Elf64_Shdr *table, struct strings *ret, struct err *e)
{
	if (table->sh_link >= b->file.n_sections || b->file.sections[table->sh_link].sh_type != SHT_STRTAB)
		return err_say(e, -EBADMSG, "ELF symbol table without a string table");
	const Elf64_Shdr *s = &b->file.sections[table->sh_link];
	uint64_t size = s->sh_size;
	if (size > SYMTAB_STRINGS_MAX) {
		size = SYMTAB_STRINGS_MAX;
		b->truncated = true;
	}
	int r = elf_bytes(b->src, s->sh_offset, size, "names of ELF symbols", &ret->data, e);
	if (r == 0)
		ret->size = size;
	return r;
}

static int read_table(struct builder *b, const Elf64_Shdr *table, uint32_t which, struct err *e)
{
	if (table->sh_entsize != sizeof(Elf64_Sym))
		return err_say(e, -EBADMSG, "ELF symbols of %llu bytes", (unsigned long long)table->sh_entsize);
	uint64_t left = table->sh_size / sizeof(Elf64_Sym), off = table->sh_offset;
	if (left > SYMTAB_MAX) {
		left = SYMTAB_MAX;
		b->truncated = true;
	}
	int r = left ? read_names(b, table, &b->names[which ? 1 : 0], e) : 0;
	while (r == 0 && left) {
		uint64_t n = left < ENTRIES_PER_READ ? left : ENTRIES_PER_READ;
		uint8_t *bytes;
		r = elf_bytes(b->src, off, n * sizeof(Elf64_Sym), "ELF symbols", &bytes, e);
		if (r < 0)
			return r;
		const Elf64_Sym *in = (const Elf64_Sym *)(const void *)bytes;
		struct symbol s;
		for (uint64_t i = 0; i < n && r == 0; i++)
			if (convert_symbol(b, &in[i], which, &s))
				r = add_symbol(b, &s);
		free(bytes);
		if (r < 0)
			return err_set(e, r, "cannot keep ELF symbols");
		left -= n;
		off += n * sizeof(Elf64_Sym);
	}
	return r;
}

/* Of each type the file has at most one (elf(5)). A separate debug file keeps .dynsym's header without the bytes. */
static const Elf64_Shdr *section_of_type(const struct elf_tables *t, uint32_t type)
{
	for (size_t i = 1; i < t->n_sections; i++)
		if (t->sections[i].sh_type == type && !(t->sections[i].sh_flags & SHF_COMPRESSED))
			return &t->sections[i];
	return NULL;
}

/* --- stubs: code in .plt jumps through a slot that a relocation ties to a symbol (symbol_arch.h) */

#define STUB_BYTES_MAX (16u << 20)

struct relocations {
	const Elf64_Rela *slots; /* by ascending r_offset without gaps, as linkers write them */
	size_t n_slots;
	const Elf64_Sym *symbols;
	size_t n_symbols;
};

static int add_stub(struct builder *b, const struct relocations *r, const uint8_t *code, uint64_t vaddr)
{
	uint64_t slot;
	if (!symbol_stub_slot(code, vaddr, &slot))
		return 0;
	uint64_t i = (slot - r->slots[0].r_offset) / 8;
	if (i >= r->n_slots || r->slots[i].r_offset != slot)
		return 0;
	uint64_t sym = ELF64_R_SYM(r->slots[i].r_info);
	if (!sym || sym >= r->n_symbols)
		return 0;
	uint32_t name = r->symbols[sym].st_name;
	if (name >= b->names[1].size || !b->names[1].data[name])
		return 0;
	return add_symbol(b, &(struct symbol){.address = vaddr,
				     .size = ELF_ARCH_STUB,
				     .name = name | NAME_DYNAMIC | NAME_PLT,
				     .parent = NO_PARENT,
				     .rank = RANK_PLT});
}

static int read_stubs(struct builder *b, const Elf64_Shdr *s, const struct relocations *relocations, struct err *e)
{
	uint8_t *code;
	if (!s || s->sh_size > STUB_BYTES_MAX)
		return 0;
	int r = elf_bytes(b->src, s->sh_offset, s->sh_size, "ELF stubs", &code, e);
	if (r < 0)
		return r;
	const uint64_t first = -s->sh_addr % ELF_ARCH_STUB; /* stubs are aligned, a segment need not be */
	for (uint64_t at = first; r == 0 && at + ELF_ARCH_STUB <= s->sh_size; at += ELF_ARCH_STUB)
		r = add_stub(b, relocations, code + at, s->sh_addr + at);
	free(code);
	return r < 0 ? err_set(e, r, "cannot keep ELF symbols") : 0;
}

/* Without section headers stubs are looked for in all code: only they jump through the slots. */
static int read_all_stubs(struct builder *b, const struct relocations *relocations, struct err *e)
{
	int r = read_stubs(b, elf_tables_section(&b->file, ".plt"), relocations, e);
	if (r == 0)
		r = read_stubs(b, elf_tables_section(&b->file, ".plt.sec"), relocations, e);
	for (size_t i = 1; r == 0 && b->file.by_segment && i < b->file.n_sections; i++)
		if (b->file.sections[i].sh_flags & SHF_EXECINSTR)
			r = read_stubs(b, &b->file.sections[i], relocations, e);
	return r;
}

static int read_plt(struct builder *b, const Elf64_Shdr *dynamic, struct err *e)
{
	const Elf64_Shdr *rela = elf_tables_section(&b->file, ".rela.plt");
	if (b->file.header.e_machine != ELF_ARCH_NATIVE || !rela || rela->sh_size < sizeof(Elf64_Rela) ||
		rela->sh_size > STUB_BYTES_MAX || dynamic->sh_size > STUB_BYTES_MAX || !b->names[1].data)
		return 0;
	uint8_t *slots, *symbols = NULL;
	int r = elf_bytes(b->src, rela->sh_offset, rela->sh_size, ".rela.plt", &slots, e);
	if (r < 0)
		return r;
	r = elf_bytes(b->src, dynamic->sh_offset, dynamic->sh_size, "ELF symbols", &symbols, e);
	struct relocations relocations = {
		.slots = (const Elf64_Rela *)(const void *)slots,
		.n_slots = rela->sh_size / sizeof(Elf64_Rela),
		.symbols = (const Elf64_Sym *)(const void *)symbols,
		.n_symbols = dynamic->sh_size / sizeof(Elf64_Sym),
	};
	if (r == 0)
		r = read_all_stubs(b, &relocations, e);
	free(slots);
	free(symbols);
	return r;
}

/* --- sorting: by address, stable, in linear time whatever the file holds */

static void count_bytes(const struct symbol *table, size_t n, unsigned shift, size_t counts[256])
{
	memset(counts, 0, 256 * sizeof(counts[0]));
	for (size_t i = 0; i < n; i++)
		counts[table[i].address >> shift & 0xff]++;
}

static int sort_symbols(struct builder *b)
{
	size_t n = b->count, counts[256];
	struct symbol *from = b->table, *to = n ? malloc(n * sizeof(*to)) : NULL;
	if (!n)
		return 0;
	if (!to)
		return -ENOMEM;
	for (unsigned shift = 0; shift < 64; shift += 8) {
		count_bytes(from, n, shift, counts);
		if (counts[from[0].address >> shift & 0xff] == n)
			continue;
		for (size_t i = 0, at = 0; i < 256; i++) {
			size_t here = counts[i];
			counts[i] = at;
			at += here;
		}
		for (size_t i = 0; i < n; i++)
			to[counts[from[i].address >> shift & 0xff]++] = from[i];
		struct symbol *swap = from;
		from = to;
		to = swap;
	}
	free(to);
	b->table = from;
	b->room = n;
	return 0;
}

/* --- merging: one symbol an address, the preferred one */

static const char *name_of(const struct builder *b, const struct symbol *s)
{
	return (const char *)b->names[s->name & NAME_DYNAMIC ? 1 : 0].data + (s->name & NAME_OFFSET);
}

bool symtab_preferred(uint8_t rank, const char *name, uint8_t than_rank, const char *than)
{
	if (rank != than_rank)
		return rank < than_rank;
	if ((name[0] == '_') != (than[0] == '_'))
		return name[0] != '_';
	size_t n = strnlen(name, NAME_MAX_LEN), m = strnlen(than, NAME_MAX_LEN);
	return n != m ? n < m : memcmp(name, than, n) < 0;
}

static bool is_preferred(const struct builder *b, const struct symbol *s, const struct symbol *over)
{
	return s->name != over->name ? symtab_preferred(s->rank, name_of(b, s), over->rank, name_of(b, over))
				     : s->rank < over->rank;
}

/* All of run[0..n) have one address. The size is the largest that is stated for it. */
static struct symbol merge_run(const struct builder *b, const struct symbol *run, size_t n)
{
	struct symbol best = run[0];
	bool open = run[0].open;
	uint32_t size = run[0].size;
	for (size_t i = 1; i < n; i++) {
		if (run[i].open == open ? run[i].size > size : open)
			size = run[i].size;
		open = open && run[i].open;
		if (is_preferred(b, &run[i], &best))
			best = run[i];
	}
	best.open = open;
	best.size = size;
	return best;
}

static bool is_inside_symbol(const struct symbol *s, uint64_t address)
{
	return address - s->address < s->size; /* s->address <= address */
}

static void merge_symbols(struct builder *b)
{
	struct symbol *t = b->table;
	size_t out = 0;
	uint32_t around = NO_PARENT; /* innermost sized function that reaches over this address */
	for (size_t i = 0, n; i < b->count; i += n) {
		for (n = 1; i + n < b->count && t[i + n].address == t[i].address;)
			n++;
		struct symbol s = merge_run(b, &t[i], n);
		while (around != NO_PARENT && !is_inside_symbol(&t[around], s.address))
			around = t[around].parent;
		if (s.open && s.rank >= SYMTAB_RANK_LABEL && around != NO_PARENT)
			continue;
		s.parent = around;
		t[out] = s;
		if (!s.open)
			around = (uint32_t)out;
		out++;
	}
	b->count = out;
}

/* --- the finished table */

/* "memcpy@@GLIBC_2.14" is memcpy: the version is the linker's. */
size_t symtab_name_length(const char *name)
{
	size_t n = strnlen(name, NAME_MAX_LEN);
	const char *version = memchr(name, '@', n);
	return version && version > name ? (size_t)(version - name) : n;
}

static size_t name_length(const struct builder *b, const struct symbol *s)
{
	return symtab_name_length(name_of(b, s));
}

static int finish_table(struct builder *b, struct symtab *s)
{
	static const char plt[] = "@plt";
	size_t need = 0, n = 0;
	for (; n < b->count; n++) {
		size_t more = name_length(b, &b->table[n]) + sizeof(plt);
		if (more > SYMTAB_STRINGS_MAX - need)
			break;
		need += more;
	}
	s->truncated = b->truncated || n < b->count;
	if (!n)
		return 0;
	s->strings = malloc(need);
	if (!s->strings)
		return -ENOMEM;
	char *at = s->strings;
	for (size_t i = 0; i < n; i++) {
		struct symbol *sym = &b->table[i];
		size_t len = name_length(b, sym);
		bool stub = sym->name & NAME_PLT;
		memcpy(at, name_of(b, sym), len);
		sym->name = (uint32_t)(at - s->strings);
		at += len;
		if (stub) {
			memcpy(at, plt, sizeof(plt) - 1);
			at += sizeof(plt) - 1;
		}
		*at++ = 0;
	}
	/* shrinking cannot sensibly fail; where it does, the larger block serves as well */
	s->strings_size = (size_t)(at - s->strings);
	char *tight = realloc(s->strings, s->strings_size);
	struct symbol *small = realloc(b->table, n * sizeof(*small));
	s->strings = tight ? tight : s->strings;
	s->table = small ? small : b->table;
	s->count = n;
	b->table = NULL;
	return 0;
}

/* --- .gnu_debugdata: the .symtab of a file that lies packed in the stripped one */

static int read_packed_file(struct builder *b, const Elf64_Shdr *s, struct err *e)
{
	struct elf_memory m = {0};
	uint8_t *bytes;
	int r = minidebuginfo_unpack(b->src, s->sh_offset, s->sh_size, &bytes, &m.size, e);
	if (r < 0)
		return r;
	m.data = bytes;
	struct builder outer = *b;
	b->src = elf_source_memory(&m);
	b->file = (struct elf_tables){0};
	r = elf_tables_read(b->src, &b->file, e);
	const Elf64_Shdr *full = section_of_type(&b->file, SHT_SYMTAB);
	if (r == 0 && full)
		r = read_table(b, full, 0, e);
	elf_tables_done(&b->file);
	b->src = outer.src;
	b->file = outer.file;
	free(bytes);
	return r;
}

/* Errors in the packed file are ignored: .dynsym is still of use. */
static int read_debugdata(struct builder *b, struct err *e)
{
	const Elf64_Shdr *s = elf_tables_section(&b->file, ".gnu_debugdata");
	struct err ignored = {0};
	int r = s ? read_packed_file(b, s, &ignored) : 0;
	return r == -ENOMEM ? err_set(e, r, "cannot keep ELF symbols") : 0;
}

/* --- Go's own table, which stays when a program is stripped */

static int add_go(struct builder *b, const struct gopclntab *t)
{
	struct gofunc f;
	int r = 0;
	for (size_t i = 0; i < t->n_funcs && r == 0 && !b->truncated; i++) {
		const char *name = gopclntab_func(t, i, &f) ? gopclntab_name(t, &f) : NULL;
		if (name)
			r = add_symbol(b, &(struct symbol){.address = f.start,
						  .size = clamp_size(f.end - f.start),
						  .name = (uint32_t)(name - (const char *)t->data),
						  .parent = NO_PARENT,
						  .rank = symtab_rank(ELF64_ST_INFO(STB_LOCAL, STT_FUNC))});
	}
	return r;
}

/* The table takes the place of .strtab. Errors in it are ignored: .dynsym is still of use. */
static int read_go(struct builder *b, struct err *e)
{
	const Elf64_Shdr *s = elf_tables_gopclntab(&b->file);
	struct gopclntab t;
	if (!s || s->sh_size > ELF_UNWIND_MAX || b->names[0].data)
		return 0;
	int r = elf_bytes(b->src, s->sh_offset, s->sh_size, ".gopclntab", &b->names[0].data, NULL);
	if (r == 0) {
		b->names[0].size = s->sh_size;
		r = gopclntab_open(b->names[0].data, s->sh_size, &t) ? add_go(b, &t) : 0;
	}
	return r == -ENOMEM ? err_set(e, r, "cannot keep ELF symbols") : 0;
}

static int read_symbols(struct builder *b, struct err *e)
{
	const Elf64_Shdr *full = section_of_type(&b->file, SHT_SYMTAB);
	const Elf64_Shdr *dynamic = section_of_type(&b->file, SHT_DYNSYM);
	int r = full ? read_table(b, full, 0, e) : read_debugdata(b, e);
	if (r == 0 && !full)
		r = read_go(b, e);
	if (r == 0 && dynamic)
		r = read_table(b, dynamic, NAME_DYNAMIC, e);
	if (r == 0 && dynamic)
		r = read_plt(b, dynamic, e);
	return r;
}

/*
 * Bytes that reading takes at its peak: the table as it grows, its sorted copy, all names, and the names that are kept.
 */
static size_t bytes_needed(const struct elf_tables *t)
{
	size_t need = 0;
	for (size_t i = 1; i < t->n_sections; i++) {
		const Elf64_Shdr *s = &t->sections[i];
		if ((s->sh_type != SHT_SYMTAB && s->sh_type != SHT_DYNSYM) || s->sh_link >= t->n_sections)
			continue;
		uint64_t names = t->sections[s->sh_link].sh_size;
		need += 3 * (s->sh_size < SIZE_MAX / 16 ? s->sh_size : SIZE_MAX / 16) +
			2 * (names < SIZE_MAX / 16 ? names : SIZE_MAX / 16);
		if (need > SIZE_MAX / 4)
			break;
	}
	return need;
}

int symtab_read(struct elf_source src, size_t room, struct symtab **ret, struct err *e)
{
	struct builder b = {.src = src};
	struct symtab *s = NULL;
	int r = elf_tables_read(src, &b.file, e);
	if (r < 0)
		return r;
	r = bytes_needed(&b.file) > room ? err_say(e, -ENOSPC, "ELF symbols take more than %zu bytes", room)
					 : read_symbols(&b, e);
	if (r == 0) {
		s = calloc(1, sizeof(*s));
		r = s ? sort_symbols(&b) : -ENOMEM;
		if (r == 0) {
			merge_symbols(&b);
			r = finish_table(&b, s);
		}
		if (r < 0)
			err_set(e, r, "cannot keep ELF symbols");
	}
	builder_done(&b);
	if (r < 0) {
		symtab_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct symtab *symtab_free(struct symtab *s)
{
	if (s) {
		free(s->table);
		free(s->strings);
		free(s);
	}
	return NULL;
}

static bool covers_address(const struct symbol *s, uint64_t vaddr, uint64_t label_floor)
{
	return is_inside_symbol(s, vaddr) && (!s->open || s->address >= label_floor);
}

const char *symtab_find(const struct symtab *s, uint64_t vaddr, uint64_t label_floor, uint64_t *ret_offset)
{
	size_t low = 0, high = s->count; /* table[0..low) starts at or before vaddr */
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (s->table[mid].address <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	uint32_t i = low ? (uint32_t)(low - 1) : NO_PARENT;
	for (int depth = 0; i != NO_PARENT && depth < NEST_MAX; depth++, i = s->table[i].parent)
		if (covers_address(&s->table[i], vaddr, label_floor)) {
			*ret_offset = vaddr - s->table[i].address;
			return s->strings + s->table[i].name;
		}
	return NULL;
}

bool symtab_defines(const struct symtab *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->strings + s->table[i].name, name))
			return true;
	return false;
}

size_t symtab_memory(const struct symtab *s)
{
	return sizeof(*s) + s->count * sizeof(*s->table) + s->strings_size;
}

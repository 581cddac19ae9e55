/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/elf_dynamic.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u
#define ENTRIES_MAX 4096u      /* of the dynamic segment: a linker writes some forty */
#define SYMBOLS_MAX (4u << 20) /* in a hash table, and its buckets */
#define CHAIN_WORDS_PER_READ 4096u
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

enum { SH_NULL, SH_STRINGS, SH_SYMBOLS, SH_RELOCATIONS, SH_CODE };
static const char section_names[] = "\0.dynstr\0.dynsym\0.rela.plt";
enum { NAME_STRINGS = 1, NAME_SYMBOLS = 9, NAME_RELOCATIONS = 17 };

struct place { /* bytes in the file */
	uint64_t vaddr, offset, size;
};

struct dynamic {
	struct elf_source src;
	const struct elf_tables *file;
	uint64_t value[DT_NUM]; /* of the entries, by tag; 0: no such entry */
	uint64_t gnu_hash;
};

/* The kernel maps whole pages and clears what is behind the bytes only before .bss (fs/binfmt_elf.c, elf_map). */
static uint64_t mapped_size(const Elf64_Phdr *p)
{
	const uint64_t size = p->p_filesz + (-(p->p_vaddr + p->p_filesz) & (PAGE - 1));
	return p->p_memsz > p->p_filesz || size < p->p_filesz ? p->p_filesz : size;
}

/* How many of these bytes the file has. A source does not say its size. */
static uint64_t clip_to_file(struct elf_source src, uint64_t offset, uint64_t size)
{
	uint64_t low = 0, high = offset <= UINT64_MAX - size ? size : 0, at = size - 1;
	uint8_t byte;
	for (; low < high; at = low + (high - low) / 2) {
		ssize_t n = src.read(src.arg, &byte, 1, offset + at);
		if (n < 0)
			return 0;
		if (n)
			low = at + 1;
		else
			high = at;
	}
	return low;
}

/*
 * The bytes from an address to the end of its segment; size 0: the file has none, or the address is 0, as of an entry
 * that is missing. A later segment is mapped over those before.
 */
static struct place find_place(const struct dynamic *d, uint64_t vaddr)
{
	for (size_t i = vaddr ? d->file->n_segments : 0; i-- > 0;) {
		const Elf64_Phdr *p = &d->file->segments[i];
		const uint64_t skip = vaddr - p->p_vaddr, size = mapped_size(p), at = p->p_offset + skip;
		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && skip < size && at >= skip)
			return (struct place){vaddr, at, clip_to_file(d->src, at, size - skip)};
	}
	return (struct place){0};
}

/* malloc'ed; NULL: not `size` bytes, or they cannot be read. */
static void *read_bytes(const struct dynamic *d, const struct place *p, uint64_t skip, uint64_t size)
{
	uint8_t *bytes;
	if (skip > p->size || size > p->size - skip ||
		elf_bytes(d->src, p->offset + skip, size, "ELF dynamic segment", &bytes, NULL) < 0)
		return NULL;
	return bytes;
}

static void read_entries(struct dynamic *d, uint64_t vaddr)
{
	const struct place p = find_place(d, vaddr);
	const uint64_t n = MIN(p.size / sizeof(Elf64_Dyn), ENTRIES_MAX);
	Elf64_Dyn *entries = read_bytes(d, &p, 0, n * sizeof(*entries));
	for (uint64_t i = 0; entries && i < n && entries[i].d_tag != DT_NULL; i++)
		if (entries[i].d_tag > 0 && entries[i].d_tag < DT_NUM)
			d->value[entries[i].d_tag] = entries[i].d_un.d_val;
		else if (entries[i].d_tag == DT_GNU_HASH)
			d->gnu_hash = entries[i].d_un.d_val;
	free(entries);
}

/* --- how many symbols there are: no entry says it */

static uint64_t count_by_hash(const struct dynamic *d)
{
	enum { BUCKETS, CHAINS, N }; /* a chain for each symbol */
	const struct place p = find_place(d, d->value[DT_HASH]);
	uint32_t *head = read_bytes(d, &p, 0, N * sizeof(*head));
	const uint64_t n = head ? head[CHAINS] : 0;
	free(head);
	return n;
}

/* From the word `at` to the one behind the chain's last word, which is odd unless it is forged. */
static uint64_t walk_chain(const struct dynamic *d, const struct place *chains, uint64_t at)
{
	const uint64_t end = MIN(chains->size / sizeof(uint32_t), SYMBOLS_MAX);
	for (bool is_last = false; !is_last && at < end;) {
		const uint64_t n = MIN(end - at, CHAIN_WORDS_PER_READ);
		uint32_t *words = read_bytes(d, chains, at * sizeof(*words), n * sizeof(*words));
		if (!words)
			break;
		for (uint64_t i = 0; i < n && !is_last; i++, at++)
			is_last = words[i] & 1;
		free(words);
	}
	return at;
}

/* Symbols stand in the order of their buckets: the last one is in the chain that begins last. */
static uint64_t count_by_gnu_hash(const struct dynamic *d)
{
	enum { BUCKETS, FIRST_SYMBOL, BLOOM, SHIFT, N };
	struct place p = find_place(d, d->gnu_hash);
	uint32_t *head = read_bytes(d, &p, 0, N * sizeof(*head));
	if (!head)
		return 0;
	const uint64_t first = head[FIRST_SYMBOL], n_buckets = head[BUCKETS],
		       skip = N * sizeof(*head) + head[BLOOM] * sizeof(uint64_t);
	free(head);
	uint32_t *buckets = n_buckets <= SYMBOLS_MAX ? read_bytes(d, &p, skip, n_buckets * sizeof(*buckets)) : NULL;
	if (!buckets)
		return 0;
	uint64_t last = 0;
	for (uint64_t i = 0; i < n_buckets; i++)
		last = MAX(last, buckets[i]);
	free(buckets);
	if (last < first) /* nothing is exported */
		return first;
	const uint64_t chains = skip + n_buckets * sizeof(*buckets);
	p.offset += chains;
	p.size -= chains;
	return first + walk_chain(d, &p, last - first);
}

/* A program that exports nothing has its imports in no hash table. */
static uint64_t count_by_relocations(const struct dynamic *d, const struct place *p)
{
	Elf64_Rela *relocations = read_bytes(d, p, 0, p->size);
	uint64_t n = 0;
	for (uint64_t i = 0; relocations && i < p->size / sizeof(*relocations); i++)
		n = MAX(n, ELF64_R_SYM(relocations[i].r_info) + 1);
	free(relocations);
	return n;
}

/* --- sections */

static Elf64_Shdr make_section(uint32_t name, uint32_t type, const struct place *p)
{
	return (Elf64_Shdr){.sh_name = name,
		.sh_type = type,
		.sh_flags = SHF_ALLOC,
		.sh_addr = p->vaddr,
		.sh_offset = p->offset,
		.sh_size = p->size};
}

static size_t make_code_sections(const struct dynamic *d, Elf64_Shdr *to)
{
	size_t n = 0;
	for (size_t i = 0; i < d->file->n_segments && n < ELF_SEGMENTS_MAX; i++) {
		const Elf64_Phdr *p = &d->file->segments[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
			continue;
		const struct place code = {p->p_vaddr, p->p_offset, clip_to_file(d->src, p->p_offset, mapped_size(p))};
		to[n] = make_section(0, SHT_PROGBITS, &code);
		to[n++].sh_flags |= SHF_EXECINSTR;
	}
	return n;
}

/* Returns the number of sections; 0: the segment has no symbols. */
static size_t make_sections(const struct dynamic *d, Elf64_Shdr *to)
{
	const uint64_t *value = d->value, entry = value[DT_SYMENT] ? value[DT_SYMENT] : sizeof(Elf64_Sym);
	struct place symbols = find_place(d, value[DT_SYMTAB]), strings = find_place(d, value[DT_STRTAB]),
		     relocations = find_place(d, value[DT_JMPREL]);
	if (value[DT_STRSZ])
		strings.size = MIN(strings.size, value[DT_STRSZ]);
	relocations.size = value[DT_PLTREL] == DT_RELA ? MIN(relocations.size, value[DT_PLTRELSZ]) : 0;
	relocations.size = MIN(relocations.size, ELF_PLT_MAX);
	if (strings.vaddr > symbols.vaddr) /* names are no symbols, whatever a forged number says */
		symbols.size = MIN(symbols.size, strings.vaddr - symbols.vaddr);
	const uint64_t by_hash = MAX(count_by_hash(d), count_by_gnu_hash(d)),
		       n = MAX(by_hash, count_by_relocations(d, &relocations));
	symbols.size = MIN(symbols.size / sizeof(Elf64_Sym), n) * sizeof(Elf64_Sym);
	if (!symbols.size || !strings.size)
		return 0;
	to[SH_STRINGS] = make_section(NAME_STRINGS, SHT_STRTAB, &strings);
	to[SH_SYMBOLS] = make_section(NAME_SYMBOLS, SHT_DYNSYM, &symbols);
	to[SH_SYMBOLS].sh_link = SH_STRINGS;
	to[SH_SYMBOLS].sh_entsize = entry;
	to[SH_RELOCATIONS] = make_section(NAME_RELOCATIONS, SHT_RELA, &relocations);
	return SH_CODE + make_code_sections(d, &to[SH_CODE]);
}

/* The section without bytes is that of a separate debug file. */
static bool has_dynamic_section(const struct elf_tables *t, uint64_t vaddr)
{
	for (size_t i = 1; i < t->n_sections; i++)
		if (t->sections[i].sh_addr == vaddr &&
			(t->sections[i].sh_type == SHT_DYNAMIC || t->sections[i].sh_type == SHT_NOBITS))
			return true;
	return false;
}

void elf_dynamic_read(struct elf_source src, struct elf_tables *t)
{
	struct dynamic d = {.src = src, .file = t};
	size_t at = 0;
	while (at < t->n_segments && t->segments[at].p_type != PT_DYNAMIC)
		at++;
	if (at == t->n_segments || has_dynamic_section(t, t->segments[at].p_vaddr))
		return;
	read_entries(&d, t->segments[at].p_vaddr);
	Elf64_Shdr *sections = calloc(SH_CODE + ELF_SEGMENTS_MAX, sizeof(*sections));
	uint8_t *names = malloc(sizeof(section_names));
	const size_t n = sections && names ? make_sections(&d, sections) : 0;
	if (!n) {
		free(sections);
		free(names);
		return;
	}
	free(t->sections);
	free(t->names);
	t->sections = sections;
	t->n_sections = n;
	t->names = memcpy(names, section_names, sizeof(section_names));
	t->names_size = sizeof(section_names);
	t->by_segment = true;
}

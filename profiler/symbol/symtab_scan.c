/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symtab_scan.h"

#include "profiler/symbol/symtab.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A symbol that may name an address. */
struct candidate {
	uint64_t start;
	uint8_t rank;
	const char *name; /* NULL: none */
};

/* The best symbols seen so far for an address. */
struct wanted {
	struct candidate sized; /* covers it */
	/* the last symbol without a size between the address before this one and this one; it reaches to `end` */
	struct candidate open;
	uint64_t end;
	uint64_t last; /* where the last symbol of any kind begins in that stretch */
	bool any;
};

struct search {
	const struct elf_memory *image;
	struct elf_tables file;
	const uint64_t *vaddrs, *label_floors;
	struct wanted *wanted;
	size_t n;
	uint64_t steps;
};

/* The first address at or behind `at`; n: none. */
static size_t first_at(const struct search *s, uint64_t at)
{
	size_t low = 0, high = s->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (s->vaddrs[mid] < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_better(const struct candidate *a, const struct candidate *than)
{
	if (!than->name || a->start != than->start)
		return !than->name || a->start > than->start;
	return symtab_preferred(a->rank, a->name, than->rank, than->name);
}

static void match_symbol(struct search *s, const Elf64_Sym *sym, const Elf64_Shdr *section, const char *name)
{
	struct candidate c = {sym->st_value, symtab_rank(sym->st_info), name};
	size_t i = first_at(s, sym->st_value);
	if (i == s->n)
		return;
	struct wanted *w = &s->wanted[i];
	if (!w->any || c.start > w->last)
		w->last = c.start;
	w->any = true;
	if (!sym->st_size && is_better(&c, &w->open)) {
		w->open = c;
		w->end = section->sh_addr + section->sh_size;
	}
	for (; i < s->n && s->vaddrs[i] - c.start < sym->st_size; i++, s->steps++)
		if (is_better(&c, &s->wanted[i].sized))
			s->wanted[i].sized = c;
}

/* Returns the bytes of a section; NULL: they are not in the image. */
static const void *get_section_data(const struct search *s, const Elf64_Shdr *section)
{
	uint64_t size = s->image->size;
	if (section->sh_type == SHT_NOBITS || section->sh_offset > size || section->sh_size > size - section->sh_offset)
		return NULL;
	return (const char *)s->image->data + section->sh_offset;
}

static void see_table(struct search *s, const Elf64_Shdr *table)
{
	const char *symbols = get_section_data(s, table);
	if (!symbols || table->sh_entsize != sizeof(Elf64_Sym) || table->sh_link >= s->file.n_sections)
		return;
	const Elf64_Shdr *strings = &s->file.sections[table->sh_link];
	struct symbol_names names = {
		strings->sh_type == SHT_STRTAB ? get_section_data(s, strings) : NULL, strings->sh_size};
	while (names.data && names.size && names.data[names.size - 1]) /* the last name must have its end */
		names.size--;
	for (uint64_t i = 0; names.data && i < table->sh_size / sizeof(Elf64_Sym) && s->steps < SYMTAB_SCAN_STEPS;
		i++) {
		Elf64_Sym sym;
		memcpy(&sym, symbols + i * sizeof(sym), sizeof(sym));
		s->steps++;
		const Elf64_Shdr *section = symtab_code(&s->file, &sym, &names);
		if (section)
			match_symbol(s, &sym, section, names.data + sym.st_name);
	}
}

/* A symbol without a size reaches to the next one. A label inside a function does not name it. */
static void choose_names(const struct search *s, const char **names)
{
	struct wanted reach = {.any = false};
	for (size_t i = 0; i < s->n; i++) {
		const struct wanted *w = &s->wanted[i];
		if (w->any) {
			reach.last = w->last;
			reach.open = (struct candidate){0};
			if (w->open.name && w->open.start == w->last) {
				reach.open = w->open;
				reach.end = w->end;
			}
		}
		const uint64_t label_floor = s->label_floors ? s->label_floors[i] : symtab_label_floor(s->vaddrs[i]);
		bool sized_too = w->sized.name && w->sized.start == reach.open.start;
		bool open =
			reach.open.name && s->vaddrs[i] < reach.end && (sized_too || reach.open.start >= label_floor);
		bool label = reach.open.rank >= SYMTAB_RANK_LABEL;
		bool over = open && (!w->sized.name || (!label && is_better(&reach.open, &w->sized)));
		names[i] = over ? reach.open.name : w->sized.name;
	}
}

int symtab_scan_symbols(const struct elf_memory *image, const uint64_t *vaddrs, const uint64_t *label_floors, size_t n,
	const char **names, struct err *e)
{
	struct search s = {.image = image, .vaddrs = vaddrs, .label_floors = label_floors, .n = n};
	int r = elf_tables_read(elf_source_memory(image), &s.file, e);
	if (r < 0)
		return r;
	s.wanted = calloc(n + 1, sizeof(s.wanted[0]));
	if (!s.wanted) {
		elf_tables_done(&s.file);
		return err_set(e, -ENOMEM, "cannot look up ELF symbols");
	}
	for (size_t i = 1; i < s.file.n_sections; i++)
		if ((s.file.sections[i].sh_type == SHT_SYMTAB || s.file.sections[i].sh_type == SHT_DYNSYM) &&
			!(s.file.sections[i].sh_flags & SHF_COMPRESSED))
			see_table(&s, &s.file.sections[i]);
	choose_names(&s, names);
	elf_tables_done(&s.file);
	free(s.wanted);
	return 0;
}

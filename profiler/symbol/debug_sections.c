/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/debug_sections.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 16
#define IMAGE_MAX (UINT64_C(1) << 32) /* bytes; a process may have fewer */

/* DWARF 2 to 5, without locations of variables, macros, call frames and indexes: profiler/symbol/dwarf_lines.c asks for
 * none.
 */
static const char *const wanted[] = {
	".debug_abbrev",
	".debug_addr",
	".debug_aranges",
	".debug_info",
	".debug_line",
	".debug_line_str",
	".debug_ranges",
	".debug_rnglists",
	".debug_str",
	".debug_str_offsets",
	".debug_types",
	".gnu_debugaltlink",
};

struct image {
	const struct elf_memory *file;
	struct elf_tables tables;
	uint8_t *bytes;
	size_t size;
};

static bool is_wanted(const struct elf_tables *t, const Elf64_Shdr *s)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (!strcmp((const char *)t->names + s->sh_name, wanted[i]))
			return true;
	return false;
}

/* Its bytes in the file; NULL: it has none, or the file ends before. */
static const uint8_t *bytes_of(const struct elf_memory *file, const Elf64_Shdr *s)
{
	if (s->sh_type == SHT_NULL || s->sh_type == SHT_NOBITS || s->sh_offset > file->size ||
		s->sh_size > file->size - s->sh_offset)
		return NULL;
	return (const uint8_t *)file->data + s->sh_offset;
}

static size_t take_room(size_t *size, size_t more)
{
	const size_t at = (*size + ALIGN - 1) / ALIGN * ALIGN;
	*size = at + more;
	return at;
}

static size_t names_index(const struct elf_tables *t)
{
	return t->header.e_shstrndx == SHN_XINDEX ? t->sections[0].sh_link : t->header.e_shstrndx;
}

/*
 * Makes the section headers of the image from those of the file; sections that are not wanted get no bytes. Returns how
 * many sections have to be decompressed; -1: one of them cannot be, or they are too large.
 */
static int lay_out(struct image *m, Elf64_Shdr *to)
{
	const struct elf_tables *t = &m->tables;
	int n = 0;
	m->size = sizeof(Elf64_Ehdr);
	take_room(&m->size, t->n_sections * sizeof(*to));
	for (size_t i = 1; i < t->n_sections; i++) {
		const Elf64_Shdr *from = &t->sections[i];
		const uint8_t *bytes = bytes_of(m->file, from);
		uint64_t size = from->sh_size;
		if (i == names_index(t)) {
			size = t->names_size;
		} else if (!bytes || from->sh_name >= t->names_size || !is_wanted(t, from)) {
			to[i].sh_type = SHT_NOBITS;
			size = 0;
		} else if (from->sh_flags & SHF_COMPRESSED) {
			size = elf_decompressed_size(bytes, from->sh_size);
			n++;
			if (!size || size > IMAGE_MAX)
				return -1;
		}
		to[i].sh_flags = from->sh_flags & ~(uint64_t)SHF_COMPRESSED;
		to[i].sh_size = size;
		to[i].sh_offset = take_room(&m->size, size);
		if (m->size > IMAGE_MAX)
			return -1;
	}
	return n;
}

static bool copy_sections(struct image *m, const Elf64_Shdr *to)
{
	const struct elf_tables *t = &m->tables;
	for (size_t i = 1; i < t->n_sections; i++) {
		const Elf64_Shdr *from = &t->sections[i];
		const bool is_compressed = from->sh_flags & SHF_COMPRESSED && i != names_index(t);
		const uint8_t *bytes = i == names_index(t) ? t->names : bytes_of(m->file, from);
		uint8_t *at = m->bytes + to[i].sh_offset;
		if (!to[i].sh_size)
			continue;
		if (!is_compressed)
			memcpy(at, bytes, to[i].sh_size);
		else if (elf_decompress(bytes, from->sh_size, at, to[i].sh_size) < 0)
			return false;
	}
	return true;
}

static bool build_image(struct image *m, Elf64_Shdr *to)
{
	Elf64_Ehdr *header;
	if (lay_out(m, to) <= 0 || !(m->bytes = calloc(1, m->size)))
		return false;
	header = (Elf64_Ehdr *)(void *)m->bytes;
	*header = m->tables.header;
	header->e_phoff = header->e_phnum = 0;
	header->e_shoff = sizeof(*header);
	memcpy(m->bytes + header->e_shoff, to, m->tables.n_sections * sizeof(*to));
	return copy_sections(m, to);
}

void *debug_sections_decompress(const struct elf_memory *file, size_t *ret_size)
{
	struct image m = {.file = file};
	if (elf_tables_read(elf_source_memory(file), &m.tables, NULL) < 0)
		return NULL;
	Elf64_Shdr *to = m.tables.names ? malloc(m.tables.n_sections * sizeof(*to)) : NULL;
	if (to) {
		memcpy(to, m.tables.sections, m.tables.n_sections * sizeof(*to));
		if (!build_image(&m, to)) {
			free(m.bytes);
			m.bytes = NULL;
		}
	}
	free(to);
	elf_tables_done(&m.tables);
	*ret_size = m.size;
	return m.bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/debuglink.h"

#include <stdlib.h>
#include <string.h>

#define LINK_MAX 4096 /* bytes of .gnu_debuglink or .gnu_debugaltlink */

/* The section's bytes; malloc'ed, NULL: no such section, or none that makes sense. */
static uint8_t *link_section(struct elf_source src, const struct elf_tables *t, const char *name, size_t *ret_size)
{
	const Elf64_Shdr *s = elf_tables_section_any(t, name);
	uint8_t *bytes = NULL;
	if (!s || s->sh_size > LINK_MAX || elf_bytes(src, s->sh_offset, s->sh_size, name, &bytes, NULL) < 0)
		return NULL;
	*ret_size = s->sh_size;
	return bytes;
}

/* A name, padding to 4, a checksum. A name with a slash is an attack, and ignored. */
static void read_link(struct elf_source src, const struct elf_tables *t, struct debug_facts *f)
{
	size_t size, len;
	char *bytes = (char *)link_section(src, t, ".gnu_debuglink", &size);
	if (!bytes)
		return;
	len = strnlen(bytes, size);
	size_t at = (len + 4) & ~3ul;
	if (len && len <= NAME_MAX && at + 4 <= size && !strchr(bytes, '/') && strcmp(bytes, "..") != 0) {
		memcpy(f->link, bytes, len + 1);
		memcpy(&f->link_crc, bytes + at, 4);
	}
	free(bytes);
}

/* A path, its NUL, a build-id. */
static void read_alt(struct elf_source src, const struct elf_tables *t, struct debug_facts *f)
{
	size_t size, len;
	char *bytes = (char *)link_section(src, t, ".gnu_debugaltlink", &size);
	if (!bytes)
		return;
	len = strnlen(bytes, size);
	if (len && len + 1 < size && len < sizeof(f->alt) && size - len - 1 <= ELF_BUILD_ID_MAX) {
		memcpy(f->alt, bytes, len + 1);
		f->alt_id.len = size - len - 1;
		memcpy(f->alt_id.bytes, bytes + len + 1, f->alt_id.len);
	}
	free(bytes);
}

static void read_segments(const struct elf_tables *t, struct debug_facts *f)
{
	for (size_t i = 0; i < t->n_segments && f->n_segments < DEBUG_SEGMENTS_MAX; i++) {
		const Elf64_Phdr *p = &t->segments[i];
		if (p->p_type == PT_LOAD && p->p_flags & PF_X)
			f->segments[f->n_segments++] =
				(struct debug_segment){p->p_vaddr, p->p_offset, p->p_filesz, p->p_memsz};
	}
}

int debug_facts_read(struct elf_source src, struct debug_facts *ret, struct err *e)
{
	struct elf_tables t;
	memset(ret, 0, sizeof(*ret));
	int r = elf_tables_read(src, &t, e);
	if (r < 0)
		return r;
	r = elf_tables_build_id(src, &t, ret->id.bytes, &ret->id.len, e);
	if (r == 0) {
		static const char *const names[] = {
			".debug_info", ".debug_line", ".zdebug_info", ".zdebug_line" /* Go until 1.18 */};
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			ret->has_debug |= elf_tables_section_any(&t, names[i]) != NULL;
		ret->is_cut = t.cut;
		ret->is_go = elf_tables_gopclntab(&t) != NULL;
		read_link(src, &t, ret);
		read_alt(src, &t, ret);
		read_segments(&t, ret);
	}
	elf_tables_done(&t);
	return r;
}

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->len == b->len && !memcmp(a->bytes, b->bytes, a->len);
}

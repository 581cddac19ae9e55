/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/pprof/linked_address.h"

#define PAGE 4096ull

/* The mapping is all of the segment: exactly, as pillion writes it, or in whole pages, as the kernel maps it. */
static bool is_all_of(const struct debug_segment *s, const struct profile_mapping *m)
{
	uint64_t size = m->limit - m->start, before = (s->vaddr - m->offset) % PAGE;
	return size >= s->memsz && size - s->memsz < PAGE + before;
}

static bool by_size(const struct debug_facts *f, const struct profile_mapping *m, uint64_t address, uint64_t *ret)
{
	const struct debug_segment *found = NULL;
	for (uint32_t i = 0; i < f->n_segments; i++) {
		if (!is_all_of(&f->segments[i], m))
			continue;
		if (found)
			return false;
		found = &f->segments[i];
	}
	if (found) /* offset and address are equal within a page */
		*ret = address - m->start + found->vaddr - (found->vaddr - m->offset) % PAGE;
	return found;
}

static bool by_offset(const struct debug_facts *f, const struct profile_mapping *m, uint64_t address, uint64_t *ret)
{
	uint64_t offset = address - m->start + m->offset;
	for (uint32_t i = 0; i < f->n_segments; i++) {
		const struct debug_segment *s = &f->segments[i];
		if (offset < s->offset || offset - s->offset >= s->filesz)
			continue;
		*ret = s->vaddr + (offset - s->offset);
		return true;
	}
	return false;
}

bool linked_address_find(const struct debug_facts *f, const struct profile_mapping *m, uint64_t address, uint64_t *ret)
{
	if (address < m->start || address >= m->limit)
		return false;
	return by_offset(f, m, address, ret) || by_size(f, m, address, ret);
}

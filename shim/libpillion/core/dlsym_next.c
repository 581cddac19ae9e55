/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/dlsym_next.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define HIDDEN 0x8000 /* of a version: an old one, only for programs that were linked with it */

extern void *dlsym(void *, const char *) __attribute__((weak));
extern int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *) __attribute__((weak));

struct looking {
	const char *name;
	bool past_us;
	void *found;
};

struct tables {
	const ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint32_t *hash, *gnu_hash;
};

static bool is_in_module(const struct dl_phdr_info *m, uintptr_t at)
{
	for (unsigned i = 0; i < m->dlpi_phnum; i++) {
		const uintptr_t from = m->dlpi_addr + m->dlpi_phdr[i].p_vaddr;
		if (m->dlpi_phdr[i].p_type == PT_LOAD && at - from < m->dlpi_phdr[i].p_memsz)
			return true;
	}
	return false;
}

/* glibc has relocated these to addresses, musl has not. */
static const void *address_of(const struct dl_phdr_info *m, uintptr_t value)
{
	return (const void *)(is_in_module(m, value) ? value : m->dlpi_addr + value);
}

static bool read_tables(const struct dl_phdr_info *m, struct tables *ret)
{
	const ElfW(Dyn) *d = NULL;
	*ret = (struct tables){0};
	for (unsigned i = 0; i < m->dlpi_phnum; i++)
		if (m->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(m->dlpi_addr + m->dlpi_phdr[i].p_vaddr);
	for (; d && d->d_tag != DT_NULL; d++) {
		const void *at = address_of(m, d->d_un.d_ptr);
		ret->symbols = d->d_tag == DT_SYMTAB ? at : ret->symbols;
		ret->strings = d->d_tag == DT_STRTAB ? at : ret->strings;
		ret->versions = d->d_tag == DT_VERSYM ? at : ret->versions;
		ret->hash = d->d_tag == DT_HASH ? at : ret->hash;
		ret->gnu_hash = d->d_tag == DT_GNU_HASH ? at : ret->gnu_hash;
	}
	return ret->symbols && ret->strings && (ret->hash || ret->gnu_hash);
}

/* Number of symbols: the newer table tells by the end of its last chain. */
static uint32_t count_of(const struct tables *t)
{
	if (t->hash)
		return t->hash[1];
	const uint32_t buckets = t->gnu_hash[0], first = t->gnu_hash[1],
		       words = t->gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
	const uint32_t *bucket = t->gnu_hash + 4 + words, *chain = bucket + buckets;
	uint32_t last = 0;
	for (uint32_t i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < first)
		return first;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static int look_at(struct dl_phdr_info *m, size_t size, void *arg)
{
	struct looking *l = arg;
	struct tables t;
	if (!l->past_us) {
		l->past_us = is_in_module(m, (uintptr_t)&look_at);
		return 0;
	}
	const uint32_t n = read_tables(m, &t) ? count_of(&t) : 0;
	for (uint32_t i = 0; i < n && !l->found; i++) {
		const ElfW(Sym) *s = &t.symbols[i];
		if (s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == STT_FUNC &&
			!(t.versions && t.versions[i] & HIDDEN) && !strcmp(t.strings + s->st_name, l->name))
			l->found = (void *)(m->dlpi_addr + s->st_value);
	}
	return l->found != NULL;
}

void *dlsym_next(const char *name)
{
	struct looking l = {.name = name};
	if (dlsym)
		return dlsym(RTLD_NEXT, name);
	if (dl_iterate_phdr)
		dl_iterate_phdr(look_at, &l);
	return l.found;
}

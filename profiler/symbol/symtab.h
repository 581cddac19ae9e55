/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab - address -> function name, from .symtab and .dynsym (elf(5)) and their substitutes.
 *
 * One sorted array per module in private memory: STT_FUNC, STT_GNU_IFUNC and untyped code symbols of defined sections.
 * A label (size 0) reaches to the next symbol or the end of its section, and no farther than its caller says: assembly
 * often has no sizes, so what lies behind a label may be anybody's. Of several symbols on one address the preferred one
 * wins: FUNC before NOTYPE, GLOBAL before WEAK before LOCAL, no leading underscores, then shorter, then by name.
 * Between functions that lie in each other the innermost one wins. Untyped labels inside a function are not kept. In
 * native files with .rela.plt, the stubs of .plt and .plt.sec are "NAME@plt". Addresses are virtual addresses as
 * linked (see elf_vaddr_of_offset). Without section headers the dynamic segment has the symbols (elf_dynamic.h), and
 * their code is what an executable segment holds. A file without .symtab may have one packed in .gnu_debugdata (see
 * minidebuginfo.h), which serves as well; a Go program has the table of its functions (see gopclntab.h). Hostile input:
 * caps below; over a cap the table is cut there and `truncated` is set.
 */
#pragma once

#include "profiler/elf/elf.h"

#define SYMTAB_MAX (4u << 20)
#define SYMTAB_STRINGS_MAX (128u << 20)

struct symtab {
	size_t count;
	bool truncated;
	/* private: see symtab.c */
	struct symbol *table;
	char *strings;
	size_t strings_size;
};

/*
 * 0 with count 0 when the file is stripped; -errno as elf_read; -ENOSPC: reading takes more than `room` bytes (see
 * symtab_scan.h for such files).
 */
int symtab_read(struct elf_source src, size_t room, struct symtab **ret, struct err *e);
/*
 * Name (valid as long as the table) and offset into the function; NULL if no symbol covers the address. label_floor: a
 * label below does not reach `vaddr`. symtab_label_floor gives it where nothing is known of the code but its symbols.
 */
const char *symtab_find(const struct symtab *s, uint64_t vaddr, uint64_t label_floor, uint64_t *ret_offset);
bool symtab_defines(const struct symtab *s, const char *name); /* looks at all of them */
#define SYMTAB_LABEL_MAX 4096				       /* bytes that are a label's without proof */
static inline uint64_t symtab_label_floor(uint64_t vaddr)
{
	return vaddr < SYMTAB_LABEL_MAX ? 0 : vaddr - SYMTAB_LABEL_MAX + 1;
}
/* Rules that symtab_scan.c shares. Is it code with a name? Which one of two at one address is preferred? */
struct symbol_names {
	const char *data; /* NUL-terminated */
	uint64_t size;
};
#define SYMTAB_RANK_LABEL 3 /* STT_NOTYPE; its bindings follow */
/* The section with the code that a symbol names; NULL: it names none. */
const Elf64_Shdr *symtab_code(const struct elf_tables *file, const Elf64_Sym *s, const struct symbol_names *names);
uint8_t symtab_rank(unsigned char info);     /* lower is preferred */
size_t symtab_name_length(const char *name); /* without the version that the linker notes behind '@' */
bool symtab_preferred(uint8_t rank, const char *name, uint8_t than_rank, const char *than);

size_t symtab_memory(const struct symtab *s); /* bytes held */
struct symtab *symtab_free(struct symtab *s);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf - the few things pillion needs of an ELF file: loadable segments, build-id, unwind sections, symbol
 * tables (elf(5); LSB core "Exception Frames" for .eh_frame_hdr).
 *
 * The file is hostile: it is read with pread through `struct elf_source` into private memory, never
 * mapped; every offset, size and count is checked against the file and against the caps below.
 * 64-bit little-endian x86-64 and aarch64; anything else is -ENOEXEC.
 */
#pragma once

#include "oci/base/err.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ELF_SEGMENTS_MAX 64
#define ELF_SECTIONS_MAX 65536
#define ELF_UNWIND_MAX (64u << 20) /* bytes of .eh_frame, .eh_frame_hdr, .debug_frame, decompressed */
#define ELF_BUILD_ID_MAX 20
#define ELF_PLT_MAX (4u << 20)

struct elf_source {
	/* as pread(2): bytes, 0 at the end, -errno */
	ssize_t (*read)(void *arg, void *buf, size_t size, uint64_t off);
	void *arg;
};
struct elf_source elf_source_fd(const int *fd); /* borrows the pointed-to fd */
struct elf_memory {
	const void *data;
	size_t size;
};
struct elf_source elf_source_memory(const struct elf_memory *m); /* e.g. the vdso */

struct elf_segment {
	uint64_t vaddr, offset, filesz, memsz;
	bool exec;
};

struct elf_section { /* bytes in private memory; data NULL if absent */
	uint64_t vaddr, size;
	uint8_t *data;
};

struct elf_plt { /* stubs through which a program calls functions in other files; size 0: none */
	uint64_t vaddr, size;
	bool lazy; /* 16 bytes each, the first one for all; else each is a jump and nothing more */
};

struct elf {
	uint16_t type, machine; /* ET_EXEC, ET_DYN; ELF_ARCH_NATIVE, ELF_ARCH_EMULATED (elf_arch.h) */
	uint64_t entry;
	unsigned n_segments;
	struct elf_segment segments[ELF_SEGMENTS_MAX]; /* PT_LOAD, in file order */
	uint8_t build_id[ELF_BUILD_ID_MAX];
	size_t build_id_len; /* 0: none */
	struct elf_section eh_frame_hdr, eh_frame;
	bool eh_frame_open_ended;	/* nothing but its own terminator says where it ends */
	struct elf_section debug_frame; /* of code that has no .eh_frame; elf_drop_debug_frame frees it */
	struct elf_plt plt[2];		/* .plt, .plt.got */
	struct elf_section gopclntab;	/* of a Go program; elf_drop_gopclntab frees it */
};

/* Read headers, build-id and unwind sections. -ENOEXEC not an ELF of ours, -EBADMSG malformed, -EFBIG over a cap. */
int elf_read(struct elf_source src, struct elf **ret, struct err *e);
struct elf *elf_free(struct elf *f);
void elf_drop_gopclntab(struct elf *f);	  /* it is large, and needed to make rows only */
void elf_drop_debug_frame(struct elf *f); /* likewise */

/* File offset -> virtual address as linked; false if no loadable segment holds it. */
bool elf_vaddr_of_offset(const struct elf *f, uint64_t offset, uint64_t *ret);

/*
 * For readers of further sections (symbols, debug info): the file's own tables, in private memory. Only their place and
 * number are checked. Every offset and size in an entry is still as the file says, so read contents with elf_bytes,
 * which allocates at most twice the bytes that the file really holds.
 */
#define ELF_NAMES_MAX (16u << 20) /* bytes of section names */

struct elf_tables {
	Elf64_Ehdr header;
	Elf64_Phdr *segments;
	size_t n_segments;
	Elf64_Shdr *sections;
	size_t n_sections;
	uint8_t *names; /* NUL-terminated; NULL: sections have no names */
	size_t names_size;
	bool by_segment; /* sections are made from the dynamic segment (elf_dynamic.h): symbols' st_shndx is of none */
	bool cut;	 /* it says that it has section headers, which could not be read */
};
/* A file with segments may have no section headers, or wrong ones, as its loader reads none. */
int elf_tables_read(struct elf_source src, struct elf_tables *ret, struct err *e); /* errors as elf_read; also ET_REL */
void elf_tables_done(struct elf_tables *t);
/* The first section of that name with bytes in the file (not NOBITS, not compressed), or NULL. */
const Elf64_Shdr *elf_tables_section(const struct elf_tables *t, const char *name);
const Elf64_Shdr *elf_tables_section_any(const struct elf_tables *t, const char *name); /* also a compressed one */
/* Into ELF_BUILD_ID_MAX bytes; *ret_len 0: the file has none. -errno of reading only. */
int elf_tables_build_id(
	struct elf_source src, const struct elf_tables *t, uint8_t *ret, size_t *ret_len, struct err *e);
const Elf64_Shdr *elf_tables_gopclntab(const struct elf_tables *t); /* of a Go program, or NULL */
/*
 * For a section with SHF_COMPRESSED (elf(5), Elf64_Chdr). The first returns the decompressed size; 0: the section is
 * not in zlib's format, or claims more than deflate can make of its bytes. The second decompresses exactly ret_size
 * bytes; -EBADMSG: the section does not hold these.
 */
uint64_t elf_decompressed_size(const uint8_t *bytes, uint64_t size);
int elf_decompress(const uint8_t *bytes, uint64_t size, uint8_t *ret, uint64_t ret_size);
/*
 * Reads exactly `size` bytes, malloc'ed, a NUL behind them. -EBADMSG: the file ends before. `what` names them in
 * errors.
 */
int elf_bytes(struct elf_source src, uint64_t off, uint64_t size, const char *what, uint8_t **ret, struct err *e);

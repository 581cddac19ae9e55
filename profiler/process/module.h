/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module - the ELF files that code runs from, each read once and shared by every target and process.
 *
 * A module is known by its build-id where the kernel reports one, else by (device, inode, generation, path).
 * modules_get() reads the file at once, into private memory, and closes it: a container's tree is gone two seconds
 * after the container. So the caller asks when a sample first hits the mapping, not before.
 *
 * The file is a tenant's and hostile: the caller opens it (beneath the target's tree, never a FIFO), here it must be a
 * regular file, an ELF file, and carry the build-id that the kernel saw in the mapping. If the file fails, the
 * module keeps a name and a reason; the next modules_get() of the same key tries again, since another target may be
 * allowed to read a file that this one was not. A file that killed workers is not read (quarantine.h).
 *
 * Memory: a byte cap over everything held. Unreferenced modules stay as a cache, and the one released longest ago goes
 * first. 1/8 of the cap is kept for modules that are a name only, so that large files cannot crowd out names.
 *
 * Addresses: `vaddr` is a virtual address as linked; if the ELF file could not be read, it is the file offset.
 */
#pragma once

#include "profiler/elf/elf.h"
#include "profiler/elf/target_file.h"
#include "profiler/symbol/name_cache.h"
#include "profiler/unwind/unwind_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODULE_NAME_MAX 512 /* enough for any module_frame_name() that is not cut */

enum module_state {
	MODULE_LOADED,	    /* unwind tables, symbols (perhaps none) */
	MODULE_UNREADABLE,  /* the open or a read failed: EACCES, ENOENT, deleted, the tree is gone */
	MODULE_NOT_ELF,	    /* no regular file, or no ELF file that we can parse */
	MODULE_OTHER_FILE,  /* another build-id than the mapping's: replaced since */
	MODULE_NO_ROOM,	    /* over the byte cap */
	MODULE_QUARANTINED, /* its file has ended workers: it is not read */
	MODULE_ANONYMOUS,   /* no file behind it: "//anon", "[heap]", JIT code */
};

struct journal;
struct journal_reader;

/* A file's identity as the MMAP2 record gives it. build_id_len > 0: the numbers are not compared. */
struct module_key {
	const char *path;
	uint32_t maj, min;
	uint64_t ino, generation;
	uint8_t build_id[ELF_BUILD_ID_MAX];
	uint8_t build_id_len;
};
/* The same build-id is the same file, wherever it lies; without one, everything must be equal, the path as well. */
bool module_key_equal(const struct module_key *a, const struct module_key *b);
uint32_t module_key_hash(const struct module_key *key);
void module_key_save(const struct module_key *key, struct journal *j);
/* The path is in the journal's memory. What is not a key makes the reader bad. */
void module_key_load(struct journal_reader *from, struct module_key *ret);

struct modules;
struct module;

struct modules_stats {
	size_t count, loaded, bytes; /* held now */
	uint64_t hits, loads, failures, evictions;
};

int modules_new(size_t cap_bytes, struct modules **ret);
/* Sets where to note the file that is being read, and the files that are not to be read; both outlive the table. */
struct crash_marker;
struct quarantine;
void modules_guard(struct modules *t, struct crash_marker *at, const struct quarantine *q);
/* For targets that ran under another kernel: its vdso (borrowed), in place of ours. */
void modules_use_vdso(struct modules *t, const struct elf_memory *image);
struct modules *modules_free(struct modules *t); /* every module must have been released */
void modules_stats(const struct modules *t, struct modules_stats *ret);

/*
 * Gets the module for a key, referenced. Returns 0 also if its file cannot be used (see module_state). -ENOSPC: not
 * even the name fits the cap; -ENOMEM. Path "[vdso]" is this process' own vdso, which is the target's as well, or that
 * of modules_use_vdso.
 */
int modules_get(
	struct modules *t, const struct module_key *key, target_file_open_fn *open, void *arg, struct module **ret);
/* Returns whether a mapping of that name has a file that is looked up. */
bool module_has_file(const char *path);
/* Drops unreferenced modules of this generation without a build-id: they are of no more use. */
void modules_drop(struct modules *t, uint64_t generation);
struct module *module_ref(struct module *m);
struct module *module_unref(struct module *m); /* NULL is fine; returns NULL */
/*
 * Enclose all code that reads bytes of its file, or of its debug information, wherever they lie: if that kills the
 * worker, the supervisor knows which file it was. They do not nest: after an inner pair nothing is noted.
 */
void module_enter(const struct module *m);
void module_leave(const struct module *m);

/* All of these take NULL for "unknown". Strings live as long as the module. */
uint32_t module_id(const struct module *m);			/* from 1, never used twice; 0: unknown */
enum module_state module_state(const struct module *m);		/* NULL: MODULE_ANONYMOUS */
const char *module_reason(const struct module *m);		/* a sentence; "" when loaded */
const char *module_name(const struct module *m);		/* the path of the first mapping seen; "[unknown]" */
const char *module_build_id_hex(const struct module *m);	/* lower case, "" if there is none */
const struct elf *module_elf(const struct module *m);		/* NULL unless loaded */
const struct unwind_table *module_rows(const struct module *m); /* NULL unless loaded; of native code */
const struct module_key *module_key(const struct module *m);
uint64_t module_vaddr(const struct module *m, uint64_t file_offset);
/* A label without a size that stands below does not name `vaddr` (profiler/symbol/symtab.h). */
uint64_t module_label_floor(const struct module *m, uint64_t vaddr);
/* True: a symbol or an entry says that a function begins there. To be called between module_enter and module_leave. */
bool module_begins(const struct module *m, uint64_t vaddr);
bool module_is_libc(const struct module *m); /* it starts programs: it defines __libc_start_main */
/* Function name and the offset into it, or NULL. */
const char *module_symbol(const struct module *m, uint64_t vaddr, uint64_t *ret_offset);
/*
 * The symbolizer's answers for addresses (profiler/target/symbol_requests.h). A module has a share of the cap for them;
 * beyond that none is kept: -ENOSPC, -ENOMEM.
 */
bool module_names(const struct module *m, uint64_t vaddr, const struct symbol_line **ret, size_t *ret_count);
int module_names_put(struct module *m, uint64_t vaddr, const struct symbol_line *lines, size_t count);
bool module_symbols_elsewhere(const struct module *m); /* it has symbols, but no room for them: the symbolizer has */
bool module_names_full(const struct module *m);
/* Adds the function names of a separate debug file (borrowed), once. */
void module_add_symbols(struct module *m, const struct file *debug);
bool module_is_file(const struct module *m, const struct file_id *id); /* the one that it was loaded from, unchanged */
/*
 * Writes the name of a frame: "main", "libfoo.so+0x1230" (where the unwind table says the function begins),
 * "[unreadable] libfoo.so+0x1234", "[anon]", "[unknown]". Addresses of anonymous memory are left out: they say nothing
 * and never repeat. Returns buf.
 */
const char *module_frame_name(const struct module *m, uint64_t vaddr, char *buf, size_t size);

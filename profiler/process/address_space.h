/* SPDX-License-Identifier: Apache-2.0 */
/*
 * address_space - the address space of one process: which file is mapped where, for code only.
 *
 * Built from MMAP2 records (or /proc/PID/maps) of executable mappings. The array of mappings is sorted, shared and
 * copied on the first change, so a fork costs nothing. An exec is address_space_free() and a new space. Unmapping gives
 * no record: a mapping stays until another one lies over it.
 *
 * A file identity is kept once per table of `struct map_files` (one per target) and a mapping only points to it. Its
 * module is looked up when a sample first needs it, through the table's callback. All of it belongs to one thread. The
 * table must outlive its spaces.
 */
#pragma once

#include "oci/base/journal.h"
#include "oci/base/pair_table.h"
#include "profiler/process/module.h"
#include "profiler/unwind/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Mappings of code. Beyond it the oldest are dropped, those of memory first: unmapped ones stay until another one lies
 * over them.
 */
#define ADDRESS_SPACE_MAPPINGS_MAX 16384
#define SPACES_MAPPINGS_MAX (1u << 19) /* of a table, shared ones counted once; beyond it new ones are dropped */
#define ALL_MAPPINGS_MAX (1u << 21)    /* of all tables */

/* A module for the identity, referenced for the table, or NULL: usually modules_get() with the target's tree. */
typedef struct module *map_resolve_fn(void *arg, const struct module_key *key);

#define MAP_FILES_MAX 16384 /* identities in a table; beyond it all new ones share one without a file */

struct map_files;
int map_files_new(map_resolve_fn *resolve, void *arg, struct map_files **ret);
struct map_files *map_files_free(struct map_files *f); /* NULL is fine */
size_t map_files_count(const struct map_files *f);     /* identities held now */

struct mapped_file; /* an identity in the table, counted by the mappings that point to it */

struct mapping {
	uint64_t start, end; /* [start, end) */
	uint64_t pgoff;	     /* bytes into the file at `start` */
	struct mapped_file *file;
	uint64_t born; /* order of arrival */
};
const struct module_key *mapping_key(const struct mapping *m);
struct module *mapping_module(
	const struct mapping *m); /* borrowed; NULL: unknown. Asks the callback once per identity. */

struct address_space;
int address_space_new(struct map_files *files, struct address_space **ret);
int address_space_fork(const struct address_space *parent, struct address_space **ret); /* shares the mappings; O(1) */
struct address_space *address_space_free(struct address_space *s);			/* NULL is fine; returns NULL */

/* Maps a file as mmap(2) does: mappings below are trimmed, split or replaced. -EINVAL: empty or wraps; -ENOMEM. */
int address_space_map(
	struct address_space *s, uint64_t start, uint64_t len, uint64_t pgoff, const struct module_key *file);
/* The mapping that holds the address, or NULL. Valid until the space changes. */
const struct mapping *address_space_find(const struct address_space *s, uint64_t addr);
size_t address_space_count(const struct address_space *s);
const struct mapping *address_space_at(const struct address_space *s, size_t i); /* in order of addresses */
/* The path of the process's jitdump, NULL: none is mapped. Valid as long as its mapping is. */
const char *address_space_find_jitdump(const struct address_space *s, uint32_t pid);
uint64_t address_space_dropped(const struct address_space *s); /* mappings that went over the cap */

/* Records were lost: an address without a mapping may have been mapped all the same. Inherited by forks. */
void address_space_set_lossy(struct address_space *s);
bool address_space_lossy(const struct address_space *s); /* also after a drop */

/* The unwinder's data, shared by the spaces that share mappings (struct unwind_cache). */
struct unwind_cache **address_space_cache(const struct address_space *s);
struct unwind_map address_space_unwind_map(const struct address_space *s); /* for the unwinder */

/*
 * For a journal (oci/base/journal.h): spaces of one table, one after the other. Shared parts are written once, so
 * written parts are remembered: `spaces_saved` all zero before the first, done after the last.
 */
struct spaces_saved {
	struct pair_table sets, files;
};
void address_space_save(const struct address_space *s, struct spaces_saved *known, struct journal *j);
void spaces_saved_done(struct spaces_saved *known);
struct spaces_restored {
	struct map_set **sets;
	struct mapped_file **files;
	size_t n_sets, n_files, sets_room, files_room;
};
/* -EBADMSG, -ENOMEM */
int address_space_restore(
	struct map_files *files, struct spaces_restored *known, struct journal_reader *s, struct address_space **ret);
void spaces_restored_done(struct spaces_restored *known);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_entries - the entries that describe the code of a file, one after the other by address: of .eh_frame,
 * .debug_frame, Go's pclntab, and its PLTs. Entries of .debug_frame and PLTs count only where there is no other: the
 * program itself unwinds by .eh_frame.
 *
 * The bytes are hostile: an entry that is malformed, or does not fit into the budget, is left out and counted.
 */
#pragma once

#include "oci/base/array.h"
#include "profiler/elf/elf.h"
#include "profiler/elf/gopclntab.h"
#include "profiler/unwind/cfi_parse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where an entry is from. */
enum entry_source {
	FROM_GO, /* `program` is the function's number in gopclntab */
	FROM_DEBUG_FRAME,
	FROM_EH_FRAME,
	FROM_PLT, /* `program` is its number in elf.plt; lld and BOLT describe theirs nowhere */
};
#define UNWIND_ENTRIES_CFI 2 /* the two in the middle, which are call frame information */
static inline unsigned unwind_entries_section(enum entry_source from)
{
	return from - FROM_DEBUG_FRAME;
}

struct entry_key;
struct unwind_entries {
	const struct elf *elf;
	struct array_limit *budget;
	struct cfi_section sections[UNWIND_ENTRIES_CFI];
	struct gopclntab go;
	uint64_t base; /* lowest address with an entry */
	uint32_t last; /* where the last one begins, from base */
	size_t count, left_out;
	/* its own */
	uint64_t origin;	/* the file's lowest address, from which keys count until base is known */
	struct entry_key *keys; /* by address, once they are sorted */
	size_t n_keys, room_keys;
	size_t next_key, next_strong; /* to be taken; the first one behind the last taken that is not weak */
	uint64_t covered;	      /* code up to here has entries that are not weak */
};

/*
 * Collects the entries; those that begin more than `reach` bytes above the first one are left out. Borrows `f` and
 * `budget`, and *x stays where it is. -ENOMEM.
 */
int unwind_entries_open(struct unwind_entries *x, const struct elf *f, struct array_limit *budget, uint32_t reach);
void unwind_entries_done(struct unwind_entries *x); /* also of one that failed to open, or is 0 */
/*
 * Returns the next entry that counts. Of several that begin together the last one in the file comes last; they may
 * overlap.
 */
bool unwind_entries_next(struct unwind_entries *x, struct cfi_entry *ret);
size_t unwind_entries_left(const struct unwind_entries *x); /* that are still to be looked at */

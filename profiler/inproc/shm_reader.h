/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_reader - the reader's side of an area (shim/libpillion/abi/shm_layout.h): samples of one process' library.
 *
 * All of it is hostile: the process may write there at any time. So the reader copies everything first, by pread(2),
 * then checks the copy; it maps nothing. It accepts only a memfd that can neither shrink nor grow and has no huge
 * pages. It waits for a record that is reserved and not published for SHM_READER_PATIENCE, then skips it.
 *
 * The writer may reuse the room of records once the reader has acknowledged them (shm_reader_said): they cannot be read
 * again. A reader with a journal acknowledges records when the counts made of them are in the journal, sooner where
 * there is not much room left.
 */
#pragma once

#include "oci/base/clock.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

#define SHM_READER_PATIENCE (1 * NSEC_PER_SEC)
#define SHM_READER_CROWDED_PATIENCE (20 * NSEC_PER_MSEC) /* if half of the room waits behind it */

struct shm_reader {
	int memory;
	uint32_t pid;
	uint64_t cookie;
	uint64_t read, said;   /* SHM_AT; the position the writer knows */
	int64_t stuck;	       /* since when the next record is unpublished; 0: it is not */
	uint64_t lost, missed; /* records: dropped by the process for want of room; never published, or garbled */
	uint64_t lost_seen;
	uint64_t cpu;		     /* ns of CPU time that the process reports, since the caller reset it */
	uint64_t cpu_seen, cpu_said; /* in all; as written to the area */
	uint64_t awaited;	     /* bytes allocated before we had said what we want, since the caller reset it */
	uint64_t awaited_seen, awaited_said;
	uint64_t maps; /* requests for its mappings so far */
	uint32_t left; /* SHM_UNITs, after the last drain */
};

bool shm_reader_is_area(int memory); /* by its size and seals */
/* Takes the descriptor, also on failure. -EPROTO: it is no area. */
int shm_reader_open(int memory, struct shm_reader *ret);
void shm_reader_close(struct shm_reader *i);
/* The parts that follow a record; the stack has r->stack bytes. */
static inline const struct shm_more *shm_reader_more(const struct shm_record *r) /* or NULL */
{
	return r->more ? (const struct shm_more *)(r + 1) : NULL;
}
static inline const struct shm_crash *shm_reader_crash(const struct shm_record *r) /* of SHM_CRASH */
{
	return (const struct shm_crash *)(r + 1);
}
static inline const uint8_t *shm_reader_stack(const struct shm_record *r)
{
	return (const uint8_t *)(r + 1) + r->more;
}
typedef void shm_reader_fn(void *arg, const struct shm_record *r);
/*
 * Calls `fn` for each record from `until` (CLOCK_MONOTONIC) or before, with its parts behind it. all: the writer is
 * gone, so do not wait. Returns how many, or -errno: do not use the area any more.
 */
int shm_reader_drain(struct shm_reader *i, int64_t until, bool all, shm_reader_fn *fn, void *arg);
int shm_reader_said(struct shm_reader *i);
int shm_reader_want_maps(struct shm_reader *i); /* asks for its mappings once more (SHM_MAPS) */
/* Treats the CPU time up to `until` as accounted already, at most all that was used. */
void shm_reader_skip_cpu(struct shm_reader *i, uint64_t until);
bool shm_reader_is_crowded(const struct shm_reader *i); /* less than half of the room is left to the writer */
/* Continues at a predecessor's position, which it may not have acknowledged. */
void shm_reader_resume(struct shm_reader *i, uint64_t read);
/* True: so much is left that the writer has passed the mark at which it wakes us: it will not do so again. */
bool shm_reader_is_behind(const struct shm_reader *i);
/* Calls `fn` for each slot in use, in the order of their place, at most SHM_SLOTS times. 0 or -errno. */
typedef void shm_reader_slot_fn(void *arg, const struct shm_slot *s);
int shm_reader_slots(struct shm_reader *i, shm_reader_slot_fn *fn, void *arg);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_reader - the reader's side of an area (shim/libpillion/abi/shm_layout.h): samples of one process' library.
 *
 * All of it is hostile: the process may write there what it likes, at any time. So everything is copied first, by
 * pread(2), then looked at; nothing is mapped. A memfd is taken that can neither shrink nor grow and is none of huge
 * pages. What a writer has reserved and not published is waited for, for SHM_READER_PATIENCE, then skipped.
 *
 * What has been read is said to the writer (shm_reader_said), which may then write there, when it cannot be asked for
 * again: a reader that has a journal says it when what it made of it is in that, sooner where there is not much room
 * left.
 */
#pragma once

#include "oci/base/clock.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdbool.h>
#include <stdint.h>

#define SHM_READER_PATIENCE (1 * NSEC_PER_SEC)
#define SHM_READER_CROWDED_PATIENCE (20 * NSEC_PER_MSEC) /* where half of the room waits behind it */

struct shm_reader {
	int memory;
	uint32_t pid;
	uint64_t cookie;
	uint64_t read, said;   /* SHM_AT; as far as the writer knows */
	int64_t stuck;	       /* since when the next one is not published, 0: it is not so */
	uint64_t lost, missed; /* since it was opened: for want of room, by the process; never published, or garbled */
	uint64_t lost_seen;
	uint64_t cpu;		     /* ns of CPU time that the process says it used, since it was asked last */
	uint64_t cpu_seen, cpu_said; /* in all; as far as the area has it */
	uint64_t maps;		     /* times that what is mapped was wanted */
	uint32_t left;		     /* AREA_UNITs, by the last drain */
};

bool shm_reader_is_area(int memory); /* by its size and seals */
/* Takes the descriptor, also on failure: -EPROTO: it is no area. */
int shm_reader_open(int memory, struct shm_reader *ret);
void shm_reader_close(struct shm_reader *i);
/*
 * Records to `fn`, with what there is more and their stack (r->stack bytes) behind them, that are from `until`
 * (CLOCK_MONOTONIC) or before. all: nobody writes any more, so nothing is waited for. How many, or -errno: it is not to
 * be used any more.
 */
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
int shm_reader_drain(struct shm_reader *i, int64_t until, bool all, shm_reader_fn *fn, void *arg);
int shm_reader_said(struct shm_reader *i);
int shm_reader_want_maps(struct shm_reader *i); /* what it has mapped, once more (SHM_MAPS) */
/* What it had used by then is in somebody's account: of so much, or of all. */
void shm_reader_skip_cpu(struct shm_reader *i, uint64_t until);
bool shm_reader_is_crowded(const struct shm_reader *i); /* the writer has no half of the room left */
/* A predecessor had read so far, and may not have said it. */
void shm_reader_resume(struct shm_reader *i, uint64_t read);
/* What is left is so much that its writer has passed the mark at which it wakes us: it will not do so again. */
bool shm_reader_is_behind(const struct shm_reader *i);
/*
 * The slots that are in use: to `fn`, in the order of their place. Once they have been asked for, `fn` is told no more
 * than SHM_SLOTS of them. 0 or -errno.
 */
typedef void shm_reader_slot_fn(void *arg, const struct shm_slot *s);
int shm_reader_slots(struct shm_reader *i, shm_reader_slot_fn *fn, void *arg);

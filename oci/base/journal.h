/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal - what a process has counted and knows, as a log in shared memory that outlives it: kill -9 at any
 * instruction leaves what was committed before, whole.
 *
 * There are two memory files (memfd_create(2), not sealed), made by somebody who keeps them. One is valid and is
 * appended to; entries become valid together, by one store of how far the log goes. Now and then everything is written
 * to the other one as if anew (a snapshot), which becomes the valid one by one store as well; then the first one's
 * memory is given back. Stores of a process that is killed are seen by who maps or reads the file later, in their
 * order: no call is needed, and none is made but for a snapshot (ftruncate(2)).
 *
 * An entry has a type and a body of numbers (LEB128), texts and bytes. The reader takes them as hostile: whoever wrote
 * them may have been taken over. It reads a private copy, and whatever does not add up makes the entry `bad`: from
 * there on it yields zeros.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_VERSION 10	       /* of everything in it: another one is not read */
#define JOURNAL_MAX ((size_t)32 << 20) /* bytes of each of the two; only what is written takes memory */

struct journal;

/* Takes both, also on failure. -errno of mmap(2). Nothing is changed before the first snapshot. */
int journal_open_take(int a, int b, struct journal **ret);
struct journal *journal_close(struct journal *j); /* NULL is fine; what is in the files stays */

/* --- writing: the first thing is a snapshot */

void journal_snapshot(struct journal *j); /* what comes from here on goes to the other one */
/* It is the valid one. False: it did not fit, and nothing has changed but that it must be begun again. */
bool journal_snapshot_done(struct journal *j, int64_t now);
/* Entries that are left out together if they take more than so many bytes. False: they were. */
void journal_part(struct journal *j, size_t max);
bool journal_part_done(struct journal *j);
void journal_begin(struct journal *j, uint32_t type);
void journal_number(struct journal *j, uint64_t value);
void journal_numbers(struct journal *j, const uint64_t *values, size_t n); /* with how many they are */
void journal_text(struct journal *j, const char *text);
void journal_bytes(struct journal *j, const void *data, size_t n); /* with how many they are */
void journal_end(struct journal *j);
/* All entries since the last time are valid. False: they did not fit, and none of them is. */
bool journal_commit(struct journal *j);
void journal_seen(struct journal *j, int64_t now); /* until then nothing has happened that is not in it */
void journal_invalidate(struct journal *j);	   /* nothing is valid: better nothing than what is not true any more */
size_t journal_used(const struct journal *j);	   /* bytes */

/* --- reading */

struct journal_reader {
	const uint8_t *at, *end;
	bool bad;
};

/* A copy of what is valid, malloc'ed. 0; -ENOENT: nothing is, or nothing that can be read; -ENOMEM, -errno. */
int journal_read(const struct journal *j, uint8_t **ret, size_t *ret_size, int64_t *ret_seen);
/* The next entry; false: there is none, or `all` is bad. */
bool saved_next(struct journal_reader *all, uint32_t *ret_type, struct journal_reader *ret);
uint64_t saved_number(struct journal_reader *s);
uint64_t saved_below(struct journal_reader *s, uint64_t limit); /* a larger one is bad */
size_t saved_count(struct journal_reader *s, size_t size);	/* of things that take at least so many bytes each */
void saved_numbers(struct journal_reader *s, uint64_t *ret, size_t n); /* as many as there are; the rest are 0 */
const char *saved_text(struct journal_reader *s, size_t max);	       /* at most so long; "" if bad */
const uint8_t *saved_bytes(struct journal_reader *s, size_t *ret_n);

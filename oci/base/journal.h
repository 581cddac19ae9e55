/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal - the counts and the state of a process, as a log in shared memory that outlives it: kill -9 at any
 * instruction leaves all that was committed before, whole.
 *
 * There are two memory files (memfd_create(2), not sealed), made and kept by another process. One is valid, and the
 * writer appends to it; entries become valid together, by one store of the log's length. Now and then the writer writes
 * everything anew to the other file (a snapshot), which becomes the valid one by one store as well; then the memory of
 * the first is given back. A process that maps or reads the file later sees the stores of a killed writer in their
 * order: this needs no system call, and the writer makes none except for a snapshot (ftruncate(2)).
 *
 * An entry has a type and a body of numbers (LEB128), texts and bytes. The reader takes them as hostile: the writer may
 * have been taken over. It reads a private copy, and any inconsistency makes the entry `bad`: from there on it yields
 * zeros.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_VERSION 11
/* Release 0.1.0's is read as well: its arrays of numbers are the beginnings of ours. No other version is. */
#define JOURNAL_VERSION_0_1_0 8
#define JOURNAL_MAX ((size_t)32 << 20) /* bytes of each file; only written pages take memory */

struct journal;

/* True: the file is a journal of a version that we read; its entries may still be bad. */
bool journal_is_readable(int fd);

/* Takes both descriptors, also on failure. 0, -ENOMEM, -errno of mmap(2). Changes nothing before the first snapshot. */
int journal_open_take(int a, int b, struct journal **ret);
struct journal *journal_close(struct journal *j); /* NULL is fine; the files keep their contents */

/* --- writing: begins with a snapshot */

void journal_snapshot(struct journal *j); /* begins one: later entries go to the other file */
/* Makes the snapshot valid. False: it did not fit (the old file stays valid), or the old file could not be emptied:
 * then begin it again. */
bool journal_snapshot_done(struct journal *j, int64_t now);
/* Begins and ends entries that are left out together if they take more than `max` bytes. False: they were. */
void journal_part(struct journal *j, size_t max);
bool journal_part_done(struct journal *j);
void journal_begin(struct journal *j, uint32_t type);
void journal_number(struct journal *j, uint64_t value);
void journal_numbers(struct journal *j, const uint64_t *values, size_t n); /* after their count */
void journal_text(struct journal *j, const char *text);
void journal_bytes(struct journal *j, const void *data, size_t n); /* after their count */
void journal_end(struct journal *j);
/* Makes all entries since the last commit valid. False: they did not fit, and none of them is. */
bool journal_commit(struct journal *j);
void journal_seen(struct journal *j, int64_t now); /* up to `now` the journal is complete */
void journal_invalidate(struct journal *j);	   /* no entry is valid: better none than outdated ones */
size_t journal_used(const struct journal *j);	   /* bytes */

/* --- reading */

struct journal_reader {
	const uint8_t *at, *end;
	bool bad;
};

/* Copies the valid entries, malloc'ed. 0; -ENOENT: there are none, or none that can be read; -ENOMEM, -errno. */
int journal_read(const struct journal *j, uint8_t **ret, size_t *ret_size, int64_t *ret_seen);
/* Finds the next entry; false: there is none, or `all` is bad. */
bool saved_next(struct journal_reader *all, uint32_t *ret_type, struct journal_reader *ret);
uint64_t saved_number(struct journal_reader *s);
uint64_t saved_below(struct journal_reader *s, uint64_t limit); /* >= limit is bad */
size_t saved_count(struct journal_reader *s, size_t size);	/* of items that take at least `size` bytes each */
void saved_numbers(struct journal_reader *s, uint64_t *ret, size_t n); /* at most n; missing ones are 0 */
const char *saved_text(struct journal_reader *s, size_t max);	       /* of at most `max` bytes; "" if bad */
const uint8_t *saved_bytes(struct journal_reader *s, size_t *ret_n);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring - reader side of one kernel perf buffer (perf_event_open(2), "MMAP layout").
 *
 * Owns the mapping, borrows the descriptor. One reader. A record is read where it lies; one that wraps around the end
 * is put together in a buffer of the ring's own (the kernel refuses overlapping mappings, so there is no mirror).
 * Any descriptor that maps works: a memfd of the same shape plays the kernel in tests.
 */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>
#include <stdint.h>

struct ring;

/* pages: data pages, a power of two. -EPERM: over the locked-memory limit. */
int ring_open(int fd, size_t pages, struct ring **ret);
struct ring *ring_close(struct ring *r); /* NULL is fine; returns NULL */
void ring_abandon(struct ring *r);	 /* in a child, which has not inherited the mapping */

/* Note how far the kernel has written; the records up to there can be looked at. */
void ring_look(struct ring *r);
/*
 * The next record, or NULL when all were taken. Valid until ring_take. An impossible record (size 0, beyond the head)
 * makes the ring skip to its head; ring_damaged counts that.
 */
const struct perf_event_header *ring_peek(struct ring *r);
void ring_take(struct ring *r);		/* the peeked record is done with: its room belongs to the kernel again */
size_t ring_left(const struct ring *r); /* bytes that the kernel has written by now and that were not taken yet */
uint64_t ring_damaged(const struct ring *r);
uint64_t ring_bytes(const struct ring *r); /* taken so far */

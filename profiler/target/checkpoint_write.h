/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_write - what an engine has counted and knows of its targets, kept in a journal (oci/base/journal.h) for
 * the process that comes after one that was killed.
 *
 * Side-band records (which processes there are, what they map) are written as they are taken, before the ring has
 * their room back: none is lost, and the last one may come twice, which changes nothing. Counts are written once a
 * second, when there are new ones. So a successor, who reads the rings on from where the kernel was told that they were
 * read, lacks at most a second of samples, and has none twice. How much that is the kernel's own count tells
 * when the window ends (profiler/sample/event_counts.c).
 *
 * A window that is over is written down as such before anything is made of it, and struck out when it has been written
 * to the spool. Between the two lies a moment where it may be handed over again: the exporter knows what it has
 * written.
 *
 * All of these take NULL for an engine that has no successor.
 */
#pragma once

#include "profiler/target/engine.h"
#include "profiler/target/window.h"

#include <stdint.h>

struct checkpoint;

/* Takes both descriptors, also on failure; what they hold is for checkpoint_resume. */
int checkpoint_new(int memfd_a, int memfd_b, struct checkpoint **ret);
struct checkpoint *checkpoint_free(struct checkpoint *c); /* what is written stays */

/*
 * Once, when the targets are there that the predecessor had, registered and armed as before, also when there are none:
 * until then no ring is read. Gives each its state, by id, process and time of start, and lets the rest go. Targets of
 * which an intact journal knows nothing are new; if there is none, their past is lost and they count from now on. How
 * many have their state.
 */
unsigned checkpoint_resume(struct checkpoint *c, struct engine *g, int64_t now);
bool checkpoint_waits(const struct checkpoint *c); /* for checkpoint_resume */

/* Counts, when a second is over. Milliseconds until there is something to do, -1: nothing. */
int checkpoint_round(struct checkpoint *c, struct engine *g, int64_t now);
void checkpoint_flush(struct checkpoint *c, struct engine *g, int64_t now);
/* Side-band, of which nothing is changed yet: h is where r was parsed from. */
void checkpoint_record(
	struct checkpoint *c, struct target *t, const struct record *r, const struct perf_event_header *h);
void checkpoint_lossy(struct checkpoint *c, struct target *t);		       /* records were lost */
void checkpoint_tasks(struct checkpoint *c, struct target *t);		       /* nobody will say them again */
void checkpoint_window(struct checkpoint *c, struct window *w);		       /* it is over */
void checkpoint_written(struct checkpoint *c, struct target *t, unsigned seq); /* it is in the spool, or was none */
void checkpoint_gone(struct checkpoint *c, struct target *t);
uint64_t checkpoint_bytes(const struct checkpoint *c); /* of the journal, now */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_write - the counts and the state of an engine's targets, kept in a journal (oci/base/journal.h) for the
 * successor of a process that was killed.
 *
 * Side-band records (processes and their mappings) are written as they are taken, before the ring gets their room back:
 * none is lost, and the last one may come twice, which changes nothing. New counts are written once a second. A
 * successor continues each ring at the position that the kernel was told. So it lacks at most a second of samples, and
 * has none twice. The kernel's own count tells the loss when the window ends (profiler/sample/event_counts.c).
 *
 * A window that is over is recorded as such before its profile is built, and struck out when it has been written to the
 * spool. Between the two it may be handed over again: the exporter remembers the profiles that it has written.
 *
 * All functions take NULL for an engine that has no successor.
 */
#pragma once

#include "profiler/target/engine_state.h"
#include "profiler/target/window.h"

#include <stdint.h>

struct checkpoint;

/* Takes both descriptors, also on failure; checkpoint_resume (checkpoint_read.h) reads their contents. */
int checkpoint_new(int memfd_a, int memfd_b, struct checkpoint **ret);
struct checkpoint *checkpoint_free(struct checkpoint *c); /* the journal's contents stay */

bool checkpoint_waits(const struct checkpoint *c); /* checkpoint_resume (checkpoint_read.h) is still to be called */
/* For checkpoint_resume: the predecessor's journal (the caller frees it), 0 or -errno; a new one, of all targets. */
int checkpoint_contents(const struct checkpoint *c, uint8_t **ret, size_t *ret_size, int64_t *ret_seen);
void checkpoint_start(struct checkpoint *c, struct engine *g, int64_t now);

/* Writes new counts once a second. Returns milliseconds until the next time, -1: nothing to do. */
int checkpoint_round(struct checkpoint *c, struct engine *g, int64_t now);
void checkpoint_flush(struct checkpoint *c, struct engine *g, int64_t now);
/* A side-band record that has not been applied yet; r was parsed from h. */
void checkpoint_record(
	struct checkpoint *c, struct target *t, const struct record *r, const struct perf_event_header *h);
void checkpoint_lossy(struct checkpoint *c, struct target *t);		       /* records were lost */
void checkpoint_tasks(struct checkpoint *c, struct target *t);		       /* no record will report them again */
void checkpoint_window(struct checkpoint *c, struct window *w);		       /* it is over */
void checkpoint_written(struct checkpoint *c, struct target *t, unsigned seq); /* in the spool, or none */
void checkpoint_gone(struct checkpoint *c, struct target *t);
uint64_t checkpoint_bytes(const struct checkpoint *c); /* of the journal, now */

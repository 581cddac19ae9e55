/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inproc - processes of a target that have libpillion: their connections, their samples, what they hold in use.
 *
 * Each connects by itself at the target's socket (TARGET_APP) and passes its area (shim/libpillion/abi/shm_layout.h).
 * It can do no more there than have samples of its own target, and read nothing. One whose connection ends may live on
 * (it closed its descriptors): its area is looked at until it has ended, as far as records tell, or its pidfd where
 * there are none (since Linux 6.5).
 *
 * Where there are no perf events (STRATEGY_TIMERS) they have CPU time, too, and nothing else tells of them: the target
 * begins with the first of them, which says what it has mapped and what its threads are called. It ends when its first
 * process has and none is connected any more, nor has been for INPROC_LINGER_NS: one that has just been forked may be
 * on its way through an exec.
 *
 * What they call (MEASURES_CALLS) is in trees that they share (calltree_reader.h): those are looked at when a window
 * ends, and when a process, or the program in it, does.
 *
 * A target that runs already has a socket only where its own program asked to be profiled
 * (profiler/daemon/library_mode.h): there it may also say that this is to end (struct shm_stop). All that are connected
 * then hear that nothing is wanted any more.
 *
 * What is in use at the end of a window: a slot of the area says which allocations are, and the samples that came since
 * the process began say where (live_heap.h; in the target's counts of MEASURES_LIVE_HEAP, which go on from one window
 * to the next). A slot of an allocation whose sample never came is [lost]: so the sum is right. A process that a
 * predecessor knew and that has not come back yet, because it allocates nothing, has in use what it had then.
 */
#pragma once

#include "oci/base/event_loop.h"
#include "oci/base/journal.h"
#include "profiler/inproc/live_heap.h"
#include "profiler/inproc/shm_reader.h"
#include "profiler/sample/aggregate.h"
#include "profiler/target/target.h"

#include <stdint.h>

#define INPROC_MAX 256 /* of a target */
#define INPROC_LINGER_NS (500 * NSEC_PER_MSEC)

struct inproc;
/* Listens, if the target has a socket for it and an event that is counted there, or begins there. */
int inproc_new(struct target *t, struct inproc **ret);
struct inproc *inproc_free(struct inproc *a); /* NULL is fine */
/* This process had other mappings from then on, or none. */
void inproc_image_ends(struct inproc *a, uint32_t pid, int64_t time);
/* The memory (taken) of one that a predecessor was passed. */
void inproc_restore_memory(struct inproc *a, int memory);
/* Nothing is known of what was: what has been called by now may be in a profile. */
void inproc_reset_counts(struct inproc *a);
/* What they have to tell by `until`; all: there is nothing behind it. */
void inproc_drain(struct inproc *a, int64_t until, bool all);
/*
 * A window ends: what is in use is in the counts of MEASURES_LIVE_HEAP; in the last one also what was as the target's
 * first process ended. Then the counts are others: what goes on is in those as well.
 */
void inproc_window(struct inproc *a, bool last);
void inproc_next_window(struct inproc *a, struct aggregate *const *last, struct aggregate *const *next);
/*
 * For a journal: what has come since the last time, or all of it, behind the counts of MEASURES_LIVE_HEAP. It is kept
 * until the process connects again.
 */
void inproc_save(struct inproc *a, struct journal *j, uint64_t serial);
void inproc_save_anew(struct inproc *a);
void inproc_saved(struct inproc *a); /* it is there */
void inproc_load(struct inproc *a, struct journal_reader *s);
void inproc_drop_live_heap(struct inproc *a); /* those counts are others, or none */
/* What their threads are called (label_history.h): read before samples are; of a thread at a time; it has ended. */
void inproc_read_labels(struct inproc *a, uint64_t settled);
const char *inproc_labels(const struct inproc *a, uint32_t pid, uint32_t tid, uint64_t time);
void inproc_thread_ended(const struct inproc *a, uint32_t pid, uint32_t tid, uint64_t time);
uint64_t inproc_labels_lost(struct inproc *a);	     /* changes of them, since it was asked last */
unsigned inproc_seen(const struct inproc *a);	     /* that have connected so far */
unsigned inproc_sampled(const struct inproc *a);     /* of those, with CPU time; since the profiler began */
uint64_t inproc_fds(const struct inproc *a);	     /* descriptors that it may hold */
uint64_t inproc_turned_away(const struct inproc *a); /* when there were INPROC_MAX or no descriptors, each time */
unsigned inproc_unable(const struct inproc *a, int *ret_error); /* that had no memory to share, and why: -errno */
bool inproc_alive(const struct inproc *a);			/* one is there, or may be on its way */
uint64_t inproc_lost(struct inproc *a);				/* samples, since it was asked last */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inproc - processes of a target that have libpillion: their connections, their samples, their memory in use.
 *
 * Each process connects by itself at the target's socket (TARGET_APP) and passes its area
 * (shim/libpillion/abi/shm_layout.h). It can only add samples of its own target there, and read nothing. A process
 * whose connection ends may live on (it closed its descriptors): its area is read until it has ended, by its exit
 * record or, where there are no records, by its pidfd (since Linux 6.5).
 *
 * Where there are no perf events (STRATEGY_TIMERS), the library also samples CPU time and is the only source about its
 * process: the target begins with the first process, which reports its mappings and the names of its threads. The
 * target ends when its first process has ended, none is connected any more, and none has been for INPROC_LINGER_NS: a
 * process that has just been forked may be on its way through an exec.
 *
 * Their calls (MEASURES_CALLS) are in trees that they share (calltree_reader.h). The trees are read when a window ends,
 * and when a process, or the program in it, ends.
 *
 * A running target has a socket only if its own program asked to be profiled (profiler/daemon/library_mode.h): the
 * program may also ask there for the end (struct shm_stop). All connected processes are then told that nothing is
 * wanted any more.
 *
 * Memory in use at the end of a window: the slots of the area say which allocations are in use, and the samples since
 * the process began say where they were made (live_heap.h; in the target's counts of MEASURES_LIVE_HEAP, which go on
 * from one window to the next). A slot of an allocation without a sample counts as [lost], so the sum is right. A
 * process that a predecessor knew and that has not come back yet, because it allocates nothing, has the memory in use
 * that it had then.
 */
#pragma once

#include "oci/base/event_loop.h"
#include "oci/base/journal.h"
#include "profiler/inproc/live_heap.h"
#include "profiler/inproc/shm_reader.h"
#include "profiler/process/quarantine.h"
#include "profiler/sample/aggregate.h"
#include "profiler/sample/sampling.h"
#include "shim/libpillion/abi/shm_layout.h"

#include <stdint.h>

#define INPROC_MAX 256 /* per target */
#define INPROC_LINGER_NS (500 * NSEC_PER_MSEC)

struct inproc;

/* What inproc has its target do. `target` is that of struct inproc_owner. */
struct inproc_ops {
	void (*begin)(void *target);		    /* its program begins: the first process has connected */
	void (*end)(void *target);		    /* its program asks for the end; may free the inproc */
	void (*schedule)(void *target, int64_t ns); /* it is to be looked at after that time */
	void (*drain)(void *target);		    /* reads the records of its events up to now */
	void (*crash)(
		void *target, uint32_t event, struct process *p, const struct record *r, const struct shm_record *from);
	/* Returns the module of a file of the target, with a reference: 0 or -errno. */
	int (*module)(void *target, const struct module_key *key, struct module **ret);
	/* The supervisor keeps this memory for our successor, should we be killed; -1: it need not any more. */
	void (*keep_memory)(void *target, uint32_t key, int memory);
	bool (*has_journal)(const void *target); /* else no successor reads what was read here */
	void (*flush_journal)(void *target);
	uint64_t (*free_fds)(const void *target); /* descriptors that may be opened for targets */
	/* Closes a descriptor, as close(2) may wait for ever. False: it stays open, as will others. */
	bool (*close_fd)(void *target, int fd);
	int (*log_level)(const void *target); /* of a line that a peer can cause as often as it likes */
};

/* The target that it serves. The pointers stay valid until inproc_free. */
struct inproc_owner {
	struct sampling *sampling;
	struct event_loop *loop;
	struct crash_marker *marker; /* the target that the worker works for: it may die of its data */
	const uint32_t *number;	     /* of the target, there */
	void *target;
	const struct inproc_ops *ops;
};

/*
 * Listens on `sock` (borrowed; -1: none), if the target has either an event that the library measures or a program
 * that runs already. 0 (*ret is NULL where it does not listen) or -errno.
 */
int inproc_new(const struct inproc_owner *o, int sock, struct inproc **ret);
struct inproc *inproc_free(struct inproc *a); /* NULL is fine */
/* The process has other mappings, or none, from `time` on. */
void inproc_image_ends(struct inproc *a, uint32_t pid, int64_t time);
/* Takes the memory of a process that had passed it to a predecessor. */
void inproc_restore_memory(struct inproc *a, int memory);
/* The earlier counts are unknown: calls up to now may be in a profile already. */
void inproc_reset_counts(struct inproc *a);
/* Reads their records up to `until`; all: nothing follows them. */
void inproc_drain(struct inproc *a, int64_t until, bool all);
/*
 * inproc_window: a window ends; counts memory in use by MEASURES_LIVE_HEAP, in the last window also the memory that
 * the target's first process had in use at its end. inproc_next_window: moves the allocations in use to the counts of
 * the next window.
 */
void inproc_window(struct inproc *a, bool last);
void inproc_next_window(struct inproc *a, struct aggregate *const *last, struct aggregate *const *next);
/*
 * Saves the changes since the last time, or everything, to a journal, behind the counts of MEASURES_LIVE_HEAP: an entry
 * of this type for each process, which begins with `serial`. The journal's data are kept until the process connects
 * again.
 */
void inproc_save(struct inproc *a, struct journal *j, uint32_t type, uint64_t serial);
void inproc_save_anew(struct inproc *a);
void inproc_saved(struct inproc *a); /* the journal is written */
void inproc_load(struct inproc *a, struct journal_reader *s);
void inproc_drop_live_heap(struct inproc *a); /* those counts were replaced, or dropped */
/*
 * Labels of their threads (label_history.h): _read_labels reads the changes, before samples are read; _labels returns
 * the labels of a thread at a time; _thread_ended notes its end.
 */
void inproc_read_labels(struct inproc *a, uint64_t settled);
const char *inproc_labels(const struct inproc *a, uint32_t pid, uint32_t tid, uint64_t time);
void inproc_thread_ended(const struct inproc *a, uint32_t pid, uint32_t tid, uint64_t time);
uint64_t inproc_labels_lost(struct inproc *a);	     /* label changes, since the last call */
unsigned inproc_seen(const struct inproc *a);	     /* processes that have connected so far */
unsigned inproc_sampled(const struct inproc *a);     /* of those, with CPU time; since the profiler began */
uint64_t inproc_fds(const struct inproc *a);	     /* descriptors that it may hold */
uint64_t inproc_turned_away(const struct inproc *a); /* connections, with INPROC_MAX processes or no descriptors left */
unsigned inproc_unable(const struct inproc *a, int *ret_error); /* processes without memory to share, and why: -errno */
bool inproc_alive(const struct inproc *a);			/* one is connected, or may be on its way */
uint64_t inproc_lost(struct inproc *a);				/* samples, since the last call */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inproc_process - one process that has libpillion, and all of a target's, for the files that make up inproc.h alone:
 * inproc.c (connections), inproc_records.c (records and calls), inproc_checkpoint.c (the journal for a successor).
 */
#pragma once

#include "profiler/inproc/calltree_reader.h"
#include "profiler/inproc/inproc.h"
#include "profiler/inproc/label_history.h"

struct inproc_process {
	struct inproc *apps;
	struct inproc_process *next;
	struct event_loop_source source;
	int sock;	  /* -1: hung up */
	int64_t hello_by; /* 0: its hello has arrived */
	int64_t heard;	  /* when it hung up, or was last read after that */
	int64_t asked;	  /* when its mappings were last asked for */
	int process;	  /* pidfd of a process that has hung up, where nothing else tells its end; -1: not known */
	bool sampled;	  /* it had CPU time */
	uint64_t ino;	  /* inode of its area */
	struct shm_reader inbox;
	struct live_heap inuse;
	struct calltree_reader called;
	struct label_history labels;
	uint64_t read_saved;
	bool orphan;	 /* a predecessor knew it */
	bool remembered; /* the supervisor keeps its area */
};

struct inproc {
	struct inproc_owner owner;
	struct sampling *sampling; /* the owner's */
	struct event_loop_source source;
	uint32_t alloc, heap, cpu, calls, crash; /* events; n_events: not requested */
	uint64_t mean;				 /* bytes from sample to sample */
	bool timers;				 /* no other source tells of its processes */
	int64_t blank;				 /* calls from before this time may be in a profile already */
	int64_t hung_up;			 /* when the last process hung up */
	struct inproc_process *first;
	size_t called_nodes;
	uint64_t label_changes; /* changes that may be read, as of label_time */
	int64_t label_time;
	unsigned n, seen, sampled;
	uint64_t lost, turned_away;
	unsigned unable; /* processes without memory to share, and the last one's error */
	int unable_error;
	bool deaf; /* a passed descriptor could not be closed: no more descriptors are accepted */
};

/* Returns the counts of memory in use; NULL: not requested. */
static inline struct aggregate *apps_heap(const struct inproc *a)
{
	return a->heap < a->sampling->desc->n_events ? a->sampling->counts[a->heap] : NULL;
}

/* shm_reader_fn, of a struct inproc_process */
void inproc_process_record(void *arg, const struct shm_record *from);
/* Counts its calls since the last time. */
void inproc_process_look_at_calls(struct inproc_process *p);
/* Returns the entry other than `but` with this cookie: the process connected again, to a new worker or a new socket. */
struct inproc_process *inproc_process_find_cookie(
	const struct inproc *a, uint64_t cookie, const struct inproc_process *but);

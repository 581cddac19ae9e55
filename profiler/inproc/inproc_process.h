/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inproc_process - one process that has libpillion, and all of a target's, for the files that make up inproc.h alone:
 * inproc.c (who they are), inproc_records.c (what they tell), inproc_checkpoint.c (what a successor has of them).
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
	int64_t hello_by; /* 0: it has said it */
	int64_t heard;	  /* when it hung up, or was read of last since then */
	int64_t asked;	  /* when its mappings were wanted last */
	int process;	  /* pidfd of one that has hung up, where nothing else tells of its end; -1: not known */
	bool sampled;	  /* it had CPU time */
	uint64_t ino;	  /* of its area */
	struct shm_reader inbox;
	struct live_heap inuse;
	struct calltree_reader called;
	struct label_history labels;
	uint64_t read_saved;
	bool orphan;	 /* a predecessor knew it */
	bool remembered; /* its area, by the supervisor */
};

struct inproc {
	struct target *target;
	struct event_loop_source source;
	uint32_t alloc, heap, cpu, calls, crash; /* events; n_events: there is none */
	uint64_t mean;				 /* bytes from sample to sample */
	bool timers;				 /* nothing else tells of its processes */
	int64_t blank;				 /* calls from before may be in a profile already */
	int64_t hung_up;			 /* when the last one did */
	struct inproc_process *first;
	size_t called_nodes;
	uint64_t label_changes; /* that may be read by now, as of label_time */
	int64_t label_time;
	unsigned n, seen, sampled;
	uint64_t lost, turned_away;
	unsigned unable; /* that have no memory to share, and why the last one has none */
	int unable_error;
	bool deaf; /* what they passed could not be let go of: no descriptor is taken any more */
};

/* What counts what is in use; NULL: nobody asked. */
static inline struct aggregate *apps_heap(const struct inproc *a)
{
	return a->heap < a->target->desc.n_events ? a->target->counts[a->heap] : NULL;
}

/* shm_reader_fn, of a struct inproc_process */
void inproc_process_record(void *arg, const struct shm_record *from);
/* Into the counts: what it has called since the last time. */
void inproc_process_look_at_calls(struct inproc_process *p);
/* The one that had this process before: it has come back, to another worker or by another socket. */
struct inproc_process *inproc_process_find_cookie(
	const struct inproc *a, uint64_t cookie, const struct inproc_process *but);

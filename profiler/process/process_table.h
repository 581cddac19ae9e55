/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_table - the processes and threads of one target, from side-band records: address spaces, names.
 *
 * Pids are those of the container. An exec gives a process a new space and name; a fork shares its parent's; an exit
 * retires it PROCESS_TABLE_GRACE later, because a sample of another CPU may still be on its way. At most
 * PROCESS_TABLE_MAX processes; beyond it all retired ones go at once, then those without a record for the longest time;
 * if too many come at once, new ones share one process without name and mappings.
 */
#pragma once

#include "oci/base/journal.h"
#include "profiler/perf/record.h"
#include "profiler/process/address_space.h"
#include "profiler/symbol/jit_symbols.h"

#include <stdint.h>

#define PROCESS_TABLE_MAX 16384
#define PROCESS_TABLE_GRACE (2 * 1000000000ull) /* ns of record time */

struct process {
	uint32_t pid;
	struct address_space *space;
	char comm[16];	 /* of the thread group leader, as at its exec or last rename */
	char exe[64];	 /* base name of the first executable mapping after exec, "" if not seen */
	uint64_t exited; /* record time, 0 = alive */
	bool sampled;	 /* a sample of it is in some profile */
	struct jit *jit; /* of code that it made at run time; NULL: none was seen */
	/* private */
	struct process *next;
	struct thread_state **threads; /* THREAD_BUCKETS, or NULL */
	unsigned n_threads;
	bool leader_gone;
	uint64_t heard; /* number of the record that last asked for it */
};

struct process_table;
int process_table_new(map_resolve_fn *resolve, void *arg, struct process_table **ret);
struct process_table *process_table_free(struct process_table *t); /* NULL is fine */

/* MMAP2, COMM, FORK, EXIT; others are ignored. */
void process_table_record(struct process_table *t, const struct record *r);
/*
 * Adds processes from before the first record: a thread and its name; the mappings of a process, from a file of them
 * (profiler/process/proc_maps.h; `left`: bytes that may still be read). Returns how many mappings, or -errno.
 */
void process_table_adopt(struct process_table *t, uint32_t pid, uint32_t tid, const char *name);
int process_table_adopt_maps(struct process_table *t, uint32_t pid, int maps, size_t *left);
/* The same from a text, which may hold a part of them; a process without a name by then gets that of its program. */
int process_table_adopt_text(struct process_table *t, uint32_t pid, char *text);
void process_table_exec(struct process_table *t, uint32_t pid); /* nothing of its old state is left */
/* For an end without a record; no caller holds a process of the table by then. */
void process_table_ended(struct process_table *t, uint32_t pid, uint64_t time);
/* Returns the process; makes it if it is not known. NULL only out of memory. */
struct process *process_table_get(struct process_table *t, uint32_t pid);
const struct process *process_table_find(struct process_table *t, uint32_t pid); /* NULL if it is not known */
struct process *process_table_known(struct process_table *t, uint32_t pid);   /* the same, or the one that many share */
const char *process_table_thread_name(const struct process *p, uint32_t tid); /* falls back to comm */
/* Records were lost: an address without a mapping may have been mapped all the same. */
void process_table_lossy(struct process_table *t);
size_t process_table_count(const struct process_table *t);

void process_table_each(struct process_table *t, void (*fn)(void *arg, struct process *p), void *arg);
/* For all threads that have not ended. */
void process_table_each_thread(struct process_table *t, void (*fn)(void *arg, uint32_t pid, uint32_t tid), void *arg);
/* Saves all of it to a journal; code made at run time by its number (jit_serial). */
void process_table_save(const struct process_table *t, struct journal *j);
/*
 * Restores into an empty table; `find` returns the code of that number, borrowed, or NULL. -EBADMSG, -ENOMEM: it holds
 * a part.
 */
typedef struct jit *process_table_find_fn(void *arg, uint64_t number);
int process_table_restore(struct process_table *t, struct journal_reader *s, process_table_find_fn *find, void *arg);

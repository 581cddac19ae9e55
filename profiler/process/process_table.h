/*
 * process_table - the processes and threads of one target, as side-band records tell of them: address spaces, names.
 *
 * Pids are those of the container. An exec gives a process a new space and name; a fork shares its parent's; an exit
 * retires it TASKS_GRACE later, because a sample of another CPU may still be on its way. At most TASKS_MAX processes;
 * beyond it all that retired go at once, then those of which nothing was heard for the longest time; of what comes all
 * at once beyond it, new ones share one process without name and mappings.
 */
#pragma once

#include "oci/base/journal.h"
#include "profiler/perf/record.h"
#include "profiler/process/address_space.h"
#include "profiler/symbol/jit_symbols.h"

#include <stdint.h>

#define TASKS_MAX 16384
#define TASKS_GRACE (2 * 1000000000ull) /* ns of record time */

struct task {
	uint32_t pid;
	struct space *space;
	char comm[16];	 /* of the thread group leader, as at its exec or last rename */
	char exe[64];	 /* base name of the first executable mapping after exec, "" if not seen */
	uint64_t exited; /* record time, 0 = alive */
	bool sampled;	 /* a sample of it is in some profile */
	struct jit *jit; /* of code that it made at run time; NULL: none was seen */
	/* private */
	struct task *next;
	struct thread **threads; /* THREAD_BUCKETS, or NULL */
	unsigned n_threads;
	bool leader_gone;
	uint64_t heard; /* when it was asked for last: which record that was */
};

struct tasks;
int tasks_new(map_resolve_fn *resolve, void *arg, struct tasks **ret);
struct tasks *tasks_free(struct tasks *t); /* NULL is fine */

/* MMAP2, COMM, FORK, EXIT; others are ignored. */
void tasks_record(struct tasks *t, const struct record *r);
/*
 * What was there before the first record: a thread and its name; the mappings of a process, from a file of them
 * (profiler/process/proc_maps.h; `left` is what may still be read, in bytes). How many mappings, or -errno.
 */
void tasks_adopt(struct tasks *t, uint32_t pid, uint32_t tid, const char *name);
int tasks_adopt_maps(struct tasks *t, uint32_t pid, int maps, size_t *left);
/* The same of a text, which may be a part of them; without a name by then, the process has its program's. */
int tasks_adopt_text(struct tasks *t, uint32_t pid, char *text);
void tasks_exec(struct tasks *t, uint32_t pid); /* nothing of what it had is left */
/* Where no record tells of it; nobody holds a task by then. */
void tasks_ended(struct tasks *t, uint32_t pid, uint64_t time);
/* The process; made if it was never heard of. NULL only out of memory. */
struct task *tasks_get(struct tasks *t, uint32_t pid);
const struct task *tasks_find(struct tasks *t, uint32_t pid);	   /* NULL if it was never heard of */
struct task *tasks_known(struct tasks *t, uint32_t pid);	   /* the same, or the one that many share */
const char *tasks_thread_name(const struct task *p, uint32_t tid); /* falls back to comm */
/* Records were lost: what is not found may have been mapped all the same. */
void tasks_lossy(struct tasks *t);
size_t tasks_count(const struct tasks *t);

void tasks_each(struct tasks *t, void (*fn)(void *arg, struct task *p), void *arg);
/* Of all that have not ended. */
void tasks_each_thread(struct tasks *t, void (*fn)(void *arg, uint32_t pid, uint32_t tid), void *arg);
/* All of it, for a journal; code made at run time by its number (jit_serial). */
void tasks_save(const struct tasks *t, struct journal *j);
/* Into an empty one; `find`: the code of that number, borrowed, or NULL. -EBADMSG, -ENOMEM: it holds a part. */
typedef struct jit *tasks_find_fn(void *arg, uint64_t number);
int tasks_restore(struct tasks *t, struct saved *s, tasks_find_fn *find, void *arg);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aggregate - counts stacks for one event of one target over one window.
 *
 * It holds frames (module + address, kernel address, or a named special), a tree of them (a node is a frame and its
 * caller's node) and samples (leaf's node + origin, and on request CPU and time). A frame costs two look-ups, a frame
 * that a stack shares with the previous one none. Capped: beyond AGGREGATE_SAMPLES_MAX distinct samples or
 * AGGREGATE_NODES_MAX nodes, or out of memory, new stacks go to one sample without an origin, "[lost: table full]", so
 * that sums stay right; known samples are still counted.
 */
#pragma once

#include "oci/base/journal.h"
#include "profiler/process/module.h"
#include "profiler/symbol/jit_symbols.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AGGREGATE_SAMPLES_MAX 65536
#define AGGREGATE_TIMED_MAX                                                                                            \
	16384 /* samples of a window that have a time or a CPU: each takes a kilobyte as its profile is built */
#define AGGREGATE_NODES_MAX (1u << 19) /* frames of all stacks: shared ones towards the root count once */
#define AGGREGATE_STACK_MAX 1024       /* kernel + user + specials */

enum frame_kind { FRAME_USER, FRAME_JIT, FRAME_KERNEL, FRAME_SPECIAL };

struct stack_frame {
	enum frame_kind kind;
	struct module *module; /* FRAME_USER: referenced by the aggregate; NULL unknown */
	struct jit *jit;       /* FRAME_JIT: owner of the code; referenced by the aggregate */
	uint64_t vaddr;	       /* FRAME_KERNEL, FRAME_JIT: the address */
	const char *name;      /* FRAME_SPECIAL: a literal, compared by its address */
};
extern const char frame_table_full[], frame_outside[], frame_lost[], frame_not_sampled[], frame_nowhere[],
	frame_short[], frame_approximate[], frame_quarantined[]; /* beside those of unwind_stop_name() */

/* A sample's origin: pids as the container sees them. Names are copied. labels: "key=value\n" for each; NULL: none. */
struct sample_origin {
	uint32_t pid, tid;
	const char *process, *thread, *exe, *labels;
};

/* Further details of a sample, on request; else all zero, so that samples of one stack are merged. */
struct sample_detail {
	uint32_t cpu; /* + 1 */
	uint32_t us;  /* since the window began, + 1 */
};

/* A memory limit that several aggregates share; beyond it they are full, as above. */
struct memory_limit {
	size_t max, used; /* bytes; 0: no bound */
};

struct aggregate;
int aggregate_new(struct aggregate **ret);
struct aggregate *aggregate_free(struct aggregate *a);		      /* NULL is fine */
void aggregate_clear(struct aggregate *a);			      /* empty again; needs no memory */
void aggregate_share(struct aggregate *a, struct memory_limit *room); /* before anything is added; room outlives it */

/* frames: leaf first. `weight` in the event's unit, `count` samples. Never fails: see above. */
void aggregate_add(struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who,
	uint64_t count, uint64_t weight);

void aggregate_add_at(struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who,
	const struct sample_detail *when, uint64_t count, uint64_t weight);

/* Returns the number of such a sample, found or added, for aggregate_sample(); its counts stay. -ENOSPC: full. */
int64_t aggregate_put_of(
	struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who);
int64_t aggregate_put(struct aggregate *a, const struct stack_frame *frames, size_t n);	     /* without an origin */
void aggregate_count(struct aggregate *a, uint32_t sample, uint64_t count, uint64_t weight); /* adds to that sample */

/* Reading back. */
struct aggregate_sample {
	uint64_t count, weight;
	struct sample_origin who;
	uint32_t who_number; /* below aggregate_whos() */
	struct sample_detail when;
	size_t n;
	uint32_t frames[AGGREGATE_STACK_MAX]; /* ids for aggregate_frame, leaf first */
};
size_t aggregate_samples(const struct aggregate *a);
void aggregate_sample(const struct aggregate *a, size_t i, struct aggregate_sample *ret);
size_t aggregate_whos(const struct aggregate *a);
size_t aggregate_frames(const struct aggregate *a);
const struct stack_frame *aggregate_frame(const struct aggregate *a, uint32_t id);
size_t aggregate_memory(const struct aggregate *a);	/* bytes held, without modules */
uint64_t aggregate_overflow(const struct aggregate *a); /* samples that met a full table */
uint64_t aggregate_untimed(const struct aggregate *a);	/* samples beyond AGGREGATE_TIMED_MAX: without time or CPU */

/*
 * For a journal: additions and changes since the last save. Modules and code are referred to by number (module_id,
 * jit_serial); the caller has written them before: those of frames from aggregate_unsaved() on.
 */
bool aggregate_changed(const struct aggregate *a);
uint32_t aggregate_unsaved(const struct aggregate *a);
void aggregate_save(struct aggregate *a, struct journal *j);
void aggregate_save_anew(struct aggregate *a); /* the next save writes all of it */
/*
 * Loads saved data, in the order of saving, into an empty aggregate: all numbers are the same again. find() sets the
 * module or the code of a frame (its kind is set), borrowed; if it sets neither, the frame is unknown. -EBADMSG,
 * -ENOMEM: the aggregate holds a part; clear it.
 */
typedef void aggregate_find_fn(void *arg, uint64_t number, struct stack_frame *f);
int aggregate_load(struct aggregate *a, struct journal_reader *s, aggregate_find_fn *find, void *arg);

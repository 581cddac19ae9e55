/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aggregate - counts stacks for one event of one target over one window.
 *
 * Frames (module + address, kernel address, or a named special), a tree of them (a node is a frame and its caller's
 * node), samples (leaf's node + who, and where it is asked for, when). A frame costs two look-ups, those that a stack
 * shares with the last one nothing. Capped: beyond AGGREGATE_SAMPLES_MAX distinct samples or AGGREGATE_NODES_MAX nodes,
 * or out of memory, what is new goes to one sample of nobody's, "[lost: table full]", so that sums stay right; samples
 * already known are counted on.
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
	16384 /* of one window may have a time or a CPU: each takes a kilobyte as its profile is built */
#define AGGREGATE_NODES_MAX (1u << 19) /* frames of all stacks, those counted once that they share towards the root */
#define AGGREGATE_STACK_MAX 1024       /* kernel + user + specials */

enum frame_kind { FRAME_USER, FRAME_JIT, FRAME_KERNEL, FRAME_SPECIAL };

struct stack_frame {
	enum frame_kind kind;
	struct module *module; /* FRAME_USER: referenced by the aggregate; NULL unknown */
	struct jit *jit;       /* FRAME_JIT: whose code; referenced by the aggregate */
	uint64_t vaddr;	       /* FRAME_KERNEL, FRAME_JIT: the address */
	const char *name;      /* FRAME_SPECIAL: a literal, compared by where it is */
};
extern const char frame_table_full[], frame_outside[], frame_lost[], frame_not_sampled[], frame_nowhere[],
	frame_short[], frame_approximate[], frame_quarantined[]; /* beside those of unwind_stop_name() */

/* Whose sample: pids as the container sees them. Names are copied. labels: "key=value\n" for each; NULL: none. */
struct sample_origin {
	uint32_t pid, tid;
	const char *process, *thread, *exe, *labels;
};

/* What a sample has besides, where it is asked for; all zero where not: samples of one stack are one then. */
struct sample_detail {
	uint32_t cpu; /* and 1 */
	uint32_t us;  /* since the window began, and 1 */
};

/* What several of them may hold together; beyond it they are full, as above. */
struct memory_limit {
	size_t max, used; /* bytes; 0: no bound */
};

struct aggregate;
int aggregate_new(struct aggregate **ret);
struct aggregate *aggregate_free(struct aggregate *a);		      /* NULL is fine */
void aggregate_clear(struct aggregate *a);			      /* empty again; needs no memory */
void aggregate_share(struct aggregate *a, struct memory_limit *room); /* from the beginning on; room outlives it */

/* frames: leaf first. `weight` in the event's unit, `count` samples. Never fails: see above. */
void aggregate_add(struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who,
	uint64_t count, uint64_t weight);

void aggregate_add_at(struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who,
	const struct sample_detail *when, uint64_t count, uint64_t weight);

/* The number of such a sample, old or new, for aggregate_sample(); what it counts stays. -ENOSPC: full. */
int64_t aggregate_put_of(
	struct aggregate *a, const struct stack_frame *frames, size_t n, const struct sample_origin *who);
int64_t aggregate_put(struct aggregate *a, const struct stack_frame *frames, size_t n);	     /* of nobody's */
void aggregate_count(struct aggregate *a, uint32_t sample, uint64_t count, uint64_t weight); /* more of that number */

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
size_t aggregate_memory(const struct aggregate *a);	/* bytes held, but for modules */
uint64_t aggregate_overflow(const struct aggregate *a); /* samples that met a full table */
uint64_t aggregate_untimed(const struct aggregate *a);	/* that were one too many to have a time or a CPU */

/*
 * For a journal: what is new or has changed since the last time. Whose modules and code it refers to by number
 * (module_id, jit_serial), the caller has written before: those of frames from aggregate_unsaved() on.
 */
bool aggregate_changed(const struct aggregate *a);
uint32_t aggregate_unsaved(const struct aggregate *a);
void aggregate_save(struct aggregate *a, struct journal *j);
void aggregate_save_anew(struct aggregate *a); /* the next time, all of it */
/*
 * What was saved, in the order in which it was, into an empty one: the numbers of things are the same again. find():
 * the module or the code of a frame whose kind is set, borrowed; none is a frame that is unknown. -EBADMSG, -ENOMEM: it
 * holds a part, and is to be cleared.
 */
typedef void aggregate_find_fn(void *arg, uint64_t number, struct stack_frame *f);
int aggregate_load(struct aggregate *a, struct journal_reader *s, aggregate_find_fn *find, void *arg);

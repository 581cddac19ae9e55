/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampling - the part of a target that all sources of samples share: perf events (profiler/target/target.c), waits
 * (profiler/offcpu/offcpu.h) and libpillion (profiler/inproc/inproc.h). It has the counts of the window under way, how
 * much a sample stands for, and the processes that it is of. The target owns it.
 */
#pragma once

#include "profiler/perf/record.h"
#include "profiler/process/process_table.h"
#include "profiler/sample/aggregate.h"
#include "profiler/sample/sample_rate.h"
#include "profiler/unwind/unwind.h"
#include "shim/event/perf_event.h"
#include "shim/event/target_desc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Of one window. Numbers of 64 bits alone: the journal has them as an array
 * (profiler/target/checkpoint/checkpoint_write.c). A new one comes last: then journals without it are read as before.
 */
struct sample_tally {
	uint64_t samples, weight[EVENTS_MAX]; /* kept */
	uint64_t value[EVENTS_MAX];	      /* of events with a value field: the sum of its values */
	uint64_t before;		      /* seen before the program started: the runtime's */
	uint64_t before_weight[EVENTS_MAX];
	uint64_t outside; /* of tasks outside of the opener's pid namespace */
	uint64_t lost, lost_shared, throttled, malformed;
	uint64_t doubled; /* threads that had two events, until one was closed */
	uint64_t stops[UNWIND_STOPS];
	uint64_t rungs[EVENTS_MAX][PERF_RUNGS + 1];		   /* stacks by the size of their snapshots */
	uint64_t cpu_usage;					   /* cpu.stat usage_usec at the beginning */
	uint64_t switches, stacks, idle, idle_ns, wait_times_lost; /* profiler/offcpu/offcpu.h */
	uint64_t unrecorded;					   /* ns of pauses there */
	uint64_t inproc_lost;					   /* samples of memory */
	uint64_t labels_lost;					   /* changes of threads' labels */
	uint64_t restarts, gap; /* takeovers from a process that was killed; ns that may be missing */
	/* samples that the kernel wrote, and its counts between them (profiler/sample/sample_rate.h) */
	uint64_t taken[EVENTS_MAX], counted[EVENTS_MAX];
	uint64_t apps_cpu;	 /* ns of CPU time, by their own account */
	uint64_t inproc_awaited; /* bytes of memory that were allocated before we had answered */
	uint64_t damaged;	 /* times that a ring was skipped to its head */
	uint64_t code_stacks;	 /* that no table describes all of (profiler/unwind/epilogue.h) */
};

struct sampling {
	const struct target_desc *desc; /* the target's */
	struct rate_control *rates;	/* of all targets */
	struct unwind *unwind;
	struct jit_room *jit_room;
	struct process_table *processes;
	struct aggregate *counts[EVENTS_MAX]; /* of the window under way, by event */
	struct sample_tally tally;	      /* of the window under way */
	struct target_rate rate;
	uint64_t samples;	 /* of all windows */
	uint64_t records, bytes; /* that its events wrote, of any kind */
	int64_t cost;		 /* ns of our CPU time (profiler/target/target.h) */
	int64_t began;		 /* ns, CLOCK_MONOTONIC: earlier samples are not the program's */
	int64_t window_mono;	 /* ns, CLOCK_MONOTONIC: the beginning of the window under way */
	bool started;		 /* from now on samples count */
	bool quarantined;	 /* its samples have an address only, and no data of its own is read */
	/* since the journal has last had a copy (profiler/target/checkpoint/checkpoint_write.h) */
	bool changed, processes_changed;
};

/* How a lowered rate is reached: profiler/target/target_rate.h */
enum rate_way sampling_rate_way(const struct sampling *s);
/* Notes a record of one of its events, of `bytes`; sample: one that is unwound. */
void sampling_note_record(struct sampling *s, bool sample, size_t bytes);
/* Notes a small record of a switch: profiler/offcpu/offcpu.h has a bound of its own for these. */
void sampling_note_switch(struct sampling *s, size_t bytes);
/* Notes a sample that counts, with `stack` bytes of stack. False: drop it, another one stands for it. */
bool sampling_take(struct sampling *s, uint32_t spec, int64_t time, uint64_t weight, size_t stack);
/* sample_stack_frames, which notes in the tally why the stack ends there and whether tables described all of it. */
size_t sampling_stack(struct sampling *s, struct process *p, const struct record *r, const struct perf_layout *layout,
	struct stack_frame *frames, enum unwind_stop *ret_stop);
/* Returns the CPU and the time of a sample, as far as they were asked for. */
struct sample_detail sampling_detail(const struct sampling *s, const struct record *r);
/* Its processes are other ones than the journal's copy has. */
void sampling_processes_changed(struct sampling *s);

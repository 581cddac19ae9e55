/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_read - the entries of a journal, and how a successor restores them: checkpoint_write.c writes, this reads.
 *
 * The first number of an entry is, in the numbering of the process that wrote it: for targets the serial, for modules
 * the module_id, for code made at run time the jit_serial.
 */
#pragma once

#include "oci/base/journal.h"
#include "profiler/target/checkpoint/checkpoint_write.h"
#include "profiler/target/window.h"

#include <stdint.h>

enum {
	ENTRY_TARGET = 1, /* target; id, host_pid, start_time, plain */
	ENTRY_GONE,	  /* target: nothing of it counts */
	ENTRY_STATE,	  /* target; numbers of struct state, of the tally, of the ladders; last_profile; notes */
	ENTRY_STREAMS,	  /* target; how many, of each id, lost_, value_, enabled_ and running_seen */
	ENTRY_TASKS,	  /* target; process_table_save */
	ENTRY_RECORD,	  /* target; a side-band record */
	ENTRY_LOSSY,	  /* target */
	ENTRY_MODULE,	  /* module; path, maj, min, ino, generation, build-id */
	ENTRY_JIT,    /* code; pid, its parent or 0, the path of its dump, target + 1 if its process has it now, or 0 */
	ENTRY_COUNTS, /* target; which event, aggregate_save */
	ENTRY_WINDOW, /* target; numbers of struct window_state, of the tally, of the kernel counts; closes the counts
			 so far */
	ENTRY_WRITTEN, /* target; seq: such a window waits no more */
	ENTRY_BLANK,   /* target; it took too much room: no state is saved */
	ENTRY_RATES,   /* numbers of struct sample_rate_saved: of all targets */
	ENTRY_HELD,    /* target; inproc_save */
};

#define KERNEL_NUMBERS 9

/* Numbers that are written as they are, signed ones too, and doubles by their bits. More may be added behind. */
struct state {
	uint64_t started, window_real, window_mono, seq, samples, cost, maps_left, lost, throttled, cpu_first, cpu_last,
		born, naming_spent;
	uint64_t records, bytes, ran_then, began;
	struct rate_saved rate;
	uint64_t kernel[EVENTS_MAX][KERNEL_NUMBERS]; /* of struct target_kernel */
};
_Static_assert(
	sizeof(((struct target *)0)->window.kernel) == sizeof(((struct state *)0)->kernel), "it is written as numbers");

struct window_state {
	uint64_t seq, real, duration, cpu_used, last;
	uint64_t early, by, rate_most; /* by: as in rate_saved */
};

struct kernel_state {
	uint64_t lost_known, lost, lost_weight, unsampled, counted, unseen;
	uint64_t correct, had_counter;
};

/* Into the engine's targets. Never fails: an entry that cannot be read is the end of its target's state. */
unsigned checkpoint_read(struct engine *g, struct journal_reader all, int64_t seen, int64_t now);
/*
 * Call once, when the predecessor's targets are there, registered and armed as before, also when there are none: until
 * then no ring is read. Restores each target by id, process and start time, and drops the rest. Targets that are not in
 * an intact journal are new; without a journal their past is lost and they count from now on. Returns how many targets
 * were restored.
 */
unsigned checkpoint_resume(struct checkpoint *c, struct engine *g, int64_t now);

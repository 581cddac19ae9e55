/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_times - where the threads of a target were while they were on no CPU, and for how long.
 *
 * A thread that goes off a CPU leaves a small record: time, thread, the user's ip and sp, and by the event's own clock
 * how long the target has run on that CPU so far (struct switch_out). Between two such records of a CPU only the thread
 * of the second one ran there, so the clock's advance is the time that this thread ran: the rest of the time since it
 * last went off was a wait. Nothing is recorded when it comes back.
 *
 * Where that clock is not available (inherited events), switch records say when a thread goes off and when it comes
 * back (wait_times_off, wait_times_on). The latter is written at the end of a switch, and the time of the switch is CPU
 * time of the thread that comes: where another thread of the target has gone off that CPU just before, it came back
 * then, and else as long before the record as on average there. From an idle CPU a switch takes longer, and the wait is
 * some microseconds too long.
 *
 * That clock begins a little late where a CPU was idle, or ran other programs in between: putting events there takes
 * time, which is the thread's all the same. It is most of a wait of a few microseconds. An exact account of the CPU
 * time shows the average delay (wait_times_correct), and each wait with such an end was shorter by that much.
 *
 * A place is a thread's (ip, sp, callers): the same instruction at the same call depth, called the same way as far as
 * is known without its stack. Now and then the stack is sampled as well (wait_times_stack), and it stands for all waits
 * at its place until the next one. So sums are exact, per thread and per place, however seldom stacks are sampled; two
 * stacks that share a place are told apart by samples. The labels that the thread had are part of the place, too; a
 * place without a stack uses that of a place that differs in labels alone.
 *
 * Where not all switches are recorded, a recorded one stands for more: the caller lets time, and the clocks, go on
 * faster then (switch_out.scale), so that a wait is as long as all those that it stands for.
 *
 * Bounded: WAIT_TIMES_THREADS threads, WAIT_TIMES_PLACES places of each and WAIT_TIMES_PLACES_ALL in all, and a shared
 * memory limit; beyond it waits have no place or no stack, and are in the sums.
 */
#pragma once

#include "profiler/sample/aggregate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAIT_TIMES_THREADS 32768
#define WAIT_TIMES_PLACES 128
#define WAIT_TIMES_PLACES_ALL 65536
#define WAIT_CALLERS 4

/* Where a thread goes off. */
struct wait_at {
	uint64_t ip, sp;		/* of the user's frame; 0: not known */
	uint64_t callers[WAIT_CALLERS]; /* their return addresses as far as they are known, then 0 */
	uint64_t labels;		/* the caller's number for the thread's labels, 0: none */
};

struct switch_out {
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	uint32_t pid, tid, cpu;
	struct wait_at at;
	bool timed;	     /* count and ran are known */
	uint64_t count, ran; /* of this CPU: threads that went off it so far, ns that the target ran */
	double scale;	     /* how many switches this one stands for, 0: one; `time` and `ran` go so much faster now */
};

/* The present clock of a CPU's event. */
struct wait_clock {
	uint32_t cpu;
	uint64_t ran;
};

/* `count` waits of one thread, `ns` in all. */
struct wait_total {
	enum wait_kind {
		WAIT_STACK,   /* frames */
		WAIT_PLACE,   /* at: no stack was sampled there */
		WAIT_NOWHERE, /* neither: not known, or too many places */
		WAIT_SHORT,   /* below the minimum, wherever */
		WAIT_LOST     /* while records were lost: it may have run in between */
	} kind;
	bool idle; /* it was on no CPU all the window */
	uint32_t pid, tid;
	uint64_t count, ns;
	struct wait_at at;
	const struct stack_frame *frames; /* leaf first */
	size_t n;
};
/* False: there is no such thread any more. */
typedef bool wait_times_fn(void *arg, const struct wait_total *part);

/* Totals are reported to `fn`. A wait of less than min_ns is WAIT_SHORT. room: outlives it; NULL: no bound. */
struct wait_times;
int wait_times_new(uint64_t min_ns, struct memory_limit *room, wait_times_fn *fn, void *arg, struct wait_times **ret);
struct wait_times *wait_times_free(struct wait_times *w); /* NULL is fine */

/* All in the order of time, like records. */
void wait_times_born(struct wait_times *w, uint32_t pid, uint32_t tid, uint64_t time);
void wait_times_out(struct wait_times *w, const struct switch_out *o);
/*
 * By switch records. A record with the place of a thread comes, if at all, before the record of the switch. at NULL:
 * the place is not known, or is where the thread was last seen; before it is first seen, where it will first be seen.
 */
void wait_times_scale(struct wait_times *w, double scale); /* of records from now on, as switch_out.scale */
void wait_times_off(
	struct wait_times *w, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t time, const struct wait_at *at);
void wait_times_on(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time);
/* The thread runs at `time`, with this stack: the place where it goes off next. */
void wait_times_runs(struct wait_times *w, uint32_t pid, uint32_t tid, uint64_t time, uint64_t labels,
	const struct stack_frame *frames, size_t n);
/*
 * So many records of that CPU are lost by `time`, or (WAIT_TIMES_ALL_CPUS) time stood still: the next record of a
 * thread tells whether it runs; a thread that came back, or went off, in between is taken to have done so in the
 * middle. Two records alike of one thread count as a gap as well, since a gap is known late where threads change CPUs.
 * The kernel reports a loss with the next record of that CPU, which may be much later than `room`, when the ring had
 * room again.
 */
#define WAIT_TIMES_ALL_CPUS UINT32_MAX
void wait_times_gap(struct wait_times *w, uint64_t count, uint32_t cpu, uint64_t room, uint64_t time);
/* All threads have ended. A thread without a record of its end: the record was lost. */
void wait_times_over(struct wait_times *w);
/* The thread was on this CPU at `time`: it does not wait when a window ends, though it has not gone off again. */
void wait_times_seen(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time);
/* Notes the stack with which this thread goes off at this place; the caller holds the frames. */
void wait_times_stack(struct wait_times *w, uint32_t pid, uint32_t tid, const struct wait_at *at,
	const struct stack_frame *frames, size_t n);
/* The process is another program from now on, of this one thread. */
void wait_times_exec(struct wait_times *w, uint32_t pid, uint32_t tid);
void wait_times_exit(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time); /* it goes off once more */

/* The time that all threads have run by now, from any time on, by a true account and by the clocks of all CPUs: ns. */
void wait_times_correct(struct wait_times *w, uint64_t truly, uint64_t by_clocks);
/*
 * Recording makes a wait longer, by `ns` on average; the unrecorded waits that it stands for were not longer. The sum
 * does not change, but short waits are a smaller part of it.
 */
void wait_times_set_overhead(struct wait_times *w, double ns);
/* Reports waits that are over and have a known stack. */
void wait_times_report(struct wait_times *w);
/* Reports all waits, also those under way, up to `time`; the rest of the latter belongs to the next window. */
void wait_times_end(struct wait_times *w, uint64_t time, const struct wait_clock *clocks, size_t n);

/* Forgets all threads; keeps the CPU clocks. */
void wait_times_forget(struct wait_times *w);
/* Forgets the clocks, too: the events have counted before. */
void wait_times_reset_clocks(struct wait_times *w);
/* After the end of a window: frees stacks and places; those that matter come again. */
void wait_times_compact(struct wait_times *w);
void wait_times_unlabel(struct wait_times *w); /* likewise: the numbers of labels become invalid */

size_t wait_times_threads(const struct wait_times *w);
size_t wait_times_memory(const struct wait_times *w); /* bytes of the room */
uint64_t wait_times_lost(const struct wait_times *w); /* records, by the kernel's count */

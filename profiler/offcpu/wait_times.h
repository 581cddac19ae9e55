/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_times - where the threads of a target were while they were on no CPU, and for how long.
 *
 * Whoever goes off a CPU leaves a small record: time, thread, the user's ip and sp, and by the event's own clock how
 * long the target has run on that CPU so far (struct switch_out). From one such record of a CPU to the next only the
 * thread of the next one ran there, so what its clock went on meanwhile is how long that thread ran: the rest of the
 * time since it went off last was a wait. Nothing is recorded when it comes back.
 *
 * Where that clock cannot be had (events that are inherited), switch records say when a thread goes off and when it
 * comes back (wait_times_off, wait_times_on). The latter comes when everything else is done, and what a switch takes is
 * CPU time of who comes: where one of ours has gone off that CPU just before, it came back then, and else as late as on
 * average there: from an idle CPU it takes longer, and the wait is some microseconds too long.
 *
 * That clock begins a little late where a CPU was idle, or others' in between: putting events there takes time, which
 * is the thread's all the same. Of waits of a few microseconds that is most. How much it is on average shows a true
 * account of the CPU time (wait_times_correct), and so much shorter was each wait with such an end.
 *
 * A place is a thread's (ip, sp, callers): the same instruction of the same call depth, called the same way as far as
 * is known without its stack. Now and then that is sampled as well (wait_times_stack), and it is that of all waits at
 * its place until the next one. So sums are exact, per thread and per place, however seldom stacks are sampled; two
 * stacks that share a place are told apart by samples. What the thread was called then (labels) is of the place, too; a
 * place that has no stack has that of another one that differs in labels alone.
 *
 * Where not all switches are recorded, what is stands for more: the caller lets time, and the clocks, go on faster then
 * (wait_out.scale), so that a wait is as long as those that it stands for.
 *
 * Bounded: WAIT_TIMES_THREADS threads, WAIT_TIMES_PLACES places of each and WAIT_TIMES_PLACES_ALL in all, and a room
 * that it shares; beyond it waits have no place or no stack, and are in the sums.
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
	uint64_t labels;		/* the caller's number of what the thread is called, 0: nothing */
};

struct switch_out {
	uint64_t time; /* CLOCK_MONOTONIC, ns */
	uint32_t pid, tid, cpu;
	struct wait_at at;
	bool timed;	     /* what follows is known */
	uint64_t count, ran; /* of this CPU: threads that went off it so far, ns that the target ran */
	double scale;	     /* for how many this one stands, 0: one; `time` and `ran` go so much faster now */
};

/* What a CPU's event says now. */
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

/* What is known is told to `fn`. A wait of less than min_ns is one of WAIT_SHORT. room: outlives it; NULL: no bound. */
struct wait_times;
int wait_times_new(uint64_t min_ns, struct memory_limit *room, wait_times_fn *fn, void *arg, struct wait_times **ret);
struct wait_times *wait_times_free(struct wait_times *w); /* NULL is fine */

/* All in the order of time, which is that of records. */
void wait_times_born(struct wait_times *w, uint32_t pid, uint32_t tid, uint64_t time);
void wait_times_out(struct wait_times *w, const struct switch_out *o);
/*
 * By switch records. A record of where it goes off comes before that of its going off, at most: at NULL is not known,
 * or where it was seen last; until it is seen for the first time, where that will have been.
 */
void wait_times_scale(struct wait_times *w, double scale); /* of what is told from now on, as wait_out.scale */
void wait_times_off(
	struct wait_times *w, uint32_t pid, uint32_t tid, uint32_t cpu, uint64_t time, const struct wait_at *at);
void wait_times_on(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time);
/* It runs then, with this stack: where it goes off next. */
void wait_times_runs(struct wait_times *w, uint32_t pid, uint32_t tid, uint64_t time, uint64_t labels,
	const struct stack_frame *frames, size_t n);
/*
 * Of that CPU so many records are lost by then, or (WAIT_TIMES_ALL_CPUS) time stood still: what threads do now their
 * next record tells; who has come back, or gone off, in between did so in the middle. A gap is known late where threads
 * change CPUs: two records alike of one thread are taken for one as well. The kernel tells of it when something happens
 * on that CPU again, which may be much later than when the ring had room again.
 */
#define WAIT_TIMES_ALL_CPUS UINT32_MAX
void wait_times_gap(struct wait_times *w, uint64_t count, uint32_t cpu, uint64_t room, uint64_t time);
/* All threads have ended. Of whom no end was told, it was lost. */
void wait_times_over(struct wait_times *w);
/* It was on this CPU then: so when a window ends it is not waiting, though it has not gone off again. */
void wait_times_seen(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time);
/* The stack with which this thread goes off at this place, of frames that the caller holds. */
void wait_times_stack(struct wait_times *w, uint32_t pid, uint32_t tid, const struct wait_at *at,
	const struct stack_frame *frames, size_t n);
/* It is another program from now on, of this one thread. */
void wait_times_exec(struct wait_times *w, uint32_t pid, uint32_t tid);
void wait_times_exit(struct wait_times *w, uint32_t tid, uint32_t cpu, uint64_t time); /* it goes off once more */

/* How long all threads have run by now, from any time on, truly and by the clocks of all CPUs: ns. */
void wait_times_correct(struct wait_times *w, uint64_t truly, uint64_t by_clocks);
/*
 * That it is recorded makes a wait longer, by so many ns on average; those for which it stands were not. In all they
 * are as long as they are, but short ones are a smaller part of it.
 */
void wait_times_set_overhead(struct wait_times *w, double ns);
/* Tells of waits that are over and whose stack is known. */
void wait_times_report(struct wait_times *w);
/* Tells of all, also of those under way, up to `time`; what is left of them is the next window's. */
void wait_times_end(struct wait_times *w, uint64_t time, const struct wait_clock *clocks, size_t n);

/* Of nobody anything is known; the clocks of CPUs go on. */
void wait_times_forget(struct wait_times *w);
/* The clocks, too, are not known: events that have counted before. */
void wait_times_reset_clocks(struct wait_times *w);
/* Behind a window's end: stacks, and places, give back what they take; what matters comes again. */
void wait_times_compact(struct wait_times *w);
void wait_times_unlabel(struct wait_times *w); /* so, too: the numbers of labels are no numbers any more */

size_t wait_times_threads(const struct wait_times *w);
size_t wait_times_memory(const struct wait_times *w); /* bytes of the room */
uint64_t wait_times_lost(const struct wait_times *w); /* records, by the kernel's count */

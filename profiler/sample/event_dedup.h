/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_dedup - the event that reports each thread, on each CPU: for strategy `threads`, where no thread may be counted
 * twice.
 *
 * Events are opened on every thread that a look at /proc shows, per CPU, with inherit. A thread that was made meanwhile
 * by a thread with an event has inherited that event, and then gets one of its own: it would be counted twice, and so
 * would all threads that it makes. The records show this: the records of a thread arrive by the events that it carries
 * (the id in a record is that of the event that was opened, also for heirs; the sample or the trailer names the
 * thread). A thread that is reported by two events of one kind on one CPU carries both, so some ancestor had an event
 * of its own beside an inherited one. The inherited one is older than that ancestor and its own is younger: the event
 * that was opened later (the kernel counts ids up) is superfluous, and every thread that carries it carries the other
 * one. It is closed, which takes it from all threads that carry it.
 *
 * Since 6.3 (perf_prepare_sample) the kernel writes one id into the records of two software events of a kind that count
 * the same thing at the same moment: those records differ in nothing, and the second one is ignored.
 *
 * Not every record is of the thread that carries the event: a tracepoint may be delivered to the task that it is about
 * (perf_tp_event), by another task that caused it. Such records must not come here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct event_dedup;
int event_dedup_new(struct event_dedup **ret);
struct event_dedup *event_dedup_free(struct event_dedup *h); /* NULL is fine */

/* The event, 0 = none yet, and the time of the last sample. The caller fills them in. */
struct dedup_entry {
	uint64_t id, time;
};
/* Finds or adds the entry of this thread, CPU and kind of event. NULL: no room, it goes unchecked. */
struct dedup_entry *event_dedup_by(struct event_dedup *h, uint32_t tid, uint32_t cpu, uint32_t kind);
/* A thread ended, or began: its number tells nothing of the thread that had it before. */
void event_dedup_forget(struct event_dedup *h, uint32_t tid);
size_t event_dedup_count(const struct event_dedup *h); /* entries held */

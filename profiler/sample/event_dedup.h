/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_dedup - by which event each thread is heard, on each CPU: strategy `threads`, where nobody may be counted
 * twice.
 *
 * Events are opened on every thread that a look at /proc shows, per CPU, with inherit. A thread that was made meanwhile
 * by one that had its event already has inherited that one, and then gets one of its own: it would be counted twice,
 * and all threads that it makes. The records tell: what a thread does arrives by the events that it carries (the id in
 * a record is that of the event that was opened, also for heirs; whose record it is, the sample or the trailer says).
 * A thread that is heard by two events of one kind on one CPU carries both, so some ancestor had an event of its own
 * beside an inherited one. The inherited one is older than that ancestor and its own is younger: the one that was
 * opened later (the kernel counts ids up) is superfluous, and nobody who carries it lacks the other. It is closed,
 * which takes it from all that carry it.
 *
 * Since 6.3 (perf_prepare_sample) the kernel writes one id into the records of two software events of a kind that count
 * the same thing at the same moment: those differ in nothing, and the second one is not heard.
 *
 * Not every record is of the thread that carries the event: a tracepoint may be delivered to the task that it is about
 * (perf_tp_event), by another that did it. Those must not come here.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct event_dedup;
int event_dedup_new(struct event_dedup **ret);
struct event_dedup *event_dedup_free(struct event_dedup *h); /* NULL is fine */

/* By which event, 0 = not yet; and when last, of samples. To be filled in. */
struct dedup_entry {
	uint64_t id, time;
};
/* Of this thread, on this CPU, by events of this kind. NULL: no room, it goes unchecked. */
struct dedup_entry *event_dedup_by(struct event_dedup *h, uint32_t tid, uint32_t cpu, uint32_t kind);
/* A thread ended, or began: the number says nothing of who had it before. */
void event_dedup_forget(struct event_dedup *h, uint32_t tid);
size_t event_dedup_count(const struct event_dedup *h); /* entries held */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_event_dedup - the event by which each thread is heard, on each CPU: no thread is counted twice.
 *
 * A thread that was made while events were opened may have inherited its maker's, and then got events of its own: both
 * report its records, and those of all threads that it makes. The kernel cannot be asked which events a thread has; its
 * records tell. The inherited one was opened earlier, and each thread with the later one has the earlier one too: the
 * later one is superfluous on that CPU, and is closed, which takes it from all threads (profiler/sample/event_dedup.h
 * has the same for whole processes).
 *
 * If an id may be another event's (self_event.h), it still is that of an event that the thread has: so two ids tell of
 * two events, but not which record to leave. There, both records of one moment are the same to the last byte: the first
 * is taken.
 */
#pragma once

#include "shim/libpillion/pillion.h"
#include "shim/libpillion/selfprof/self_mmap_alloc.h"

#include <stdbool.h>

#define SELF_EVENT_DEDUP_BUCKETS 4096
#define SELF_EVENT_DEDUP_MAX 65536 /* entries: further threads are not checked */
#define SELF_EVENT_DEDUP_NS                                                                                            \
	5000000000u /* after a longer time, another event is that of another thread with the same number */

struct self_event_dedup {
	struct self_pool pool;
	struct self_said *buckets[SELF_EVENT_DEDUP_BUCKETS], *spare;
	size_t n;
};

enum self_verdict {
	SELF_TAKE,
	SELF_LEAVE,	  /* it came by a superfluous event */
	SELF_LEAVE_TWICE, /* the same record as the one before */
};
/*
 * Takes or leaves a record of thread r->tid on r->cpu that came by `e` of r->spec (NULL: not known); shared: its id may
 * be another event's. Events stay in memory until self_event_dedup_done, closed or not. The caller closes
 * *ret_superfluous, if it is not NULL; at SELF_LEAVE_TWICE, the thread's own event on that CPU, if it has one.
 */
enum self_verdict self_heard(struct self_event_dedup *h, const struct pillion_record *r, struct pillion_event *e,
	bool shared, struct pillion_event **ret_superfluous);
/* A thread began at that time: records before it were of another thread. */
void self_event_dedup_forget(struct self_event_dedup *h, uint32_t tid, uint64_t time);
void self_event_dedup_sweep(struct self_event_dedup *h, uint64_t now); /* forgets old records */
void self_event_dedup_done(struct self_event_dedup *h);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_event_dedup - by which event each thread is heard, on each CPU: nobody is counted twice.
 *
 * A thread that was made while events were opened may have inherited its maker's, and then got events of its own: it is
 * heard by both, and so are all that it makes. Nobody can ask the kernel which events a thread has; its records tell.
 * The inherited one was opened earlier, and whoever has the later one has it too: the later one is superfluous on that
 * CPU, and is closed, which takes it from all (profiler/sample/event_dedup.h has the same for whole processes).
 *
 * Where an id may be another's (self_event.h), it still is that of an event that the thread has, so it tells of two;
 * but not which record to leave. There, what both say of one moment is the same to the last byte: the first is taken.
 */
#pragma once

#include "shim/libpillion/pillion.h"
#include "shim/libpillion/selfprof/self_mmap_alloc.h"

#include <stdbool.h>

#define SELF_EVENT_DEDUP_BUCKETS 4096
#define SELF_EVENT_DEDUP_MAX 65536 /* entries: beyond them it goes unchecked */
#define SELF_EVENT_DEDUP_NS                                                                                            \
	5000000000u /* heard by another event after a longer time: another thread by the same number */

struct self_event_dedup {
	struct self_pool pool;
	struct self_said *buckets[SELF_EVENT_DEDUP_BUCKETS], *spare;
	size_t n;
};

enum self_verdict {
	SELF_TAKE,
	SELF_LEAVE,	  /* it came by a superfluous event */
	SELF_LEAVE_TWICE, /* the same as the one before */
};
/*
 * A record of thread r->tid on r->cpu, that came by `e` of r->spec (NULL: nobody knows by which); shared: its id may be
 * another's. Events stay where they are until self_event_dedup_done, closed or not. *ret_superfluous, if it is not
 * NULL, is to be closed. SELF_LEAVE_TWICE: if the thread has an event of its own on that CPU, that is.
 */
enum self_verdict self_heard(struct self_event_dedup *h, const struct pillion_record *r, struct pillion_event *e,
	bool shared, struct pillion_event **ret_superfluous);
/* A thread began at that time: what was said before was another one. */
void self_event_dedup_forget(struct self_event_dedup *h, uint32_t tid, uint64_t time);
void self_event_dedup_sweep(struct self_event_dedup *h, uint64_t now); /* what was said long ago says nothing */
void self_event_dedup_done(struct self_event_dedup *h);

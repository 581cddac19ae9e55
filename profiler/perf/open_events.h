/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open_events - from the id in a record to the event it came from: PERF_EVENT_IOC_ID -> target, role, layout.
 */
#pragma once

#include "shim/event/perf_event.h"

#include <stdbool.h>
#include <stdint.h>

struct target;

struct open_event {
	uint64_t id;
	int fd; /* the perf event: owned */
	int cpu;
	enum perf_role role;
	uint32_t spec;	/* PERF_SAMPLES: which of the target's events */
	uint32_t index; /* number of arrival in the target: by it the supervisor finds its own descriptor */
	uint32_t rung;	/* of stack snapshots (shim/event/perf_event.h) */
	struct perf_layout layout;
	struct target *target;
	uint64_t lost_seen; /* as read(2) returned it last */
	uint64_t value_seen;
	uint64_t enabled_seen, running_seen;
	int64_t off_since;    /* ns: when its CPU, and the event with it, was seen to have gone; 0: it counts */
	struct offcpu_clock { /* profiler/offcpu/offcpu.h: from its own numbers to those of its CPU, since its turn
			       * began
			       */
		int64_t since;
		bool known;
		uint64_t count, ran, from; /* records of others; the CPU's clock, as its own said `from` */
		double scale;		   /* of its own, from there on */
	} base, base_before;
	uint64_t allowed; /* records until it switches itself off */
	uint64_t fresh;	  /* records of these that were read since they were allowed */
	uint64_t turn;	  /* its count when its turn began */
	struct open_event *next_of_target, *next_of_bucket;
};

struct open_events;
int open_events_new(struct open_events **ret);
struct open_events *open_events_free(struct open_events *s); /* must be empty */
/* Takes a filled-in event (malloc'ed). -EEXIST: an id twice. */
int open_events_add(struct open_events *s, struct open_event *st);
struct open_event *open_events_find(const struct open_events *s, uint64_t id);
void open_events_remove(struct open_events *s, struct open_event *st); /* does not free */

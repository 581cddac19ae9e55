/* SPDX-License-Identifier: Apache-2.0 */
/* self_session - a session's state, for the files that make it up: self_session.c its life, self_strategy.c its events,
 * self_record_dispatch.c its records. */
#pragma once

#include "shim/libpillion/selfprof/self_clock_offset.h"
#include "shim/libpillion/selfprof/self_event.h"
#include "shim/libpillion/selfprof/self_event_dedup.h"
#include "shim/libpillion/selfprof/self_procfs.h"
#include "shim/libpillion/selfprof/self_reader.h"
#include "shim/libpillion/selfprof/self_strategy.h"
#include "shim/libpillion/selfprof/self_threads.h"

struct self_event_list {
	struct pillion_event **events;
	size_t n, room;
};

struct self_tid_list {
	uint32_t *tids;
	size_t n, room;
};

struct pillion_session {
	struct pillion_session_spec spec; /* with its defaults filled in */
	struct pillion_event_spec events_spec[PILLION_EVENTS_MAX];
	uint32_t tail[PILLION_EVENTS_MAX];
	const struct self_strategy *strategy;
	struct pillion_reader reader;
	struct pillion_session_status status;
	uint32_t pid, open_flags;
	bool attached, timed, fewer;
	bool ids_shared; /* whether this kernel shares ids: self_event.h */
	int n_cpus, cpus[SELF_CPUS_MAX];
	struct pillion_event *leaders; /* by CPU, of shared rings; fd -1: none */
	struct pillion_event *bells;   /* the same, on the thread that runs */
	long files;		       /* open files that are not ours; descriptors that we may have */
	long files_most;
	struct self_pool pool;
	struct self_event_list open; /* in the order of their ids */
	struct self_threads threads;
	struct self_event_dedup heard;
	struct self_clock_offset_offsets clock;
	struct self_event_list superfluous; /* to be closed */
	struct self_tid_list look;
	bool look_again, unsure;   /* a thread may lack events; that is settled when all rings have been read */
	uint64_t tended, last_own; /* when a thread got events of its own */
};

/* self_record_dispatch.c: takes a record, and calls the listener */
void self_demux(void *session, struct self_source *source, const struct perf_event_header *h);
/* Learns from a record which threads have events, ahead of its reading */
void self_foresee(void *session, struct self_source *source, const struct perf_event_header *h);
/* Closes the superfluous events, until that time or until there are no more. */
void self_close_superfluous(struct pillion_session *s, uint64_t end);
/* Closes an event, its ring too. */
void self_session_close_event(struct pillion_session *s, struct pillion_event *e);

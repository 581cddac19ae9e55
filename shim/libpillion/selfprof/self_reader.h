/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_reader - rings are read when they call, at intervals, and when it is over.
 *
 * What is polled is whatever can be told from a thread that is gone: an event whose thread has ended reports POLLHUP
 * for ever. So of a ring that many write to the one is polled that is on the thread that reads (struct
 * self_source.poll).
 */
#pragma once

#include "shim/libpillion/selfprof/self_event.h"

#include <poll.h>

struct self_source {
	struct self_ring ring;
	struct pillion_event *owner;
	struct pillion_event *only; /* NULL: many write to it */
	int poll;		    /* -1: by time alone */
	uint64_t at;		    /* behind the record that is looked at */
	uint64_t scanned;	    /* up to where it was looked at ahead of its reading */
	uint64_t bad;		    /* records that were none */
};

struct pillion_reader;
typedef void self_record_fn(void *arg, struct self_source *s, const struct perf_event_header *h);
struct pillion_reader {
	struct pillion_listener listener;
	int stop;	  /* eventfd */
	uint32_t running; /* atomic */
	uint32_t pid;
	unsigned interval_ms;
	bool timed, busy; /* busy: there is something else to do, it does not wait */
	struct self_source *sources;
	size_t n, room;
	struct pollfd *polls;
	size_t polls_room;
	struct pillion_event **events; /* by spec: of a public one */
	size_t n_events, events_room;
	uint8_t *joined; /* a record that wraps around a ring's end */
	self_record_fn *record;
	void (*tick)(void *arg); /* after each round */
	void *arg;
};

/* With `record` and `arg` set afterwards; public ones call the listener. */
int self_reader_init(struct pillion_reader *r, const struct pillion_listener *l, unsigned interval_ms, bool timed);
void self_reader_done(struct pillion_reader *r);
int self_reader_add(struct pillion_reader *r, const struct self_source *s);
void self_reader_drain(struct pillion_reader *r);
/* What is there beyond s->scanned, without taking it. */
void self_reader_scan(struct pillion_reader *r, self_record_fn *fn, void *arg);
int self_reader_run(struct pillion_reader *r); /* between begin and end */
int self_reader_begin(struct pillion_reader *r);
void self_reader_end(struct pillion_reader *r);
int self_reader_stop(struct pillion_reader *r);
/* self_listener.c: to whom it is of interest. What the caller's struct has by its size, in ours. */
int self_take_listener(const struct pillion_listener *from, struct pillion_listener *ret);
void self_tell(const struct pillion_listener *l, const struct pillion_record *r);

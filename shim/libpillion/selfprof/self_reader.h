/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_reader - reads rings when they wake it, at intervals, and at the end.
 *
 * An event of an ended thread reports POLLHUP for ever. So for a ring that many events write to, it polls the event
 * that is on the reading thread (struct self_source.poll).
 */
#pragma once

#include "shim/libpillion/selfprof/self_event.h"

#include <poll.h>

struct self_source {
	struct self_ring ring;
	struct pillion_event *owner;
	struct pillion_event *only; /* the only event that writes to it; NULL: many do */
	int poll;		    /* -1: by time alone */
	uint64_t at;		    /* behind the current record */
	uint64_t scanned;	    /* end of the part that was scanned ahead of its reading */
	uint64_t bad;		    /* malformed records */
};

struct pillion_reader;
typedef void self_record_fn(void *arg, struct self_source *s, const struct perf_event_header *h);
struct pillion_reader {
	struct pillion_listener listener;
	int stop;	  /* eventfd */
	uint32_t running; /* atomic */
	uint32_t pid;
	unsigned interval_ms;
	bool timed, busy; /* busy: there is other work, so it does not wait */
	struct self_source *sources;
	size_t n, room;
	struct pollfd *polls;
	size_t polls_room;
	struct pillion_event **events; /* by spec; of a public reader */
	size_t n_events, events_room;
	uint8_t *joined; /* a record that wraps around a ring's end */
	self_record_fn *record;
	void (*tick)(void *arg); /* after each round */
	void *arg;
};

/* The caller sets `record` and `arg` afterwards; those of public readers call the listener. */
int self_reader_init(struct pillion_reader *r, const struct pillion_listener *l, unsigned interval_ms, bool timed);
void self_reader_done(struct pillion_reader *r);
int self_reader_add(struct pillion_reader *r, const struct self_source *s);
void self_reader_drain(struct pillion_reader *r);
/* Calls `fn` for the records beyond s->scanned, without taking them. */
void self_reader_scan(struct pillion_reader *r, self_record_fn *fn, void *arg);
int self_reader_run(struct pillion_reader *r); /* between begin and end */
int self_reader_begin(struct pillion_reader *r);
void self_reader_end(struct pillion_reader *r);
int self_reader_stop(struct pillion_reader *r);
/* self_listener.c: copies the caller's struct as far as its size says; calls the callback for a record. */
int self_take_listener(const struct pillion_listener *from, struct pillion_listener *ret);
void self_tell(const struct pillion_listener *l, const struct pillion_record *r);

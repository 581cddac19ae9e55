/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_event - a perf event: its attributes, its descriptor, its ring.
 *
 * Layout of records: every event has PERF_SAMPLE_IDENTIFIER, TID, TIME and CPU, so those lie at fixed places. Which
 * event a sample came by its id does not always tell: since Linux 6.3 the software events that the kernel counts itself
 * (do_perf_sw_event: faults, switches, migrations) of one kind on one thread share what has been found out for the
 * first of them, its id among it, whoever opened them; those of another profiler too. What is each event's own is the
 * size of its records. So such events of one session have the same fields, and so many empty words at the end (struct
 * self_layout.tail: PERF_SAMPLE_WEIGHT, DATA_SRC, TRANSACTION, which are 0 for them) as tell them apart.
 */
#pragma once

#include "shim/libpillion/pillion.h"

#include <linux/perf_event.h>
#include <stdbool.h>

#define SELF_TAILS 4	    /* software counters that can be told apart */
#define SELF_REGS 0xff01ffu /* AX to IP, R8 to R15 */

/* Of the session's or by themselves */
#define SELF_SIDEBAND 0x10000u	      /* mmap, comm, fork, exit as well */
#define SELF_USER_ONLY 0x20000u	      /* kernel code may not be seen */
#define SELF_INHERIT_THREADS 0x40000u /* by threads alone, not by children (Linux 5.13) */
#define SELF_LEADER 0x80000u	      /* owner of a ring: nothing but that */
#define SELF_TAIL(n) ((uint32_t)(n) << 24)

struct self_layout {
	uint32_t fields, tail; /* PILLION_ADDR, ...; words behind them */
	uint64_t regs;
	uint32_t stack;
	bool shared; /* its ids may be another one's */
};

struct self_ring {
	struct perf_event_mmap_page *page; /* NULL: none */
	const uint8_t *data;
	size_t size; /* of the data */
};

struct pillion_event {
	int fd, cpu;
	uint32_t tid, spec;
	uint64_t id;
	struct self_layout layout;
	struct self_ring ring;
	struct pillion_event *to; /* whose ring it writes to */
	uint32_t from;		  /* how many write to this one's */
	uint32_t pid;		  /* whose it is: a forked child has no rings */
	bool superfluous;	  /* it will be closed: self_session.h */
	bool closed;		  /* its memory is for those that write to it */
	bool last;		  /* of those of its thread the one that was opened last: who has it has all */
};

/* What the caller's struct has by its size, in ours. -EINVAL, -E2BIG: it asks for more than we know. */
int self_take_spec(const struct pillion_event_spec *from, struct pillion_event_spec *ret);
/* Of a spec that was taken. Sentences begin with `what`. */
int self_event_open(
	struct pillion_event *e, const struct pillion_event_spec *spec, uint32_t tid, int cpu, uint32_t flags);
void self_event_close(struct pillion_event *e); /* all but its memory */
/* A ring and no more; the sentence is the caller's. */
int self_event_map(struct pillion_event *e, size_t bytes);
int self_event_redirect(struct pillion_event *e, struct pillion_event *to);
bool self_is_shared(const struct pillion_event_spec *s); /* the kernel's own software counter */
/* It happens in kernel code alone. */
bool self_is_in_kernel(const struct pillion_event_spec *s);

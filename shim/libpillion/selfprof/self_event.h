/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_event - a perf event: its attributes, its descriptor, its ring.
 *
 * Layout of records: every event has PERF_SAMPLE_IDENTIFIER, TID, TIME and CPU, so those lie at fixed places. The id of
 * a sample does not always tell its event: since Linux 6.3 the software events of one kind on one thread that the
 * kernel counts itself (do_perf_sw_event: faults, switches, migrations) share the data that the kernel has computed for
 * the first of them, with its id, whichever process opened them; also those of another profiler. But each event has its
 * own size of records. So such events of one session have the same fields, and different numbers of empty words at the
 * end (struct self_layout.tail: PERF_SAMPLE_WEIGHT, DATA_SRC, TRANSACTION, which are 0 for them), which tell them
 * apart.
 */
#pragma once

#include "shim/libpillion/core/arch.h"
#include "shim/libpillion/pillion.h"

#include <linux/perf_event.h>
#include <stdbool.h>

#define SELF_TAILS 4 /* software counters that can be told apart */

/* Flags of events of a session, and of single ones */
#define SELF_SIDEBAND 0x10000u	      /* mmap, comm, fork, exit as well */
#define SELF_USER_ONLY 0x20000u	      /* kernel code may not be seen */
#define SELF_INHERIT_THREADS 0x40000u /* by threads alone, not by children (Linux 5.13) */
#define SELF_LEADER 0x80000u	      /* owner of a ring only */
#define SELF_TAIL(n) ((uint32_t)(n) << 24)

struct self_layout {
	uint32_t fields, tail; /* PILLION_ADDR, ...; words behind them */
	uint64_t regs;
	uint32_t stack;
	bool shared; /* its ids may be another event's */
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
	struct pillion_event *to; /* the owner of the ring that it writes to */
	uint32_t from;		  /* number of events that write to this one's */
	uint32_t pid;		  /* the process that opened it: a forked child has no rings */
	bool superfluous;	  /* it will be closed: self_session.h */
	bool closed;		  /* its memory stays for events that write to its ring */
	bool last;		  /* the last one opened on its thread: a thread that inherits it has all */
};

/* Copies the caller's struct as far as its size says. -EINVAL; -E2BIG: it asks for more than we know. */
int self_take_spec(const struct pillion_event_spec *from, struct pillion_event_spec *ret);
/* Opens an event, from a spec that was taken. 0 or -errno, without a sentence. */
int self_event_open(
	struct pillion_event *e, const struct pillion_event_spec *spec, uint32_t tid, int cpu, uint32_t flags);
void self_event_close(struct pillion_event *e); /* frees all but its memory */
/* Maps the ring. 0 or -errno; the caller makes the sentence. */
int self_event_map(struct pillion_event *e, size_t bytes);
int self_event_redirect(struct pillion_event *e, struct pillion_event *to);
bool self_is_shared(const struct pillion_event_spec *s); /* the kernel's own software counter */
/* Whether it happens in kernel code alone. */
bool self_is_in_kernel(const struct pillion_event_spec *s);

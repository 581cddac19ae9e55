/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpu_rings - one ring per online CPU, whatever the number of targets; their records in one order of time.
 *
 * Opened and mapped while privileged (CAP_PERFMON for a CPU-wide owner event, CAP_IPC_LOCK for the memory).
 * An unprivileged process gets owners on itself and as many pages as its locked-memory allowance gives, and says so.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/perf/ring.h"

#include <stdbool.h>
#include <stdint.h>

#define CPU_RINGS_CPUS_MAX 4096

struct cpu_rings;

/* How far the reader of all rings has come. */
struct cpu_rings_progress {
	bool behind;	     /* the last drain left records: other work had its turn */
	int64_t drain_again; /* it left many records that were too young; INT64_MAX: it did not */
	int64_t had_room;    /* a drain ended: after it there was room in all rings */
};

/* Opens and maps the rings. 0 with `note` empty, or with a `note` on how much smaller than wanted they are. */
int cpu_rings_open(struct cpu_rings **ret, char *note, size_t size, struct err *e);
int cpu_rings_none(struct cpu_rings **ret); /* no rings: there is no event that could write */
/*
 * The same in two steps: first the events, which take privilege; then the memory, in the process that will read the
 * rings.
 */
int cpu_rings_reserve(struct cpu_rings **ret, struct err *e);
int cpu_rings_fit(struct cpu_rings *r, char *note, size_t size, struct err *e);
struct cpu_rings *cpu_rings_close(struct cpu_rings *r);
unsigned cpu_rings_count(const struct cpu_rings *r);
size_t cpu_rings_size(const struct cpu_rings *r); /* of each, bytes */
/* To poll: readable at PERF_RING_MARK (half of a fitted ring), or when an event asks for a wakeup. */
int cpu_rings_fd(const struct cpu_rings *r, unsigned i);
void cpu_rings_unmap(struct cpu_rings *r); /* detaches the events that write into them: call it before any does */
/* In a child of the process that opened them: maps the same rings again, to go on where the last reader left off. */
int cpu_rings_map(struct cpu_rings *r);
/* Takes over rings that another process opened and maps still; takes the descriptors if it returns 0. */
int cpu_rings_adopt(struct cpu_rings **ret, const int *cpus, const int *fds, unsigned n, size_t size);
int cpu_rings_cpu(const struct cpu_rings *r, unsigned i);
int cpu_rings_has(const struct cpu_rings *r, int cpu); /* 0, or -ENODEV */
/* Let `fd`, an event on `cpu`, write into that CPU's ring. -ENODEV: no ring for this CPU. */
int cpu_rings_redirect(struct cpu_rings *r, int cpu, int fd);

/*
 * Hand over every record older than `until` (CLOCK_MONOTONIC, ns), all CPUs merged by time. A record is stamped before
 * it is published, so `until` must lie a little in the past unless the writers have ended. False: `deadline` has come,
 * and some are left. *ret_n: records handed over. The clock is read only now and then, as that takes longer than to
 * hand a record over.
 */
#define CPU_RINGS_LOOK 16 /* records */
typedef void cpu_rings_fn(void *arg, const struct perf_event_header *h, uint64_t id);
bool cpu_rings_drain(
	struct cpu_rings *r, int64_t until, int64_t deadline, cpu_rings_fn *fn, void *arg, uint64_t *ret_n);
/*
 * Returns how often a ring was skipped to its head (ring_damaged) since the last call. The skipped records may be those
 * of any target.
 */
uint64_t cpu_rings_damaged(struct cpu_rings *r);
/* The time of the oldest record that the last drain left: all before it were handed over. INT64_MAX: it left none. */
int64_t cpu_rings_oldest(struct cpu_rings *r);
size_t cpu_rings_left(const struct cpu_rings *r); /* bytes in the fullest one */

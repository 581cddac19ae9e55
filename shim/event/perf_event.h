/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_event - opening perf events (perf_event_open(2)) the way pillion's rings expect them.
 *
 * Every event carries PERF_SAMPLE_IDENTIFIER and CLOCK_MONOTONIC timestamps, so that events of many targets can share
 * one ring per CPU. A *sample* event counts and samples; the *side-band* event (software DUMMY) carries MMAP2, COMM,
 * FORK, EXIT and nothing else.
 *
 * Waits are measured by three events. PERF_SAMPLES, with stacks, and PERF_OFFCPU_SMALL, with just enough to tell one
 * place from another, take turns; PERF_SAMPLE_READ of either tells how long the target ran. While PERF_ROLL_CALL is
 * enabled, it tells which threads are on a CPU. They must take turns: since 6.3 the kernel keeps the data of one
 * sample, its id and size among it, for that of the next event of the same kind (do_perf_sw_event,
 * perf_prepare_sample).
 *
 * Where events are inherited (`process`, `threads`) PERF_SAMPLE_READ is not available before 6.12. There PERF_SWITCHES
 * tells when threads go off and come back (PERF_RECORD_SWITCH, which needs no privilege and has no stack),
 * PERF_OFFCPU_SMALL tells each place and PERF_SAMPLES stacks, in turns as well. Without the right to see kernel code
 * neither of those two is possible: no switch happens in user code. PERF_SAMPLES is a clock then.
 */
#pragma once

#include "oci/base/err.h"
#include "oci/config/options.h"
#include "shim/event/event_arch.h"
#include "shim/event/event_spec.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Stack snapshots: one event per CPU has one size for good, so for each size there is an event, a *rung* of a ladder of
 * which one is enabled (strategies `cgroup` and `process`). Rungs are numbered from 1, the smallest; 0 is an event
 * alone.
 */
#define PERF_RUNGS 3
#define PERF_STACK_USER_DEFAULT (32u << 10) /* of rung 2, and of an event alone */
#define PERF_STACK_USER_MAX 65528u	    /* attr.sample_stack_user: a multiple of 8 below 64 KiB */

#define PERF_ONLINE "/sys/devices/system/cpu/online"

#define PERF_RING_BYTES (512u << 10)		 /* of a CPU's ring, where the locked-memory limit lets it */
#define PERF_RING_MARK (PERF_RING_BYTES / 4 * 3) /* a ring of that size wakes its reader at this mark */

#define PERF_STACK_PLACE 128 /* bytes: a system call's wrapper and its caller */
#define PERF_SEEN_NS 1000000

enum perf_role {
	PERF_SAMPLES = 1,
	PERF_SIDEBAND,
	PERF_OWNER,
	PERF_OFFCPU_SMALL,
	PERF_ROLL_CALL,
	PERF_SWITCHES,
	PERF_ROLES
};

/* The layout of the bytes of an event's records, for a reader. */
struct perf_layout {
	uint64_t sample_type;
	uint64_t regs_user;
	uint32_t stack_user; /* bytes reserved for the stack snapshot, 0 = none */
	uint32_t flags;	     /* LAYOUT_* */
};
/* The format that read(2) yields instead of { u64 value; }. */
#define LAYOUT_LOST 1u /* { u64 value, lost; } */
/*
 * { u64 value, running; }, the ns that the threads with this event have run: of the side-band and of PERF_OFFCPU_SMALL,
 * there also in samples (PERF_SAMPLE_READ).
 */
#define LAYOUT_RUNNING 2u
/* { u64 value, enabled, running; }, ns, and `lost` behind it: of events that share the few counters of a CPU. */
#define LAYOUT_TIMES 4u

struct perf_want {
	enum perf_role role;
	struct event_spec spec; /* unused by PERF_SIDEBAND and PERF_OWNER */
	enum stacks stacks;
	bool kernel;   /* kernel frames and kernel time */
	bool inherit;  /* children and threads to come, too: strategies `process` and `threads` */
	bool on_exec;  /* counts from the next exec on: strategy `process` */
	bool counts;   /* the side-band: switches as well, by its value (needs `kernel`) */
	bool sideband; /* a sample event that carries the side-band as well: strategy `threads`, where events are many
			*/
	bool build_id; /* MMAP2 with build-ids (kernel >= 5.12) */
	bool lost;     /* PERF_FORMAT_LOST: reading the event tells its own lost samples (kernel >= 6.0) */
	bool idle;     /* another rung of its ladder counts: only a call enables this one */
	uint32_t rung; /* of stack snapshots */
	/*
	 * Of a uprobe or kprobe: the kernel's number for the type, and the file or the function. Never with `inherit`:
	 * at each fork(2) the event would be opened anew for the child, and fork(2) then fails (kernel 6.18).
	 */
	uint32_t probe_type;
	const char *probe;
};
/* The kernel's number for EVENT_TYPE_UPROBE or EVENT_TYPE_KPROBE; 0: it has none (CONFIG_UPROBE_EVENTS, ...). */
uint32_t perf_probe_type(uint32_t type);

/* kernel.perf_event_max_sample_rate, Hz; 0: unknown. */
uint32_t perf_max_rate(void);

/* Returns how many bytes of stack a rung copies; for any other number PERF_STACK_USER_DEFAULT. */
uint32_t perf_stack_user(uint32_t rung);
/* Returns the rung where an event begins: at high rates a ring is full after a few large snapshots. */
uint32_t perf_first_rung(const struct event_spec *s);

void perf_attr(const struct perf_want *w, struct perf_event_attr *ret, struct perf_layout *ret_layout);
/* perf_event_open; target is a pid, a cgroup descriptor (PERF_FLAG_PID_CGROUP in flags) or -1. fd or -errno. */
int perf_open(const struct perf_event_attr *attr, int target, int cpu, unsigned long flags);

/*
 * Returns the capabilities that a root process needs to open events: CAP_PERFMON, and CAP_SYS_ADMIN where only that
 * opens the gate, as for uprobes (kernel 6.18: EACCES without).
 */
uint64_t perf_caps(bool uprobes);
/* perf_event_paranoid; -ENOENT: this kernel has no perf events. */
int perf_paranoid(int *ret);
/* Checks whether we may sample anything at all, even of ourselves. 0, or why not: the reason holds for all events. */
int perf_refused(struct err *e);
/* Why an open failed, in words: which gate (paranoid, seccomp, LSM, capability, limit) and the way out. */
int perf_explain(int error, const char *what, struct err *e);
/* The same, after another event could be opened: then only this event is missing. */
int perf_explain_event(int error, const char *what, struct err *e);

/* Online CPUs, ascending; count or -errno. */
int perf_online_cpus(int *cpus, size_t max);
/* "0-3,6,8-9", as the kernel prints lists of CPUs: the same. */
int perf_parse_cpus(const char *text, int *cpus, size_t max);

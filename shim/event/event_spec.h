/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_spec - the catalogue of events, and the grammar of the lists that request them.
 *
 *	list  = item { "," item }		item = name { ":" option } [ "@" Hz | "/" period ]
 *
 *	cpu				99 samples per second of CPU time
 *	cpu@199				199 of them
 *	page-faults/50			every 50th page fault
 *	context-switches		every 100th time that a thread goes off its CPU
 *	page-faults:user:stacks=fp	of user code alone, by frame pointers whatever the target's others have
 *	tracepoint:sched:sched_switch	each time that the kernel passes there; tracefs lists them
 *	tracepoint:block:block_rq_issue.bytes	the sum of that field of its records, in place of how many there were
 *	kprobe:vfs_read+4/10		every tenth time that the kernel passes there, at an instruction of a function
 *	uprobe:/usr/bin/x:work/10	every tenth call of that function of that file, as the container sees it
 *	uprobe:/usr/bin/x:work+0x1c	each time that the program comes by that instruction of it
 *	raw:r1c2/100000			a counter of the CPU's own, by the number that its manual gives (perf-list(1))
 *	offcpu				time that threads wait for 1 ms and longer, by 99 stacks a second of each CPU
 *	offcpu:min=0:idle@199		also for less, and of threads that do nothing else, by 199 of them
 *	alloc				memory that is allocated, and how much is in use, by a sample every 512 KiB
 *	alloc/4096			by one every 4 KiB
 *	calls				each call of functions compiled with -finstrument-functions
 *	calls:time			and the time that they take
 *	crash				signals that end a program: a report of each
 *
 *	wall				cpu and offcpu in one profile
 *	latency, memory, all		several of them, see event_preset(); an event listed by itself has its own rate
 *
 * One grammar for annotation, flag, environment and file.
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EVENTS_MAX 8
#define EVENT_NAME_MAX 200 /* with its end */
/* The kernel assigns the numbers of these as it starts. */
#define EVENT_TYPE_UPROBE UINT32_MAX
#define EVENT_TYPE_KPROBE (UINT32_MAX - 1)
#define EVENT_TYPE_APP                                                                                                 \
	(UINT32_MAX - 2) /* no event of the kernel's: libpillion counts it in the process (shim/libpillion) */

enum event_measure {
	MEASURES_COUNT,
	MEASURES_CPU,	    /* CPU time, by a timer: the kernel takes ns for clock events even with freq=1 */
	MEASURES_OFFCPU,    /* time on no CPU: every switch is recorded, and the stacks of some
			       (profiler/offcpu/wait_times.h) */
	MEASURES_ALLOC,	    /* bytes that are allocated (shim/libpillion/alloc/alloc_sample.h) */
	MEASURES_LIVE_HEAP, /* of those, the ones in use at the end of a window: comes with the former, cannot be
			       requested */
	MEASURES_CALLS,	    /* calls, all of them (shim/libpillion/calltree/calltree.h) */
	MEASURES_CRASH,	    /* signals that end a process (shim/libpillion/crash/crash_handler.h): a report of each
			       (profiler/target/crash_record.h) */
};

/* The kind of name behind the colon, for a kind that stands for many events: event_spec.name. */
enum event_naming {
	NAMED_NOT,
	NAMED_TRACEPOINT, /* SYSTEM:NAME, and .FIELD; shim/event/tracepoint.h */
	NAMED_KPROBE,	  /* FUNCTION, and +OFFSET */
	NAMED_UPROBE,	  /* FILE:FUNCTION; shim/event/uprobe.h */
	NAMED_RAW,	  /* rHEX */
};

struct event_kind {
	const char *name;
	uint32_t type;	 /* PERF_TYPE_*, EVENT_TYPE_* */
	uint64_t config; /* PERF_COUNT_* */
	enum event_measure measure;
	uint64_t period;		       /* default: a count, or Hz for events that measure time */
	const char *sample_type, *sample_unit; /* pprof */
	const char *help;
	enum event_naming naming;
	bool in_kernel; /* happens in kernel code alone: without the right to see that there are no samples */
};

/* The profiles in which an event's samples are. */
enum event_profiles { PROFILES_OWN, PROFILES_OWN_AND_WALL, PROFILES_WALL, PROFILES_ALLOC };

/* In which code it counts. */
enum event_only { EVENT_ANYWHERE, EVENT_ONLY_USER, EVENT_ONLY_KERNEL };

struct event_spec {
	uint32_t kind;	 /* row of the catalogue */
	uint64_t period; /* a count, or ns: the weight of one sample; MEASURES_OFFCPU: from stack to stack */
	uint64_t config; /* a tracepoint: its id; a uprobe: its offset in the file; a kprobe: in the function */
	char name[EVENT_NAME_MAX]; /* if it has one: "sched:sched_switch", "/usr/bin/x:work" */
	uint32_t min_us;	   /* MEASURES_OFFCPU: shorter ones are summed up without a place */
	uint16_t idle;		   /* MEASURES_OFFCPU: also of threads that never run */
	uint16_t profiles;	   /* enum event_profiles */
	uint8_t stacks;		   /* enum stacks + 1; 0: as the target's others */
	uint8_t only;		   /* enum event_only */
	/* of a tracepoint with a field: where it is in PERF_SAMPLE_RAW; size 1, 2, 4 or 8, 0: each counts as one */
	uint8_t value_size, value_signed;
	uint16_t value_at;
	uint16_t with_time; /* MEASURES_CALLS */
};

/* A name for a list. */
struct event_preset {
	const char *name, *list, *help;
	bool wall; /* its events make up one profile */
};
#define EVENT_WALL "wall"			     /* its sample type */
const struct event_preset *event_preset(size_t row); /* NULL beyond the table */

size_t event_kinds(void);
const struct event_kind *event_kind(uint32_t row);  /* NULL beyond the table */
const char *event_name(const struct event_spec *s); /* "cpu", "sched:sched_switch", "x:work" */
bool event_is(const struct event_spec *s, enum event_naming naming);
bool event_is_of_app(const struct event_spec *s);	   /* EVENT_TYPE_APP */
bool event_is_timed(const struct event_kind *k);	   /* it has a rate, not a period */
int event_heap(void);					   /* the row of MEASURES_LIVE_HEAP */
bool event_shares_counters(const struct event_kind *k);	   /* of a PMU, which has a few: they may have to take turns */
const char *event_sample_type(const struct event_spec *s); /* pprof */
/* Its text in a list: "cpu@99", "page-faults/100". Returns buf. */
#define EVENT_TEXT_MAX 300
const char *event_text(const struct event_spec *s, char buf[EVENT_TEXT_MAX]);
/* "cpu@99,wall" */
#define EVENTS_TEXT_MAX (EVENTS_MAX * EVENT_TEXT_MAX)
const char *event_spec_text(const struct event_spec *specs, size_t n, char buf[EVENTS_TEXT_MAX]);

/*
 * Parses a list. max_rate: the most Hz allowed (0 = no bound); a higher rate is lowered to it and `*ret_clamped` set.
 * Errors (-EINVAL) name the column and the allowed values. An event named twice is an error.
 */
int event_spec_parse(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, struct err *e);
/* The same, but leaves out items that are no events: calls `left` for each. Fails as above when none is left. */
typedef void event_spec_left_fn(void *arg, const char *why);
int event_spec_parse_some(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, event_spec_left_fn *left, void *arg, struct err *e);

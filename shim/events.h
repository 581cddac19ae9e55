/*
 * events - the catalogue of what can be counted, and the grammar by which it is asked for.
 *
 *	list  = item { "," item }		item = name [ "@" Hz | "/" period ]
 *
 *	cpu				99 samples per second of CPU time
 *	cpu@199				199 of them
 *	page-faults/50			every 50th page fault
 *	context-switches		every 100th time that a thread goes off its CPU
 *	tracepoint:sched:sched_switch	each time that the kernel passes there; of what there is, see tracefs
 *	uprobe:/usr/bin/x:work/10	every tenth call of that function of that file, as the container sees it
 *	offcpu				time that threads wait for 1 ms and longer, by 99 stacks a second of each CPU
 *	offcpu:min=0:idle@199		also for less, and of threads that do nothing else, by 199 of them
 *
 *	wall				cpu and offcpu in one profile
 *	latency, memory, all		several of them, see event_preset(); what is listed by itself has its own rate
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
#define EVENT_NAME_MAX 200	     /* with its end */
#define EVENT_TYPE_UPROBE UINT32_MAX /* the kernel gives out its number as it starts */

enum event_measure {
	MEASURES_COUNT,
	MEASURES_CPU,	/* CPU time, by a timer: the kernel takes ns for clock events even with freq=1 */
	MEASURES_WAITS, /* time on no CPU: every switch is recorded, of some the stack (profiler/waits.h) */
};

struct event_kind {
	const char *name;
	uint32_t type;	 /* PERF_TYPE_*, EVENT_TYPE_UPROBE */
	uint64_t config; /* PERF_COUNT_* */
	enum event_measure measure;
	uint64_t period;		       /* default: a count, or Hz for what measures time */
	const char *sample_type, *sample_unit; /* pprof */
	const char *help;
	bool named;	/* behind a colon stands which one: event_spec.name and .config */
	bool in_kernel; /* happens in kernel code alone: whoever may not see that has none of them */
};

/* Whose samples are in which profile. */
enum event_profiles { PROFILES_OWN, PROFILES_OWN_AND_WALL, PROFILES_WALL };

struct event_spec {
	uint32_t kind;		   /* row of the catalogue */
	uint64_t period;	   /* a count, or ns: the weight of one sample; MEASURES_WAITS: from stack to stack */
	uint64_t config;	   /* of a named one: its id, found by events_resolve; of a uprobe, where in the file */
	char name[EVENT_NAME_MAX]; /* of a named one: "sched:sched_switch", "/usr/bin/x:work" */
	uint32_t min_us;	   /* MEASURES_WAITS: shorter ones are summed up without a place */
	uint16_t idle;		   /* MEASURES_WAITS: also of threads that never run */
	uint16_t profiles;	   /* enum event_profiles */
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
bool event_is_uprobe(const struct event_spec *s);
const char *event_sample_type(const struct event_spec *s); /* pprof */
/* As it is asked for: "cpu@99", "page-faults/100". Returns buf. */
#define EVENT_TEXT_MAX 280
const char *event_text(const struct event_spec *s, char buf[EVENT_TEXT_MAX]);
/* "cpu@99,wall" */
#define EVENTS_TEXT_MAX (EVENTS_MAX * EVENT_TEXT_MAX)
const char *events_text(const struct event_spec *specs, size_t n, char buf[EVENTS_TEXT_MAX]);

/*
 * Parse a list. max_rate: the most Hz allowed (0 = no bound); a higher one is lowered to it and `*ret_clamped` set.
 * Errors (-EINVAL) name the column and what is allowed. An event named twice is an error.
 */
int events_parse(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n,
	bool *ret_clamped, struct err *e);
/* Find the ids of tracepoints in tracefs, which only root may read on most hosts. 0, -ENOENT, -EACCES. */
int events_resolve(struct event_spec *specs, size_t n, struct err *e);
/* Both, one after the other. */
int events_ask(const char *text, uint32_t max_rate, struct event_spec ret[EVENTS_MAX], size_t *ret_n, bool *ret_clamped,
	struct err *e);

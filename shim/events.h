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

struct event_kind {
	const char *name;
	uint32_t type;	 /* PERF_TYPE_* */
	uint64_t config; /* PERF_COUNT_* */
	bool clock; /* period in nanoseconds, rates allowed (the kernel takes ns for clock events even with freq=1) */
	uint64_t period;		       /* default: Hz for a clock, else a count */
	const char *sample_type, *sample_unit; /* pprof */
	const char *help;
	bool named;	/* behind a colon stands which one: event_spec.name and .config */
	bool in_kernel; /* happens in kernel code alone: whoever may not see that has none of them */
};

struct event_spec {
	uint32_t kind;	 /* row of the catalogue */
	uint64_t period; /* ns for a clock, else a count: the weight of one sample */
	uint64_t config; /* of a named one: its id, found by events_resolve */
	char name[64];	 /* of a named one: "sched:sched_switch" */
};

size_t event_kinds(void);
const struct event_kind *event_kind(uint32_t row);	   /* NULL beyond the table */
const char *event_name(const struct event_spec *s);	   /* "cpu", "sched:sched_switch" */
const char *event_sample_type(const struct event_spec *s); /* pprof */
/* As it is asked for: "cpu@99", "page-faults/100". Returns buf. */
#define EVENT_TEXT_MAX 128
const char *event_text(const struct event_spec *s, char buf[EVENT_TEXT_MAX]);

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

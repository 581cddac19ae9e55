/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol_requests - which of the frames that a target's samples hit have no names yet, and asking the symbolizer for
 * them.
 *
 * Addresses are asked about once per module, whoever was sampled there (module_names). Only where there is something
 * to be had: debug information, or names to demangle.
 */
#pragma once

#include "oci/base/clock.h"
#include "profiler/sample/aggregate.h"
#include "profiler/target/engine.h"

struct symbol_request;

/*
 * What a target's names may cost, as time of jobs: a good deal at first, then a small part of the time that passes. A
 * program at work brings new addresses for ever, each window fewer; to open debug information anew for a handful
 * of them costs more than all samples do, so they have their functions' names, and lines a few windows later.
 */
#define SYMBOL_REQUESTS_CREDIT (250 * NSEC_PER_MSEC)
#define SYMBOL_REQUESTS_SHARE 8000 /* of the time that passes, one part */

/* What the names are for, and so what bounds their cost. In a session cpu_budget bounds nothing. */
enum symbol_requests_use {
	SYMBOL_REQUESTS_WINDOW,	     /* the target's credit, and cpu_budget (sample_rate_have_room) */
	SYMBOL_REQUESTS_LAST_WINDOW, /* cpu_budget alone: there is no later window */
	SYMBOL_REQUESTS_CRASH,	     /* nothing */
};

/*
 * Ask for what is missing of these aggregates' frames, as far as their cost is not bounded. done() is called once,
 * when everything was answered or the deadline (clock_now) passed, from the loop; never from here. NULL: nothing is
 * missing, or nothing may be asked for now, or nobody can be asked.
 */
struct symbol_request *symbol_requests_start(struct target *t, struct aggregate *const *counts, size_t n,
	enum symbol_requests_use use, int64_t deadline, void (*done)(void *arg), void *arg);
/* Addresses that it would ask about, and does not now for what it costs. */
size_t symbol_requests_put_off(
	const struct target *t, struct aggregate *const *counts, size_t n, enum symbol_requests_use use);
struct symbol_request *symbol_requests_free(struct symbol_request *n);	/* NULL is fine; done is not called any more */
void symbol_requests_hurry(struct symbol_request *n, int64_t deadline); /* an earlier one */
size_t symbol_requests_left(
	const struct symbol_request *n); /* addresses that were not answered, at most; of NULL none */
/* Past its deadline: done. Milliseconds until then, -1 = it was called. */
int symbol_requests_round(struct symbol_request *n, int64_t now);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbol_requests - finds the frames of a target's samples that have no names yet, and asks the symbolizer for them.
 *
 * Addresses are asked about once per module, for all processes (module_names). Only where an answer is possible: debug
 * information, or names to demangle.
 */
#pragma once

#include "oci/base/clock.h"
#include "profiler/sample/aggregate.h"
#include "profiler/target/engine_state.h"

struct symbol_request;

/*
 * Bounds the cost of a target's names, as time of jobs: a good deal at first, then a small part of the time that
 * passes. A program at work brings new addresses for ever, fewer in each window. To open debug information anew for a
 * handful of them costs more than all samples do: so they get their functions' names now, and lines a few windows
 * later.
 */
#define SYMBOL_REQUESTS_CREDIT (250 * NSEC_PER_MSEC)
#define SYMBOL_REQUESTS_SHARE 8000 /* one part of so many of the time that passes */

/* The use of the names decides the bound of their cost. In a session cpu_budget bounds nothing. */
enum symbol_requests_use {
	SYMBOL_REQUESTS_WINDOW,	     /* the target's credit, and cpu_budget (target_rate_have_room) */
	SYMBOL_REQUESTS_LAST_WINDOW, /* cpu_budget alone: there is no later window */
	SYMBOL_REQUESTS_CRASH,	     /* no bound */
};

/*
 * Asks for the missing names of these aggregates' frames, as far as their cost is not bounded. The loop calls done()
 * once, when everything was answered or the deadline (clock_now) passed; this function never does. NULL: no name is
 * missing, no request is allowed now, or there is no symbolizer.
 */
struct symbol_request *symbol_requests_start(struct target *t, struct aggregate *const *counts, size_t n,
	enum symbol_requests_use use, int64_t deadline, void (*done)(void *arg), void *arg);
/* Returns how many addresses symbol_requests_start would ask about, but does not now because of their cost. */
size_t symbol_requests_put_off(
	const struct target *t, struct aggregate *const *counts, size_t n, enum symbol_requests_use use);
struct symbol_request *symbol_requests_free(struct symbol_request *n);	/* NULL is fine; done is not called any more */
void symbol_requests_hurry(struct symbol_request *n, int64_t deadline); /* sets an earlier one */
size_t symbol_requests_left(const struct symbol_request *n); /* addresses without an answer, at most; NULL: 0 */
/* Calls done after the deadline. Returns milliseconds until then, -1: it was called. */
int symbol_requests_round(struct symbol_request *n, int64_t now);

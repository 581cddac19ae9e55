/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock_driven - for tests: a clock that stands still until it is moved, in place of the kernel's.
 *
 * In shared memory it is the clock of the children too. With `leaps`, a wait for which nothing is ready ends at once
 * and moves the clock to its end; without, a wait looks again every millisecond, for another process may move the
 * clock. A program drives its clock by a call of its own, never by anything from outside of it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct clock_driven {
	_Atomic int64_t now; /* clock_now() returns it, ns */
	int64_t to_real;     /* clock_real() - clock_now() */
	bool leaps;
	void (*leapt)(struct clock_driven *c); /* NULL, or called after each leap: plays the events of that time */
};
void clock_drive(struct clock_driven *c); /* from the kernel's time on; NULL: the kernel's again */
void clock_move(int64_t nsec);		  /* the driven one */
/* For a wait of `ms`, -1 = without end: returns how long poll(2) may block. Then: it blocked and nothing was ready. */
int clock_block_ms(int ms);
void clock_blocked(int ms);

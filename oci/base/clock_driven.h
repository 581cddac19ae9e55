/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock_driven - for tests: a clock that stands still until it is moved, in place of the kernel's.
 *
 * In memory that is shared, it is that of the children too. With `leaps`, a wait for which nothing is ready ends at
 * once and moves the clock to its end; without, a wait looks again every millisecond, for another process may move it.
 * A program drives its clock by a call of its own, never by anything from outside of it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct clock_driven {
	_Atomic int64_t now; /* what clock_now() says, ns */
	int64_t to_real;     /* from there to what clock_real() says */
	bool leaps;
	void (*leapt)(struct clock_driven *c); /* NULL, or called behind each leap: what happens at that time */
};
void clock_drive(struct clock_driven *c); /* from the kernel's time on; NULL: the kernel's again */
void clock_move(int64_t nsec);		  /* the driven one */
/* Of a wait of so many ms, -1 = without end: how long poll(2) may block; and it blocked so long for nothing. */
int clock_block_ms(int ms);
void clock_blocked(int ms);

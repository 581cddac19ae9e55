/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target_counts - compares a target's samples with the kernel's own counts: what its events counted, which samples the
 * kernel could not write, and so how much of a window is missing, and why.
 */
#pragma once

struct target;
struct window;

/* Call before a change of rate: accounts the kernel's counts so far with the samples so far. */
void target_counts_rate(struct target *t);
/* Ends a window: fills in the totals of each event, and begins the next one. The window's tally is complete. */
void target_counts_window(struct target *t, struct window *w);

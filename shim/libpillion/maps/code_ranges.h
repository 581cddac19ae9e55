/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_ranges - the address ranges of code in this process, from the text of proc_pid_maps(5): selects the lines of
 * code, and tells whether an address is in one of them. Async-signal-safe; only one thread changes the ranges at a
 * time, and a reader meanwhile finds a part of them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_RANGES 1024 /* more than that: every address counts as known */

struct code {
	uint32_t n; /* 0: nothing is known yet */
	bool full;
	struct code_range {
		uint64_t start, end;
	} ranges[CODE_RANGES]; /* in the order of the text, which is that of addresses */
};

/*
 * Moves the lines of code to the beginning of the text, which has `*len` bytes (then: the size of these lines), and
 * adds their ranges to `c`. Returns the bytes of all whole lines: the rest is to be read again.
 */
size_t code_lines(struct code *c, char *text, size_t *len);
bool code_has(const struct code *c, uint64_t at); /* true also if nothing is known */

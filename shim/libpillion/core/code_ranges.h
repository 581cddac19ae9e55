/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_ranges - where there is code in this process, by the text of proc_pid_maps(5): which lines of it are of
 * interest, and whether an address is in one of them. Async-signal-safe; whoever changes the ranges is alone at it, and
 * who reads them meanwhile finds a part.
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
 * Lines of code to the beginning of the text, which has `*len` bytes (then: what is left of it), and into `c`. How many
 * bytes of it were whole lines: what is behind them is to be read again.
 */
size_t code_lines(struct code *c, char *text, size_t *len);
bool code_has(const struct code *c, uint64_t at); /* also where nothing is known */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_clock_offset - times of the kernel's own clock (perf_clock, one for each CPU), if CLOCK_MONOTONIC cannot be
 * asked for (before Linux 4.1): by offsets that are measured. On each CPU this thread provokes page faults with a
 * sample of each, between two readings of CLOCK_MONOTONIC; the closest two give the offset of the CPU's clock, and its
 * error. Both clocks drift apart (NTP), so it is measured again after a second.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SELF_CLOCK_OFFSET_AGAIN 1000000000u

struct self_clock_offset_offsets {
	bool on;
	int n, cpus[1024];
	int64_t offset[1024]; /* by CPU: ns that CLOCK_MONOTONIC is ahead */
	uint64_t error;	      /* ns, at most: of the worst CPU */
	uint64_t measured;
};
/* Restores the thread's CPUs. -errno with a sentence: it could not be measured on any. */
int self_clock_offset_measure(struct self_clock_offset_offsets *c);
uint64_t self_clock_offset_monotonic(const struct self_clock_offset_offsets *c, uint32_t cpu, uint64_t time);

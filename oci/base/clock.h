/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock - CLOCK_MONOTONIC nanoseconds, and deadlines: one absolute point in time that every wait of an
 * operation shares, so that the whole is bounded and not each step.
 */
#pragma once

#include <stdint.h>

#define NSEC_PER_SEC 1000000000LL
#define NSEC_PER_MSEC 1000000LL

int64_t clock_now(void);		/* CLOCK_MONOTONIC, ns */
int64_t clock_real(void);		/* CLOCK_REALTIME, ns since the epoch */
int64_t clock_cpu(void);		/* CPU time of the calling thread, ns */
int64_t deadline_in(int64_t nsec);	/* now + nsec */
int deadline_left_ms(int64_t deadline); /* >= 0, rounded up: for poll(2) */

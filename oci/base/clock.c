/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/clock.h"

#include "oci/base/clock_driven.h"

#include <limits.h>
#include <stddef.h>
#include <time.h>

static struct clock_driven *driven;

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int64_t clock_now(void)
{
	return driven ? driven->now : read_clock(CLOCK_MONOTONIC);
}

int64_t clock_real(void)
{
	return driven ? driven->now + driven->to_real : read_clock(CLOCK_REALTIME);
}

int64_t clock_cpu(void)
{
	return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t deadline_in(int64_t nsec)
{
	return clock_now() + nsec;
}

int deadline_left_ms(int64_t deadline)
{
	int64_t left = deadline - clock_now();
	if (left <= 0)
		return 0;
	int64_t ms = (left + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

void clock_drive(struct clock_driven *c)
{
	driven = NULL;
	if (c) {
		c->now = clock_now();
		c->to_real = clock_real() - c->now;
	}
	driven = c;
}

void clock_move(int64_t nsec)
{
	driven->now += nsec;
}

int clock_block_ms(int ms)
{
	if (!driven || ms == 0 || (driven->leaps && ms < 0))
		return ms;
	return driven->leaps ? 0 : 1;
}

void clock_blocked(int ms)
{
	if (!driven || !driven->leaps || ms <= 0)
		return;
	clock_move(ms * NSEC_PER_MSEC);
	if (driven->leapt)
		driven->leapt(driven);
}

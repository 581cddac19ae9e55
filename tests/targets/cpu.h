/*
 * cpu - burning CPU time by the thread's own clock, so that a target's shape does not depend on the machine.
 *
 * The loop is inlined into its caller: the caller is the function that a profile has to name. The clock is
 * a system call, so it is read only every 100 us or so of work, well below 1 % of the time.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MSEC 1000000LL
#define SEC 1000000000LL
/* A function of known place in the stack: never merged, cloned, inlined or seen through. */
#define FRAME __attribute__((noinline, noclone, noipa))

static inline int64_t cpu_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

/* Compute until this thread has used `nsec` more; returns what it really took. */
static inline __attribute__((always_inline)) int64_t cpu_spin(int64_t nsec)
{
	int64_t start = cpu_now(), used = 0;
	uint64_t x = (uint64_t)start | 1;

	while (used < nsec) {
		for (int i = 0; i < 20000; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			__asm__ volatile("" : "+r"(x));
		}
		used = cpu_now() - start;
	}
	return used;
}

/* Seconds from the command line, fractions allowed; exits with a sentence when it is no such thing. */
static inline int64_t cpu_arg(int argc, char **argv, int n, const char *fallback)
{
	const char *text = argc > n ? argv[n] : fallback;
	char *end;
	double sec = strtod(text, &end);

	if (end == text || *end || !(sec >= 0 && sec <= 86400)) {
		fprintf(stderr, "%s: %s is not a number of seconds\n", argv[0], text);
		exit(2);
	}
	return (int64_t)(sec * SEC);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work cpu|calls ROUNDS - a fixed amount of work, twenty calls deep: arithmetic, or system calls that do next to
 * nothing. Prints the milliseconds that it took: what a profiler costs it is what it takes longer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t spin(uint64_t rounds)
{
	uint64_t x = 88172645463325252u;
	while (rounds--) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static uint64_t call(uint64_t rounds)
{
	while (rounds--)
		syscall(SYS_getppid);
	return rounds;
}

/* The empty asm is why it is a call and no jump. */
static __attribute__((noinline, noclone)) uint64_t down(int depth, uint64_t (*work)(uint64_t), uint64_t rounds)
{
	uint64_t r = depth ? down(depth - 1, work, rounds) : work(rounds);
	__asm__ volatile("" : "+r"(r));
	return r;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	struct timespec a, b;
	clock_gettime(CLOCK_MONOTONIC, &a);
	volatile uint64_t sink = down(20, strcmp(argv[1], "cpu") ? call : spin, strtoull(argv[2], NULL, 10));
	clock_gettime(CLOCK_MONOTONIC, &b);
	(void)sink;
	printf("%.3f\n", (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6);
	return 0;
}

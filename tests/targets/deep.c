/*
 * deep SECONDS KIB[/N]... - stacks of known depth: for each KIB in turn, SECONDS of CPU time in leaf_work below about
 * so many KiB of frames (`down`, 1 KiB each; entered from `bottom`); /N: it works the Nth part of the time. The CPU
 * time of all is printed at the end.
 */
#include "tests/targets/cpu.h"

#include <string.h>

FRAME int64_t leaf_work(int64_t nsec);
FRAME int64_t down(int kib, int64_t nsec);
FRAME int64_t bottom(int kib, int64_t nsec);

FRAME int64_t leaf_work(int64_t nsec)
{
	return cpu_spin(nsec);
}

FRAME int64_t down(int kib, int64_t nsec)
{
	char frame[1024 - 32]; /* with what is saved, 1 KiB */
	__asm__ volatile("" : : "r"(frame) : "memory");
	int64_t used = kib > 0 ? down(kib - 1, nsec) : leaf_work(nsec);
	__asm__ volatile("" : "+r"(used));
	return used;
}

FRAME int64_t bottom(int kib, int64_t nsec)
{
	int64_t used = down(kib, nsec);
	__asm__ volatile("" : "+r"(used));
	return used;
}

#define TURN (20 * MSEC)

/* All calls are main's own: its stacks are `main;bottom;down...`. */
int main(int argc, char **argv)
{
	int64_t goal = cpu_arg(argc, argv, 1, "2"), used = 0;
	for (int i = 2; i < argc; i++) {
		const char *part = strchr(argv[i], '/');
		const int64_t rest = part ? (atoi(part + 1) - 1) * TURN : 0, until = used + goal;
		while (used < until) {
			used += bottom(atoi(argv[i]), rest ? TURN : goal);
			if (rest)
				nanosleep(&(struct timespec){rest / SEC, rest % SEC}, NULL);
		}
	}
	printf("cpu %lld ns\n", (long long)used);
	return 0;
}

/*
 * counted SLEEPS PAGES [US] - goes to sleep SLEEPS times, for US microseconds each (100), in counted_sleep, and between
 * two of them uses PAGES / SLEEPS pages of memory for the first time in counted_touch. Prints what the kernel has
 * counted of the whole process: "switches N faults N".
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

FRAME void counted_sleep(long us);
FRAME void counted_touch(volatile char *memory, long pages);

FRAME void counted_sleep(long us)
{
	struct timespec ts = {us / 1000000, us % 1000000 * 1000};
	nanosleep(&ts, NULL);
	__asm__ volatile(""); /* it is no tail call */
}

FRAME void counted_touch(volatile char *memory, long pages)
{
	for (long i = 0; i < pages; i++)
		memory[i * 4096] = 1;
}

int main(int argc, char **argv)
{
	long sleeps = argc > 1 ? atol(argv[1]) : 0, pages = argc > 2 ? atol(argv[2]) : 0;
	long us = argc > 3 ? atol(argv[3]) : 100;
	struct rusage use;
	if (sleeps < 1 || pages < 0 || us < 1) {
		fprintf(stderr, "usage: %s SLEEPS PAGES [US]\n", argv[0]);
		return 2;
	}
	size_t size = (size_t)(pages + 1) * 4096;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (long i = 0; i < sleeps; i++) {
		counted_sleep(us);
		counted_touch(memory + pages * i / sleeps * 4096, pages * (i + 1) / sleeps - pages * i / sleeps);
	}
	getrusage(RUSAGE_SELF, &use);
	printf("switches %ld faults %ld\n", use.ru_nvcsw + use.ru_nivcsw, use.ru_minflt + use.ru_majflt);
	return 0;
}

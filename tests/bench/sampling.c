/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampling - what one sample costs the program that it interrupts, by the size of its stack snapshot and by how much
 * stack there is to copy: work done with the events of shim/event/perf_event.h at 5 kHz, against work done without, in
 * turns. Prints ns a sample; the constants of profiler/sample/sample_rate.c are from here.
 */
#include "oci/base/clock.h"
#include "shim/event/perf_event.h"

#include <alloca.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define TURNS 40
#define TURN_NS (100 * NSEC_PER_MSEC)
#define PERIOD_NS 200000

static uint64_t work(int64_t until)
{
	uint64_t n = 0, x = 88172645463325252ull;
	for (; clock_now() < until; n++)
		for (int i = 0; i < 2000; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			__asm__ volatile("" : "+r"(x));
		}
	return n;
}

static int open_sampler(uint32_t rung, enum stacks stacks, struct perf_event_mmap_page **ret)
{
	struct perf_want want = {.role = PERF_SAMPLES,
		.spec = {.kind = 0, .period = PERIOD_NS},
		.kernel = true,
		.idle = true,
		.stacks = stacks,
		.rung = rung};
	struct perf_event_attr attr;
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	int fd = perf_open(&attr, 0, sched_getcpu(), 0);
	/* not writable: the kernel goes round and round and loses nothing */
	void *at = fd < 0 ? MAP_FAILED
			  : mmap(NULL, PERF_RING_BYTES + (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	*ret = at == MAP_FAILED ? NULL : at;
	return at == MAP_FAILED ? -1 : fd;
}

static __attribute__((noinline)) void measure(const char *name, uint32_t rung, enum stacks stacks, size_t depth)
{
	volatile char *stack = alloca(depth + 64);
	struct perf_event_mmap_page *page;
	uint64_t done[2] = {0}, value, samples = 0;
	memset((char *)stack, 1, depth + 64);
	int fd = open_sampler(rung, stacks, &page);
	if (fd < 0) {
		perror("sampling: no event");
		exit(1);
	}
	for (int i = 0; i < 2 * TURNS; i++) {
		ioctl(fd, i & 1 ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
		done[i & 1] += work(clock_now() + TURN_NS);
	}
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, &value, sizeof(value)) > 0)
		samples = value / PERIOD_NS;
	double lost = 1 - (double)done[1] / (double)done[0];
	printf("%-12s %8zu KiB of stack %8.0f ns\n", name, depth >> 10, lost * TURNS * TURN_NS / (double)samples);
	munmap(page, PERF_RING_BYTES + (size_t)sysconf(_SC_PAGESIZE));
	close(fd);
}

int main(void)
{
	static const size_t depths[] = {4 << 10, 8 << 10, 32 << 10, 64 << 10};
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	measure("no stacks", 1, STACKS_NONE, 4 << 10);
	measure("pointers", 1, STACKS_FP, 4 << 10);
	for (uint32_t rung = 1; rung <= PERF_RUNGS; rung++) {
		char name[32];
		snprintf(name, sizeof(name), "%u KiB", perf_stack_user(rung) >> 10);
		for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
			measure(name, rung, STACKS_AUTO, depths[i]);
	}
	return 0;
}

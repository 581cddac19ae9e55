/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stamp [MS] - uses MS milliseconds of CPU time, about half of it in the kernel, prints CLOCK_MONOTONIC in nanoseconds
 * and ends.
 */
#include <fcntl.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

int main(int argc, char **argv)
{
	int64_t goal = argc > 1 ? atoi(argv[1]) * MSEC : 0;
	int file = open("/proc/self/status", O_RDONLY);
	char bytes[4096];
	struct timespec t;

	while (cpu_now() < goal) {
		cpu_spin(MSEC / 4);
		for (int i = 0; i < 20; i++)
			if (pread(file, bytes, sizeof(bytes), 0) < 0)
				break;
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	return dprintf(1, "%lld\n", t.tv_sec * SEC + t.tv_nsec) < 0;
}

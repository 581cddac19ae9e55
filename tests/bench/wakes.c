/* SPDX-License-Identifier: Apache-2.0 */
/* wakes N MS - what it costs to wake up N times, MS apart, for nothing: prints microseconds of CPU time for each. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	int n = argc == 3 ? atoi(argv[1]) : 0;
	if (n < 1) {
		fprintf(stderr, "usage: wakes N MS\n");
		return 2;
	}
	double before = cpu_us();
	for (int i = 0; i < n; i++)
		usleep((useconds_t)atoi(argv[2]) * 1000);
	printf("%.1f\n", (cpu_us() - before) / n);
	return 0;
}

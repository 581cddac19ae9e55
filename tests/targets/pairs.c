/*
 * pairs - what a call of malloc(3) and one of free(3) take: `pairs SIZE BYTES`: pairs of SIZE until so many bytes were
 * allocated; prints ns a pair, by CLOCK_MONOTONIC.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	const size_t size = argc > 1 ? strtoul(argv[1], NULL, 10) : 64;
	const unsigned long n = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000000) / (size ? size : 1);
	void *volatile p;
	for (unsigned long i = 0; i < n / 10; i++) {
		p = malloc(size);
		free(p);
	}
	const double began = now();
	for (unsigned long i = 0; i < n; i++) {
		p = malloc(size);
		free(p);
	}
	printf("%.2f\n", (now() - began) / (double)n);
	return 0;
}

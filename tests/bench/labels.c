/* SPDX-License-Identifier: Apache-2.0 */
/*
 * labels WAY MILLIONS - so many times a thread gives its work another name; prints the nanoseconds of CPU time of one.
 *	empty	a function that does nothing
 *	same	pillion_label_set: the value that it has already
 *	two	one value and another in turn
 *	many	one of 500 values
 *	name	prctl(PR_SET_NAME), which other profilers go by
 */
#include "shim/libpillion/pillion.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static char values[500][16];

__attribute__((noinline)) static void do_nothing(long i)
{
	__asm__ volatile("" : : "r"(i));
}

static void set_same(long i)
{
	pillion_label_set("kind", values[0]);
}

static void set_two(long i)
{
	pillion_label_set("kind", values[i % 2]);
}

static void set_many(long i)
{
	pillion_label_set("kind", values[i % 500]);
}

static void set_name(long i)
{
	prctl(PR_SET_NAME, values[i % 2]);
}

static const struct {
	const char *name;
	void (*fn)(long i);
} ways[] = {{"empty", do_nothing}, {"same", set_same}, {"two", set_two}, {"many", set_many}, {"name", set_name}};

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	const long n = argc > 2 ? atol(argv[2]) * 1000000 : 0;
	for (int i = 0; i < 500; i++)
		snprintf(values[i], sizeof(values[i]), "value-%d", i);
	for (size_t w = 0; n && w < sizeof(ways) / sizeof(ways[0]); w++)
		if (!strcmp(argv[1], ways[w].name)) {
			const double began = cpu_ns();
			for (long i = 0; i < n; i++)
				ways[w].fn(i);
			printf("%.2f\n", (cpu_ns() - began) / (double)n);
			return 0;
		}
	fprintf(stderr, "labels: WAY MILLIONS\n");
	return 2;
}

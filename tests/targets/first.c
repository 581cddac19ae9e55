/*
 * first - 30 ms of CPU time before main, says "pid N" (its own, as it sees it), burns 100 ms more, and says what each
 * took: "first_work 30012345 ns". Any container can run it as its init, whatever the container may not do. With an
 * argument it goes on until it is ended, and does not say what it took.
 */
#include "tests/targets/cpu.h"

#include <stdio.h>
#include <unistd.h>

FRAME int64_t first_work(void);
FRAME int64_t then_work(void);

FRAME int64_t first_work(void)
{
	return cpu_spin(30 * MSEC);
}

FRAME int64_t then_work(void)
{
	return cpu_spin(100 * MSEC);
}

static int64_t before_main;

static __attribute__((constructor)) void begin(void)
{
	before_main = first_work();
}

int main(int argc, char **argv)
{
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	int64_t took;
	do
		took = then_work();
	while (argc > 1);
	printf("first_work %lld ns\nthen_work %lld ns\n", (long long)before_main, (long long)took);
	return 0;
}

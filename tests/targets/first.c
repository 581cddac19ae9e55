/*
 * first - 30 ms of CPU time before main, says "pid N" (its own, as it sees it), and burns 100 ms more: what any
 * container can run as its init, whatever it may not do. With an argument it goes on until somebody ends it.
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

static __attribute__((constructor)) void begin(void)
{
	first_work();
}

int main(int argc, char **argv)
{
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	do
		then_work();
	while (argc > 1);
	return 0;
}

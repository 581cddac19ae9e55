/*
 * ctor [SECONDS] - 30 ms of CPU time, or SECONDS, in an ELF constructor; main says what it took and returns at once:
 * only a profiler that was there before the first instruction sees any of it. libctor.so gives the dynamic linker
 * work before that.
 */
#include "tests/targets/cpu.h"

FRAME int64_t ctor_work(int64_t nsec);
const void *ctor_table(unsigned i); /* libctor.c */

FRAME int64_t ctor_work(int64_t nsec)
{
	return cpu_spin(nsec);
}

static int64_t took;

static __attribute__((constructor)) void begin(int argc, char **argv) /* as glibc calls it */
{
	took = ctor_work(cpu_arg(argc, argv, 1, "0.03"));
}

int main(void)
{
	printf("ctor_work %lld ns\n", (long long)took);
	return ctor_table(0) ? 0 : 1;
}

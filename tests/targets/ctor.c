/*
 * ctor - 30 ms of CPU time in an ELF constructor, then main returns at once: only a profiler that was there
 * before the first instruction sees any of it. libctor.so gives the dynamic linker work before that.
 */
#include "tests/targets/cpu.h"

FRAME int64_t ctor_work(void);
const void *ctor_table(unsigned i); /* libctor.c */

FRAME int64_t ctor_work(void)
{
	return cpu_spin(30 * MSEC);
}

static __attribute__((constructor)) void begin(void)
{
	ctor_work();
}

int main(void)
{
	return ctor_table(0) ? 0 : 1;
}

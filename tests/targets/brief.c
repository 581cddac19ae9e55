/* brief - 50 ms of CPU time in brief_work, then gone. */
#include "tests/targets/cpu.h"

FRAME int64_t brief_work(void);

FRAME int64_t brief_work(void)
{
	return cpu_spin(50 * MSEC);
}

int main(void)
{
	return brief_work() ? 0 : 1;
}

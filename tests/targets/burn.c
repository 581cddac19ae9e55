/* burn SECONDS - CPU time in burn_loop. Installed setuid or 0711 by the tests that want that. */
#include "tests/targets/cpu.h"

FRAME int64_t burn_loop(int64_t nsec);

FRAME int64_t burn_loop(int64_t nsec)
{
	return cpu_spin(nsec);
}

int main(int argc, char **argv)
{
	printf("burn_loop %lld ns\n", (long long)burn_loop(cpu_arg(argc, argv, 1, "1")));
	return 0;
}

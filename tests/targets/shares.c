/*
 * shares THREADS SECONDS - so many threads, each of SECONDS of CPU time: a seventh in share_one, two in share_two, four
 * in share_four, a 31st of the whole at a time: no multiple of anybody's period.
 */
#include <pthread.h>

#include "tests/targets/cpu.h"

static int64_t part;

FRAME int64_t share_one(int64_t nsec);
FRAME int64_t share_one(int64_t nsec)
{
	return cpu_spin(nsec);
}
FRAME int64_t share_two(int64_t nsec);
FRAME int64_t share_two(int64_t nsec)
{
	return cpu_spin(nsec);
}
FRAME int64_t share_four(int64_t nsec);
FRAME int64_t share_four(int64_t nsec)
{
	return cpu_spin(nsec);
}

static void *work(void *arg)
{
	for (int i = 0; i < 31; i++) {
		share_one(part);
		share_two(2 * part);
		share_four(4 * part);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[64];
	const long n = argc > 1 ? strtol(argv[1], NULL, 10) : 4;
	part = cpu_arg(argc, argv, 2, "1") / (7 * 31);
	for (long i = 0; i < n && i < 64; i++)
		if (pthread_create(&t[i], NULL, work, NULL))
			return 1;
	for (long i = 0; i < n && i < 64; i++)
		pthread_join(t[i], NULL);
	return 0;
}

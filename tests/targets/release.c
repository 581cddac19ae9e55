/*
 * release old|new - serves requests for three seconds of CPU time, each in three functions. In the new release
 * find_user takes four times as long: for `pillion diff`. A loop stands in each function itself, so that the time is
 * its own, and not that of one that is inlined.
 */
#include <string.h>

#include "tests/targets/cpu.h"

#define WORK(n)                                                                                                        \
	for (int i = 0; i < (n)*20000; i++) {                                                                          \
		x ^= x << 13;                                                                                          \
		x ^= x >> 7;                                                                                           \
		x ^= x << 17;                                                                                          \
		__asm__ volatile("" : "+r"(x));                                                                        \
	}

FRAME uint64_t parse_request(uint64_t x);
FRAME uint64_t parse_request(uint64_t x)
{
	WORK(2)
	return x;
}
FRAME uint64_t find_user(uint64_t x, int times);
FRAME uint64_t find_user(uint64_t x, int times)
{
	WORK(times)
	return x;
}
FRAME uint64_t write_reply(uint64_t x);
FRAME uint64_t write_reply(uint64_t x)
{
	WORK(5)
	return x;
}

int main(int argc, char **argv)
{
	const int times = argc > 1 && !strcmp(argv[1], "new") ? 4 : 1;
	uint64_t x = 1;

	while (cpu_now() < 3 * SEC)
		x = write_reply(find_user(parse_request(x), times));
	printf("%s\n", x ? "served" : "");
	return 0;
}

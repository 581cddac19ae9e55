/*
 * pingpong SECONDS - two threads on one CPU that pass a byte to each other over pipes, about 50,000 switches a second,
 * each of them at work in between. One waits in three functions: while the other works shortly (wait_short, 6 of 10
 * times), longer (wait_medium, 3 of 10) and long (wait_long). It prints how many times a second the byte came back,
 * behind the first 1.5 s, and the seconds that the one was on no CPU, in all and in each function, by its own clocks:
 *
 *	rounds 24000 off 3.210 wait_short 1.400 wait_medium 1.000 wait_long 0.810
 */
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

#define WARM (3 * SEC / 2)
#define BATCH 1 /* rounds from clock to clock */

static int to[2], from[2];

static int64_t wall_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

static void work(int loops)
{
	uint64_t x = (uint64_t)loops | 1;
	for (int i = 0; i < loops; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		__asm__ volatile("" : "+r"(x));
	}
}

static void *other(void *arg)
{
	unsigned char loops;
	while (read(to[0], &loops, 1) == 1) {
		work(loops * 150);
		if (write(from[1], &loops, 1) != 1)
			exit(2);
	}
	return NULL;
}

static inline __attribute__((always_inline)) void rounds(unsigned char loops)
{
	unsigned char c;
	for (int i = 0; i < BATCH; i++) {
		work(5000);
		if (write(to[1], &loops, 1) != 1 || read(from[0], &c, 1) != 1)
			exit(2);
	}
}

FRAME void wait_short(void);
FRAME void wait_short(void)
{
	rounds(60);
	__asm__ volatile("");
}

FRAME void wait_medium(void);
FRAME void wait_medium(void)
{
	rounds(120);
	__asm__ volatile("");
}

FRAME void wait_long(void);
FRAME void wait_long(void)
{
	rounds(240);
	__asm__ volatile("");
}

static struct {
	const char *name;
	void (*run)(void);
	int64_t off;
} places[] = {{"wait_short", wait_short, 0}, {"wait_medium", wait_medium, 0}, {"wait_long", wait_long, 0}};

int main(int argc, char **argv)
{
	int64_t start = wall_now(), end = start + cpu_arg(argc, argv, 1, "5"), counted = 0, since = 0;
	cpu_set_t one;
	pthread_t thread;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	if (pipe(to) < 0 || pipe(from) < 0 || pthread_create(&thread, NULL, other, NULL) != 0)
		return 2;
	for (unsigned i = 0; wall_now() < end; i++) {
		unsigned which = i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2;
		int64_t wall = wall_now(), cpu = cpu_now();
		places[which].run();
		places[which].off += wall_now() - wall - (cpu_now() - cpu);
		if (wall < start + WARM)
			continue;
		since = since ? since : wall;
		counted += BATCH;
	}
	double seconds = (double)(wall_now() - since) / SEC, off = 0;
	for (unsigned i = 0; i < 3; i++)
		off += (double)places[i].off / SEC;
	printf("rounds %.0f off %.3f", (double)counted / seconds, off);
	for (unsigned i = 0; i < 3; i++)
		printf(" %s %.3f", places[i].name, (double)places[i].off / SEC);
	printf("\n");
	return 0;
}

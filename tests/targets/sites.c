/*
 * sites - allocates at ten places, the next one twice as much as the last, and knows how much:
 * `sites ROUNDS KEEP SIZE PAUSE LAST`.
 *
 * Each round takes 1, 2, 4, ... 512 objects of SIZE bytes and frees them; every KEEP-th round (0: none) those of the
 * last place stay. PAUSE: us from round to round. Then it says, by place, the bytes that it took and those that it
 * still has, and sleeps for LAST seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITES 10

static unsigned long taken[SITES], kept[SITES];
static void *volatile sink;

#define SITE(n)                                                                                                        \
	__attribute__((noinline)) void *site_##n(size_t size)                                                          \
	{                                                                                                              \
		void *p = malloc(size);                                                                                \
		sink = p;                                                                                              \
		taken[n] += size;                                                                                      \
		return p;                                                                                              \
	}
SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)
SITE(8)
SITE(9)

static void *(*const sites[SITES])(size_t) = {
	site_0, site_1, site_2, site_3, site_4, site_5, site_6, site_7, site_8, site_9};

static void *free_all(void *list)
{
	void **p = list;
	for (int i = 0; p[i]; i++)
		free(p[i]);
	return NULL;
}

/* By another thread than the one that took them, each second time. */
static void give_back(void **list, unsigned long round)
{
	pthread_t other;
	if (round % 64 == 0 && pthread_create(&other, NULL, free_all, list) == 0)
		pthread_join(other, NULL);
	else
		free_all(list);
}

int main(int argc, char **argv)
{
	static void *list[(1 << SITES) + 1];
	const unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000,
			    keep = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	const size_t size = argc > 3 ? strtoul(argv[3], NULL, 10) : 1000;
	const useconds_t pause_us = argc > 4 ? (useconds_t)strtoul(argv[4], NULL, 10) : 0;
	for (unsigned long round = 1; round <= rounds; round++) {
		size_t n = 0;
		for (int s = 0; s < SITES; s++)
			for (int i = 0; i < 1 << s; i++) {
				void *p = sites[s](size);
				memset(p, 1, size < 64 ? size : 64);
				if (keep && s == SITES - 1 && round % keep == 0)
					kept[s] += size;
				else
					list[n++] = p;
			}
		list[n] = NULL;
		give_back(list, round);
		if (pause_us)
			usleep(pause_us);
	}
	for (int s = 0; s < SITES; s++)
		printf("site_%d %lu %lu\n", s, taken[s], kept[s]);
	fflush(stdout);
	if (argc > 5)
		sleep((unsigned)strtoul(argv[5], NULL, 10));
	return 0;
}

/*
 * shape SECONDS - a stack of known shape. Two threads, "left" and "right", of SECONDS CPU time each; both go down
 * level_01 … level_39 and end in leaf_a or leaf_b, the 40th call, whose CPU times are 3 : 1. Built without frame
 * pointers. The true times are printed at the end.
 */
#include <pthread.h>

#include "tests/targets/cpu.h"

struct worker {
	const char *name;
	int64_t goal, a, b;
	uint32_t random;
};

FRAME int64_t leaf_a(int64_t nsec);
FRAME int64_t leaf_b(int64_t nsec);

FRAME int64_t leaf_a(int64_t nsec)
{
	return cpu_spin(nsec);
}
FRAME int64_t leaf_b(int64_t nsec)
{
	return cpu_spin(nsec);
}

/* The empty asm behind the call is why it is a call and no jump. */
#define LEVEL(n, down)                                                                                                 \
	FRAME int64_t level_##n(int which, int64_t nsec);                                                              \
	FRAME int64_t level_##n(int which, int64_t nsec)                                                               \
	{                                                                                                              \
		int64_t used = down;                                                                                   \
                                                                                                                       \
		__asm__ volatile("" : "+r"(used));                                                                     \
		return used;                                                                                           \
	}
#define CALL(n, m) LEVEL(n, level_##m(which, nsec))
/* clang-format off */
LEVEL(39, which ? leaf_b(nsec) : leaf_a(nsec))
CALL(38, 39) CALL(37, 38) CALL(36, 37) CALL(35, 36) CALL(34, 35) CALL(33, 34) CALL(32, 33) CALL(31, 32)
CALL(30, 31) CALL(29, 30) CALL(28, 29) CALL(27, 28) CALL(26, 27) CALL(25, 26) CALL(24, 25) CALL(23, 24)
CALL(22, 23) CALL(21, 22) CALL(20, 21) CALL(19, 20) CALL(18, 19) CALL(17, 18) CALL(16, 17) CALL(15, 16)
CALL(14, 15) CALL(13, 14) CALL(12, 13) CALL(11, 12) CALL(10, 11) CALL(09, 10) CALL(08, 09) CALL(07, 08)
CALL(06, 07) CALL(05, 06) CALL(04, 05) CALL(03, 04) CALL(02, 03) CALL(01, 02)
	/* clang-format on */

	/*
	 * Turns of 1.5 to 4.5 ms in leaf_a, each followed by what leaf_b then lacks to a third of it. The lengths vary
	 * (the same way in every run) so that no sampling period can fall into step with them.
	 */
	static void *work(void *arg)
{
	struct worker *w = arg;

	pthread_setname_np(pthread_self(), w->name);
	while (w->a + w->b < w->goal) {
		w->random = w->random * 1664525 + 1013904223;
		w->a += level_01(0, 3 * MSEC / 2 + (int64_t)(w->random >> 16) * 3 * MSEC / 65536);
		if (w->b < w->a / 3)
			w->b += level_01(1, w->a / 3 - w->b);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int64_t goal = cpu_arg(argc, argv, 1, "2");
	struct worker w[] = {{"left", goal, 0, 0, 1}, {"right", goal, 0, 0, 2}};
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, work, &w[i]))
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < 2; i++)
		printf("%s leaf_a %lld leaf_b %lld ns\n", w[i].name, (long long)w[i].a, (long long)w[i].b);
	printf("total leaf_a %lld leaf_b %lld ns\n", (long long)(w[0].a + w[1].a), (long long)(w[0].b + w[1].b));
	return 0;
}

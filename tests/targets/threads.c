/* threads COUNT SECONDS - COUNT threads (1 to 1000, named w-0, w-1, …) that burn SECONDS of CPU time in thread_work
 * each. */
#include <pthread.h>

#include "tests/targets/cpu.h"

static int64_t nsec;

FRAME int64_t thread_work(int64_t spin);

FRAME int64_t thread_work(int64_t spin)
{
	return cpu_spin(spin);
}

static void *work(void *arg)
{
	char name[16];

	snprintf(name, sizeof(name), "w-%d", (int)(intptr_t)arg);
	pthread_setname_np(pthread_self(), name);
	thread_work(nsec);
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t thread[1000];
	long count = argc > 1 ? strtol(argv[1], NULL, 10) : 4;

	nsec = cpu_arg(argc, argv, 2, "0.5");
	if (count < 1 || count > 1000) {
		fprintf(stderr, "%s: between 1 and 1000 threads\n", argv[0]);
		return 2;
	}
	for (long i = 0; i < count; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(intptr_t)i))
			return 1;
	for (long i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	printf("threads %ld\n", count);
	return 0;
}

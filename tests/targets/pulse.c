/*
 * pulse PERCENT [THREADS [FILE]] - each of THREADS threads (1) uses PERCENT of a CPU's time in pulse_work, 2 ms at a
 * time, until there is FILE, or SIGTERM; then it prints the CPU time of all of them in seconds. For rows that want a
 * program to be profiled, and no CPU to be busy.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

#define BURST (2 * MSEC)
#define THREADS_MAX 64

static long percent;
static const char *file;
static volatile sig_atomic_t ended;

FRAME int64_t pulse_work(int64_t nsec);

FRAME int64_t pulse_work(int64_t nsec)
{
	return cpu_spin(nsec);
}

static void end(int sig)
{
	ended = 1;
}

static void *work(void *arg)
{
	while (!ended && (!file || access(file, F_OK) < 0)) {
		int64_t rest = pulse_work(BURST) * (100 - percent) / percent;
		struct timespec t = {rest / SEC, rest % SEC};
		nanosleep(&t, NULL);
	}
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS_MAX];
	struct timespec before, used;
	long n = argc > 2 ? strtol(argv[2], NULL, 10) : 1;

	percent = argc > 1 ? strtol(argv[1], NULL, 10) : 20;
	file = argc > 3 ? argv[3] : NULL;
	if (percent < 1 || percent > 100 || n < 1 || n > THREADS_MAX) {
		fprintf(stderr, "usage: pulse PERCENT [THREADS [FILE]]\n");
		return 2;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before); /* as whatever became this program */
	signal(SIGTERM, end);
	for (long i = 1; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, NULL) != 0)
			return 1;
	work(NULL);
	for (long i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	int64_t ns = (used.tv_sec - before.tv_sec) * SEC + used.tv_nsec - before.tv_nsec;
	printf("%.3f\n", (double)ns / SEC);
	return 0;
}

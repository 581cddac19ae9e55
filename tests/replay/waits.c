/*
 * waits - 0.3 s asleep in wait_sleep, then 0.2 s for a lock in wait_lock, in two threads, and 0.1 s of CPU time in
 * work_cpu.
 */
#include <pthread.h>

#include "tests/targets/cpu.h"

FRAME void wait_sleep(long nsec);
FRAME void wait_lock(pthread_mutex_t *m);
FRAME int64_t work_cpu(int64_t nsec);

FRAME void wait_sleep(long nsec)
{
	cpu_spin(30 * MSEC); /* a plain user's profile has waits where the thread was seen last */
	nanosleep(&(struct timespec){0, nsec}, NULL);
	__asm__ volatile("" ::: "memory");
}

FRAME void wait_lock(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	pthread_mutex_unlock(m);
}

FRAME int64_t work_cpu(int64_t nsec)
{
	return cpu_spin(nsec);
}

static void *waiter(void *m)
{
	wait_lock(m);
	return NULL;
}

int main(void)
{
	static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[2];
	wait_sleep(300 * MSEC);
	pthread_mutex_lock(&m);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, waiter, &m))
			return 1;
	nanosleep(&(struct timespec){0, 200 * MSEC}, NULL);
	pthread_mutex_unlock(&m);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return work_cpu(100 * MSEC) < 0;
}

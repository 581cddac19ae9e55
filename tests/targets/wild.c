/*
 * wild MODE SECONDS - a program that does nothing but one thing, as fast as it can:
 *
 *	fork	processes that fork, each of them, until there may be no more (give it a pids cgroup), and go on when
 *		others have ended
 *	maps	maps its own program executable at another address each time, and unmaps it: a million times
 *	rename	four threads that give themselves new names
 *	exec	runs itself again and again
 *	churn	threads that end at once
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

#define MAPS 1000000
#define THREADS 4

static int64_t end;

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

static int wild_fork(void)
{
	signal(SIGCHLD, SIG_IGN); /* nobody is waited for */
	while (now() < end)
		if (fork() < 0)
			cpu_spin(MSEC / 10);
	return 0;
}

static int wild_maps(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	char *room = mmap(NULL, 1ul << 34, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fd < 0 || room == MAP_FAILED)
		return 1;
	for (long i = 0; i < MAPS; i++) {
		char *at = room + (i * 2 % (1l << 20)) * 4096;
		if (mmap(at, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
			return 1;
		munmap(at, 4096);
	}
	return 0;
}

static void *rename_self(void *arg)
{
	char name[16];
	for (unsigned i = 0; now() < end; i++) {
		snprintf(name, sizeof(name), "n-%d-%u", (int)(intptr_t)arg, i);
		prctl(PR_SET_NAME, name);
	}
	return NULL;
}

static int wild_rename(void)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, rename_self, (void *)(intptr_t)i))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int wild_exec(char *name)
{
	char text[32];
	snprintf(text, sizeof(text), "%lld", (long long)end);
	if (now() < end)
		execl("/proc/self/exe", name, "exec", "0", text, (char *)NULL);
	return now() < end;
}

static void *nothing(void *arg)
{
	return arg;
}

static int wild_churn(void)
{
	pthread_t t;
	while (now() < end)
		if (pthread_create(&t, NULL, nothing, NULL) == 0)
			pthread_join(t, NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	end = argc > 3 ? atoll(argv[3]) : now() + cpu_arg(argc, argv, 2, "1");
	if (!strcmp(mode, "fork"))
		return wild_fork();
	if (!strcmp(mode, "maps"))
		return wild_maps();
	if (!strcmp(mode, "rename"))
		return wild_rename();
	if (!strcmp(mode, "exec"))
		return wild_exec(argv[0]);
	if (!strcmp(mode, "churn"))
		return wild_churn();
	fprintf(stderr, "usage: %s fork|maps|rename|exec|churn SECONDS\n", argv[0]);
	return 2;
}

/*
 * phases [PART] - computes, sleeps, wants a lock that another thread has, plays ping-pong over pipes and uses memory
 * for the first time, one after the other: PART (1) times 2 s, 3 s, 1 s, 1 s and 1 s of CPU time or of the clock. It
 * computes for 40 ms before it sleeps: a clock of 99 Hz sees it there. Prints for each phase the seconds that its
 * threads spent on a CPU and on none, by their own clocks:
 *
 *	phase_sleep cpu 0.040 off 3.000
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

static int64_t clock_of(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

struct spent {
	int64_t cpu, wall;
};
static struct spent spent_by(void)
{
	return (struct spent){cpu_now(), clock_of(CLOCK_MONOTONIC)};
}
static void spend(struct spent *sum, struct spent since)
{
	struct spent now = spent_by();
	sum->cpu += now.cpu - since.cpu;
	sum->wall += now.wall - since.wall;
}

struct phase {
	int64_t length;
	pthread_mutex_t lock;
	int ping[2], pong[2];
	struct spent other;
};

/* --- one thread */

FRAME void phase_cpu(struct phase *p);
FRAME void phase_cpu(struct phase *p)
{
	cpu_spin(p->length);
	__asm__ volatile("");
}

FRAME void phase_sleep(struct phase *p);
FRAME void phase_sleep(struct phase *p)
{
	struct timespec t = {p->length / SEC, p->length % SEC};
	cpu_spin(40 * MSEC);
	nanosleep(&t, NULL);
	__asm__ volatile("");
}

FRAME void phase_faults(struct phase *p);
FRAME void phase_faults(struct phase *p)
{
	enum { PAGES = 1024 };
	for (int64_t start = cpu_now(); cpu_now() - start < p->length;) {
		char *m = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int i = 0; m != MAP_FAILED && i < PAGES; i++)
			m[i * 4096] = 1;
		munmap(m, PAGES * 4096);
	}
}

/* --- two threads */

/* Each has it for 10 ms while the other one wants it. */
FRAME void lock_turns(struct phase *p);
FRAME void lock_turns(struct phase *p)
{
	int64_t end = clock_of(CLOCK_MONOTONIC) + p->length;
	while (clock_of(CLOCK_MONOTONIC) < end) {
		pthread_mutex_lock(&p->lock);
		cpu_spin(10 * MSEC);
		pthread_mutex_unlock(&p->lock);
		usleep(100);
	}
}

static void *lock_thread(void *arg)
{
	struct phase *p = arg;
	struct spent start = spent_by();
	lock_turns(p);
	spend(&p->other, start);
	return NULL;
}

FRAME void phase_lock(struct phase *p);
FRAME void phase_lock(struct phase *p)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, lock_thread, p) != 0)
		exit(2);
	lock_turns(p);
	pthread_join(thread, NULL);
}

FRAME void ping(struct phase *p);
FRAME void ping(struct phase *p)
{
	char c = 0;
	int64_t end = clock_of(CLOCK_MONOTONIC) + p->length;
	while (clock_of(CLOCK_MONOTONIC) < end)
		if (write(p->ping[1], &c, 1) != 1 || read(p->pong[0], &c, 1) != 1)
			exit(2);
	close(p->ping[1]);
}

FRAME void pong(struct phase *p);
FRAME void pong(struct phase *p)
{
	char c;
	while (read(p->ping[0], &c, 1) == 1)
		if (write(p->pong[1], &c, 1) != 1)
			exit(2);
}

static void *pong_thread(void *arg)
{
	struct phase *p = arg;
	struct spent start = spent_by();
	pong(p);
	spend(&p->other, start);
	return NULL;
}

FRAME void phase_pipe(struct phase *p);
FRAME void phase_pipe(struct phase *p)
{
	pthread_t thread;
	if (pipe(p->ping) < 0 || pipe(p->pong) < 0 || pthread_create(&thread, NULL, pong_thread, p) != 0)
		exit(2);
	ping(p);
	pthread_join(thread, NULL);
}

/* ---------------------------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(struct phase *p);
	int64_t seconds;
} phases[] = {
	{"phase_cpu", phase_cpu, 2},
	{"phase_sleep", phase_sleep, 3},
	{"phase_lock", phase_lock, 1},
	{"phase_pipe", phase_pipe, 1},
	{"phase_faults", phase_faults, 1},
};

int main(int argc, char **argv)
{
	int64_t part = cpu_arg(argc, argv, 1, "1");
	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++) {
		struct phase p = {.length = part * phases[i].seconds, .lock = PTHREAD_MUTEX_INITIALIZER};
		struct spent own = {0}, start = spent_by();
		phases[i].run(&p);
		spend(&own, start);
		own.cpu += p.other.cpu;
		own.wall += p.other.wall;
		printf("%s cpu %.6f off %.6f\n", phases[i].name, (double)own.cpu / SEC,
			(double)(own.wall - own.cpu) / SEC);
	}
	return 0;
}

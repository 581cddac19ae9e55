/*
 * churn RATE MS SECONDS FILE - a process that is all coming and going: RATE threads a second begin (each names itself
 * c-N), burn MS milliseconds of CPU time in churn_work and end, each made by the one before, for SECONDS. Ten times a
 * second a line "time cpu counted" goes to FILE, in ns: CLOCK_REALTIME, the CPU time of the whole process so far, and
 * as much of it as a perf counter of its own has seen (-1 without one; no event sees all of a thread's beginning and
 * end).
 */
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

static long rate, count;
static int64_t nsec, end;
static FILE *out;

FRAME int64_t churn_work(int64_t spin);

FRAME int64_t churn_work(int64_t spin)
{
	return cpu_spin(spin);
}

static int64_t now(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

struct line {
	int64_t time, cpu, counted;
};

static int open_counter(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK, .inherit = 1};
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int64_t counted(int fd)
{
	int64_t value;
	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : -1;
}

/* All at one time, to 100 us: where the CPU was taken away in between, it is asked again. */
static struct line look(int counter)
{
	struct line l;
	int64_t after;
	int tries = 0;
	do {
		l.time = now(CLOCK_REALTIME);
		l.cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		l.counted = counted(counter);
		after = now(CLOCK_REALTIME);
	} while (after - l.time > 100000 && ++tries < 100);
	return l;
}

static void pause_ns(int64_t ns)
{
	struct timespec ts = {ns / 1000000000, ns % 1000000000};
	nanosleep(&ts, NULL);
}

static void *work(void *arg)
{
	char name[16];
	pthread_t next;
	long n = (long)(intptr_t)arg;

	snprintf(name, sizeof(name), "c-%ld", n % 1000);
	pthread_setname_np(pthread_self(), name);
	pause_ns(1000000000 / rate);
	if (now(CLOCK_MONOTONIC) < end) {
		if (pthread_create(&next, NULL, work, (void *)(intptr_t)(n + 1)) == 0)
			pthread_detach(next);
	}
	churn_work(nsec);
	__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t first;
	rate = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	nsec = (int64_t)(argc > 2 ? strtod(argv[2], NULL) * 1e6 : 0);
	double seconds = argc > 3 ? strtod(argv[3], NULL) : 0;
	out = argc > 4 ? fopen(argv[4], "w") : NULL;
	if (rate < 1 || rate > 100000 || nsec < 0 || seconds <= 0 || !out) {
		fprintf(stderr, "usage: %s RATE MS SECONDS FILE\n", argv[0]);
		return 2;
	}
	int counter = open_counter();
	end = now(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);
	if (pthread_create(&first, NULL, work, NULL))
		return 1;
	while (now(CLOCK_MONOTONIC) < end + 200000000) {
		const struct line l = look(counter);
		fprintf(out, "%lld %lld %lld\n", (long long)l.time, (long long)l.cpu, (long long)l.counted);
		fflush(out);
		pause_ns(100000000);
	}
	printf("threads %ld\n", count);
	return 0;
}

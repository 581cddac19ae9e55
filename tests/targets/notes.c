/*
 * notes N - what the kernel that runs answers to one of the eleven questions that another self-profiler's developers
 * wrote down, by an experiment with <pillion.h>: one line, "note N: question? answer (figures)". 77: it cannot be asked
 * here, and why. 3: an event cannot be had.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pillion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096
#define RING (64 * PAGE)
#define MANY 50

static _Noreturn void skip(const char *why)
{
	puts(why);
	exit(77);
}

static struct pillion_event *open_event(const struct pillion_event_spec *s, pid_t tid, int cpu, unsigned flags)
{
	struct pillion_event *e;
	const int r = pillion_event_open(s, tid, cpu, flags, &e);
	if (r < 0) {
		printf("no event: %d: %s\n", r, pillion_error());
		exit(3);
	}
	return e;
}

static void must(int r)
{
	if (r < 0) {
		printf("%d: %s\n", r, pillion_error());
		exit(3);
	}
}

static struct pillion_event *mapped(const struct pillion_event_spec *s, pid_t tid, int cpu, unsigned flags)
{
	struct pillion_event *e = open_event(s, tid, cpu, flags);
	must(pillion_event_map(e, RING));
	return e;
}

static const struct pillion_event_spec faults = {.size = sizeof(faults),
					       .type = PERF_TYPE_SOFTWARE,
					       .config = PERF_COUNT_SW_PAGE_FAULTS,
					       .period = 1,
					       .flags = PILLION_USER_ONLY},
				       dummy = {.size = sizeof(dummy),
					       .type = PERF_TYPE_SOFTWARE,
					       .config = PERF_COUNT_SW_DUMMY,
					       .flags = PILLION_USER_ONLY},
				       ticks = {.size = sizeof(ticks),
					       .type = PERF_TYPE_SOFTWARE,
					       .config = PERF_COUNT_SW_CPU_CLOCK,
					       .period = 1000000,
					       .flags = PILLION_USER_ONLY};

/* --- what is in a ring -------------------------------------------------------------------------------------- */

struct tally {
	unsigned samples, mmaps, forks, others; /* others: samples of another thread */
	uint64_t time;				/* of the last sample */
};

static void on_sample(void *arg, const struct pillion_record *r)
{
	struct tally *t = arg;
	t->samples++;
	t->others += r->tid != (uint32_t)getpid();
	t->time = r->time;
}
static void on_mmap(void *arg, const struct pillion_record *r)
{
	((struct tally *)arg)->mmaps++;
}
static void on_fork(void *arg, const struct pillion_record *r)
{
	((struct tally *)arg)->forks++;
}

static struct tally drain(struct pillion_event *e)
{
	struct tally t = {0};
	struct pillion_reader *r;
	const struct pillion_listener l = {
		.size = sizeof(l), .arg = &t, .sample = on_sample, .mmap = on_mmap, .fork = on_fork};
	must(pillion_reader_open(&l, 1, 1, &r));
	must(pillion_reader_add(r, e));
	must(pillion_reader_stop(r)); /* what is there, and no more */
	must(pillion_reader_run(r));
	pillion_reader_close(r);
	return t;
}

/* --- what a thread does ------------------------------------------------------------------------------------- */

static void *fault(void *arg)
{
	char *at = mmap(NULL, MANY * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(at, MANY * PAGE, MADV_NOHUGEPAGE);
	for (int i = 0; i < MANY; i++)
		*(volatile char *)(at + i * PAGE) = 1;
	munmap(at, MANY * PAGE);
	return NULL;
}

static void *map_code(void *arg)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	munmap(mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), PAGE);
	close(fd);
	return NULL;
}

static void *nothing(void *arg)
{
	return NULL;
}

static void *burn(void *arg)
{
	struct timespec t;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_nsec < 200000000 && !t.tv_sec);
	return NULL;
}

static void by_another(void *(*fn)(void *))
{
	pthread_t t;
	if (pthread_create(&t, NULL, fn, NULL))
		abort();
	pthread_join(t, NULL);
}

static void *map_and_fork(void *arg)
{
	map_code(NULL);
	by_another(nothing);
	return NULL;
}

static void pin(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		skip("this thread may not be on that CPU");
}

static int here(void)
{
	const int cpu = sched_getcpu();
	pin(cpu);
	return cpu;
}

static int files(void)
{
	int n = 0;
	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* --- the notes ---------------------------------------------------------------------------------------------- */

static uint64_t tracepoint_id(const char *name)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	for (size_t i = 0; i < 2; i++) {
		char path[200];
		unsigned long id;
		snprintf(path, sizeof(path), "%s/events/%s/id", places[i], name);
		FILE *f = fopen(path, "r");
		const bool well = f && fscanf(f, "%lu", &id) == 1;
		if (f)
			fclose(f);
		if (well)
			return id;
	}
	skip("tracefs is not there, or not for this user");
}

static void *switch_often(void *arg)
{
	for (int i = 0; i < MANY; i++)
		usleep(1);
	return NULL;
}

static struct pillion_event_spec switches(void)
{
	return (struct pillion_event_spec){.size = sizeof(struct pillion_event_spec),
		.type = PERF_TYPE_TRACEPOINT,
		.config = tracepoint_id("sched/sched_switch"),
		.period = 1};
}

static void note_1(void)
{
	const struct pillion_event_spec s = switches();
	struct pillion_event *e = mapped(&s, 0, -1, 0);
	by_another(switch_often);
	const unsigned others = drain(e).samples;
	switch_often(NULL);
	const unsigned own = drain(e).samples;
	printf("are tracepoints per thread? %s (another thread's %u, its own %u)\n",
		others < MANY / 2 && own >= MANY / 2 ? "yes" : "no", others, own);
}

static void note_2(void)
{
	struct pillion_event *e = mapped(&dummy, 0, -1, 0);
	by_another(map_and_fork);
	const struct tally other = drain(e);
	map_and_fork(NULL);
	const struct tally own = drain(e);
	printf("are mmap and task records of the process, or per thread? %s (another thread's: %u mmap, %u fork; its "
	       "own: %u, %u)\n",
		other.mmaps <= 1 && other.forks <= 1 && own.mmaps && own.forks ? "per thread" : "of the process",
		other.mmaps, other.forks - 1, own.mmaps, own.forks);
}

static void note_3(void)
{
	const int cpu = here();
	struct pillion_event *ring = mapped(&dummy, 0, cpu, 0), *e = open_event(&faults, 0, cpu, 0);
	must(pillion_event_redirect(e, ring));
	fault(NULL);
	map_code(NULL);
	const struct tally t = drain(ring);
	printf("can mmap records and samples go to one buffer of a CPU? %s (%u mmap, %u samples)\n",
		t.mmaps && t.samples >= MANY ? "yes" : "no", t.mmaps, t.samples);
}

static void note_4(void)
{
	const int before = files();
	struct pillion_event *e = mapped(&faults, 0, -1, 0);
	must(pillion_event_close_fd(e));
	const int after = files();
	fault(NULL);
	printf("does open, mmap, close keep the descriptor? %s (descriptors %d and %d; samples afterwards %u)\n",
		after == before ? "no, and the event goes on" : "yes", before, after, drain(e).samples);
}

static void note_5(void)
{
	const int cpu = here();
	struct pillion_event *e = mapped(&faults, 0, cpu, PILLION_INHERIT);
	must(pillion_event_close_fd(e));
	by_another(fault);
	const struct tally t = drain(e);
	struct pillion_count c;
	must(pillion_event_read(e, &c));
	printf("does an event whose descriptor is closed still inherit? %s (a new thread's samples %u; value by its "
	       "page %llu)\n",
		t.others >= MANY ? "yes" : "no", t.others, (unsigned long long)c.value);
}

static void note_6(void)
{
	const int cpu = here();
	struct pillion_event *ring = mapped(&dummy, 0, cpu, 0), *e = open_event(&faults, 0, cpu, 0);
	must(pillion_event_redirect(e, ring));
	const int refused = pillion_event_close_fd(ring);
	close(pillion_event_fd(ring)); /* all the same */
	fault(NULL);
	const unsigned target = drain(ring).samples;
	close(pillion_event_fd(e));
	fault(NULL);
	const unsigned source = drain(ring).samples;
	printf("does forwarding work with closed descriptors? %s (the target's closed: %u samples; the source's: %u; "
	       "close_fd says %d)\n",
		source >= MANY ? "yes" : "no, not the source's", target, source, refused);
}

static void note_7(void)
{
	const int cpu = here();
	struct pillion_event *ring = mapped(&dummy, 0, cpu, 0), *e = open_event(&faults, 0, cpu, 0);
	must(pillion_event_redirect(e, ring));
	struct pollfd p = {.fd = pillion_event_fd(ring), .events = POLLIN};
	const int before = poll(&p, 1, 0);
	for (int i = 0; i < 100; i++) /* a ring calls when it is half full */
		fault(NULL);
	const int after = poll(&p, 1, 1000);
	printf("when A is forwarded to B, is it enough to poll B? %s (before %d, after %d)\n",
		!before && after == 1 ? "yes" : "no", before, after);
}

static void *disable(void *e)
{
	usleep(50000);
	must(pillion_event_disable(e));
	return NULL;
}

static void note_8(void)
{
	struct pillion_event *e = mapped(&faults, 0, -1, 0);
	struct pollfd p = {.fd = pillion_event_fd(e), .events = POLLIN};
	pthread_t t;
	pthread_create(&t, NULL, disable, e);
	const int n = poll(&p, 1, 300);
	pthread_join(t, NULL);
	fault(NULL);
	printf("does disabling wake who polls? %s (events %d)\n", n ? "yes" : "no", n);
}

static void note_9(void)
{
	struct pillion_event *e = mapped(&ticks, 0, -1, 0), *all;
	struct pillion_count c;
	by_another(burn);
	must(pillion_event_read(e, &c));
	const int wide = pillion_event_open(&ticks, -1, 0, 0, &all);
	printf("does the CPU clock need to be attached to each thread? %s (another thread burned 200 ms, this one's "
	       "clock says %llu us; "
	       "one of a whole CPU: %s)\n",
		c.value < 100000000 ? "yes" : "no", (unsigned long long)c.value / 1000,
		wide == 0 ? "may be had" : "is refused");
}

static void note_10(void)
{
	struct pillion_event *e = mapped(&ticks, 0, -1, PILLION_PERF_CLOCK), *f = mapped(&ticks, 0, -1, 0);
	struct pillion_count c;
	burn(NULL);
	must(pillion_event_read(e, &c));
	const uint64_t time = now(), perf = drain(e).time, monotonic = drain(f).time;
	const long long ahead = (long long)(time - monotonic);
	printf("does reading the CPU clock give the time? no, %llu us of use (CLOCK_MONOTONIC %llu, its last sample by "
	       "the kernel's clock "
	       "%llu, with clockid %llu: %s)\n",
		(unsigned long long)c.value / 1000, (unsigned long long)time, (unsigned long long)perf,
		(unsigned long long)monotonic,
		ahead > -1000000000 && ahead < 1000000000 ? "that is it" : "NOT THE TIME");
}

static void set_online(int cpu, bool up)
{
	char path[100];
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, up ? "1" : "0", 1) != 1)
		skip("a CPU cannot be taken offline here");
	close(fd);
}

static unsigned faults_on(int cpu, struct pillion_event *e)
{
	cpu_set_t before;
	sched_getaffinity(0, sizeof(before), &before);
	pin(cpu);
	fault(NULL);
	sched_setaffinity(0, sizeof(before), &before);
	return drain(e).samples;
}

static void note_11(void)
{
	if (sysconf(_SC_NPROCESSORS_CONF) < 2)
		skip("there is one CPU");
	struct pillion_event *early = mapped(&faults, 0, 1, 0);
	const unsigned before = faults_on(1, early);
	set_online(1, false);
	struct pillion_event *late;
	const int opened = pillion_event_open(&faults, 0, 1, 0, &late);
	if (opened == 0)
		must(pillion_event_map(late, RING));
	set_online(1, true);
	usleep(100000);
	const unsigned again = faults_on(1, early), first = opened == 0 ? drain(late).samples : 0;
	printf("does it work for a CPU that is offline, and does it go on when that comes? %s (before %u, after it was "
	       "away %u; opened while "
	       "it was away: %d, %u samples)\n",
		before >= MANY && again >= MANY && first >= MANY ? "yes" : "no", before, again, opened, first);
}

int main(int argc, char **argv)
{
	static void (*const notes[])(void) = {
		note_1, note_2, note_3, note_4, note_5, note_6, note_7, note_8, note_9, note_10, note_11};
	const int n = argc > 1 ? atoi(argv[1]) : 0;
	if (n < 1 || n > 11) {
		fprintf(stderr, "usage: notes 1..11\n");
		return 2;
	}
	printf("note %d: ", n);
	notes[n - 1]();
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle ROUNDS [CGROUP] - what disabled perf events cost those that carry them: the rungs of shim/event/perf_event.h
 * that do not count. Inherited, or of a cgroup (a directory of the perf_event hierarchy, made for this). Per CPU there
 * are no events, or a side-band and a sampling one with 0 to 3 disabled ones beside them; in turns, ROUNDS times.
 * Prints nanoseconds, the least and the median: for a switch between two processes that have them, between one that has
 * and one that has not (in a cgroup both have), for a thread's and for a process' creation and end.
 */
#include <fcntl.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX 101
#define WAYS 5 /* none, then 0 to 3 disabled ones */

enum what { SWITCH_BOTH, SWITCH_ONE, THREAD, PROCESS, WHATS };
static const char *const names[WHATS] = {"switch, both", "switch, one", "thread", "process"};
static const int times[WHATS] = {60000, 60000, 6000, 1500};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int open_event(int target, int cpu, uint64_t config, int disabled, unsigned long flags)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(a),
		.config = config,
		.sample_period = config == PERF_COUNT_SW_CPU_CLOCK ? 10101010 : 0,
		.disabled = disabled,
		.inherit = !flags,
		.task = config == PERF_COUNT_SW_DUMMY};
	long fd = syscall(SYS_perf_event_open, &a, target, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		die("perf_event_open");
	return (int)fd;
}

static void *nothing(void *arg)
{
	return arg;
}

static void echo(int in, int out)
{
	char c;
	while (read(in, &c, 1) == 1 && write(out, &c, 1) == 1)
		;
	_exit(0);
}

static void start_echo(int to[2], int from[2])
{
	if (fork() == 0) {
		close(to[1]);
		echo(to[0], from[1]);
	}
}

static void work(enum what what, int to[2], int from[2])
{
	for (int i = 0; i < times[what]; i++) {
		char c = 0;
		pthread_t t;
		if (what == THREAD && (pthread_create(&t, NULL, nothing, NULL) || pthread_join(t, NULL)))
			die("thread");
		if (what == PROCESS && fork() == 0)
			_exit(0);
		if (what == PROCESS && wait(NULL) < 0)
			die("fork");
		if (what < THREAD && (write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1))
			die("pipe");
	}
}

/* On one CPU, so that each message is a switch. Who is forked before the events are opened does not inherit them. */
static void carry(enum what what, int go, int result)
{
	int to[2], from[2];
	cpu_set_t one;
	char c;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(to) || pipe(from))
		die("set-up");
	if (what == SWITCH_ONE)
		start_echo(to, from);
	if (read(go, &c, 1) != 1)
		die("go");
	if (what == SWITCH_BOTH)
		start_echo(to, from);
	int64_t start = now();
	work(what, to, from);
	double each = (double)(now() - start) / times[what] / (what < THREAD ? 2 : 1);
	if (write(result, &each, sizeof(each)) != sizeof(each))
		die("result");
	_exit(0);
}

static void enter(const char *cgroup, pid_t pid)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	FILE *f = fopen(path, "w");
	if (!f || fprintf(f, "%d", (int)pid) < 0 || fclose(f))
		die(path);
}

static double measure(enum what what, int way, const char *cgroup)
{
	int go[2], result[2], n = 0, fds[(WAYS + 1) * 256];
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	double each;
	if (pipe(go) || pipe(result))
		die("pipe");
	pid_t pid = fork();
	if (pid == 0)
		carry(what, go[0], result[1]);
	if (cgroup)
		enter(cgroup, pid);
	int target = cgroup ? open(cgroup, O_RDONLY | O_CLOEXEC) : pid;
	for (int cpu = 0; way && cpu < cpus && cpu < 256; cpu++)
		for (int i = 0; i <= way; i++)
			fds[n++] = open_event(target, cpu, i ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY, i > 1,
				cgroup ? PERF_FLAG_PID_CGROUP : 0);
	if (write(go[1], "", 1) != 1 || read(result[0], &each, sizeof(each)) != sizeof(each))
		die("no result");
	while (n)
		close(fds[--n]);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(result[i]);
	}
	if (cgroup)
		close(target);
	waitpid(pid, NULL, 0);
	return each;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	static double all[WAYS][ROUNDS_MAX];
	int rounds = argc > 1 ? atoi(argv[1]) : 11;
	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 11;
	printf("%-14s %17s %17s %17s %17s %17s   ns: least, median\n", argc > 2 ? "cgroup" : "inherited", "no events",
		"0 disabled", "1", "2", "3");
	for (enum what what = 0; what < WHATS; what++) {
		for (int r = 0; r < rounds; r++)
			for (int way = 0; way < WAYS; way++)
				all[way][r] = measure(what, way, argc > 2 ? argv[2] : NULL);
		printf("%-14s", names[what]);
		for (int way = 0; way < WAYS; way++) {
			qsort(all[way], (size_t)rounds, sizeof(all[0][0]), by_size);
			printf(" %8.0f %8.0f", all[way][0], all[way][rounds / 2]);
		}
		printf("\n");
		fflush(stdout);
	}
	return 0;
}

/*
 * asks ACTION... - a program that asks for its own profile, and does what it is told, one after the other:
 *
 *	start[=EVENTS] stop		pillion_start(3), and what it says; pillion_stop(3)
 *	both=EVENTS			pillion_start by four threads at once
 *	work=SECONDS alloc=TIMES	in asks_work, in asks_alloc (of 1000 bytes each, freed)
 *	alloc_fails			64 TiB, which malloc(3) refuses
 *	label=KEY[=VALUE]		pillion_label_set(3)
 *	labels=TIMES			kind=a and kind=b in turn, so many times
 *	own=THREADS			so many at once, each of which works 0.2 s as kind=w0, w1, ...
 *	sleep=SECONDS close nofile=N subreaper
 *	delayed				how long the kernel let it wait for a CPU so far, in ms
 *	until=FILE			says so, and waits for it to be there
 *	fork join			both go on; the child ends here, and is waited for
 *	thread=ACTION			by a thread of its own, which ends
 *	exec				this program anew, which does the rest
 *	socket				PILLION_SOCKET
 *	tell				children that wait(2) sees, and SIGCHLDs that came (those of fork excepted)
 */
#include "shim/libpillion/pillion.h"
#include "tests/targets/cpu.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t came;
static int forked;

static void on_chld(int sig)
{
	came++;
}

static void start(const char *events)
{
	char error[320] = "", line[400];
	const struct pillion_start_options o = {.events = *events ? events : NULL};
	const int r = pillion_start(&o, error, sizeof(error));
	snprintf(line, sizeof(line), "start %d %s\n", r, error);
	if (write(1, line, strlen(line)) < 0)
		exit(3);
}

static void *start_in_thread(void *events)
{
	start(events);
	return NULL;
}

static void both(const char *events)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, start_in_thread, (void *)events);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

static void stop(const char *unused)
{
	printf("stop %d\n", pillion_stop());
}

FRAME void asks_work(const char *seconds)
{
	cpu_spin((int64_t)(strtod(seconds, NULL) * SEC));
}

FRAME void asks_alloc(const char *times)
{
	for (int i = 0, n = atoi(times); i < n; i++) {
		void *volatile p = malloc(1000);
		free(p);
	}
}

static void alloc_fails(const char *none)
{
	static const volatile size_t too_much = 1ull << 46;
	void *volatile p = malloc(too_much);
	if (p)
		puts("malloc has 64 TiB");
	free(p);
}

static void label(const char *pair)
{
	char key[256];
	const size_t n = strcspn(pair, "=");
	snprintf(key, sizeof(key), "%.*s", (int)n, pair);
	const int r = pillion_label_set(key, pair[n] ? pair + n + 1 : NULL);
	if (r < 0)
		printf("label %d\n", r);
}

static void many_labels(const char *times)
{
	for (int i = 0, n = atoi(times); i < n; i++)
		pillion_label_set("kind", i % 2 ? "b" : "a");
}

static void *work_as(void *number)
{
	char value[16];
	snprintf(value, sizeof(value), "w%d", (int)(intptr_t)number);
	pillion_label_set("kind", value);
	asks_work("0.2");
	asks_alloc("2000");
	return NULL;
}

static void own(const char *threads)
{
	pthread_t t[64];
	const int n = atoi(threads) < 64 ? atoi(threads) : 64;
	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, work_as, (void *)(intptr_t)i);
	for (int i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

static void nap(const char *seconds)
{
	usleep((useconds_t)(strtod(seconds, NULL) * 1e6));
}

static void close_all(const char *unused)
{
	fflush(stdout);
	for (int fd = 3; fd < 2048; fd++)
		close(fd);
}

static void tell_delay(const char *unused)
{
	unsigned long long used, delayed = 0;
	FILE *f = fopen("/proc/self/schedstat", "r");
	if (f && fscanf(f, "%llu %llu", &used, &delayed) == 2)
		printf("delayed %llu\n", delayed / 1000000);
	if (f)
		fclose(f);
}

static void wait_for(const char *file)
{
	printf("until %s\n", file);
	fflush(stdout);
	while (access(file, F_OK) < 0)
		usleep(5000);
}

/* All of them are taken but so many. */
static void limit_files(const char *left)
{
	const int fd = dup(0);
	struct rlimit l = {(rlim_t)(fd + atoi(left)), (rlim_t)(fd + atoi(left))};
	close(fd);
	setrlimit(RLIMIT_NOFILE, &l);
}

static void subreaper(const char *unused)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void do_fork(const char *unused)
{
	fflush(stdout);
	forked = fork() == 0 ? -1 : 1;
}

static void join(const char *unused)
{
	fflush(stdout);
	if (forked < 0)
		exit(0);
	if (wait(NULL) > 0)
		came--;
}

static void tell_socket(const char *unused)
{
	const char *path = getenv("PILLION_SOCKET");
	printf("socket %s\n", path ? path : "unset");
}

static void tell(const char *unused)
{
	errno = 0;
	const pid_t pid = waitpid(-1, NULL, WNOHANG);
	printf("children %d signals %d\n", pid < 0 && errno == ECHILD ? 0 : 1, (int)came);
}

static void in_thread(const char *action);

static const struct {
	const char *name;
	void (*fn)(const char *argument);
} actions[] = {{"start", start}, {"both", both}, {"stop", stop}, {"work", asks_work}, {"alloc", asks_alloc},
	{"alloc_fails", alloc_fails}, {"label", label}, {"labels", many_labels}, {"own", own}, {"sleep", nap},
	{"close", close_all}, {"nofile", limit_files}, {"subreaper", subreaper}, {"fork", do_fork}, {"join", join},
	{"thread", in_thread}, {"socket", tell_socket}, {"tell", tell}, {"delayed", tell_delay}, {"until", wait_for}};

static void act(const char *text)
{
	const size_t n = strcspn(text, "=");
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strlen(actions[i].name) == n && !strncmp(actions[i].name, text, n)) {
			actions[i].fn(text[n] ? text + n + 1 : "");
			return;
		}
	fprintf(stderr, "asks: %s is no action\n", text);
	exit(2);
}

static void *act_in_thread(void *action)
{
	act(action);
	return NULL;
}

static void in_thread(const char *action)
{
	pthread_t t;
	pthread_create(&t, NULL, act_in_thread, (void *)action);
	pthread_join(t, NULL);
}

int main(int argc, char **argv)
{
	signal(SIGCHLD, on_chld);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "exec")) {
			argv[i] = argv[0];
			fflush(stdout);
			execv("/proc/self/exe", argv + i);
			return 4;
		}
		act(argv[i]);
	}
	fflush(stdout);
	return 0;
}

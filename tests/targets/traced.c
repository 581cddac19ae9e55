/*
 * traced WAY [N] - compiled with -finstrument-functions: calls whose number is known, in one of the ways that calls and
 * returns can be out of step. What each way calls how often is what tests/integration/suite_tree.sh expects.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <ucontext.h>
#endif

#define CALL __attribute__((noinline)) static

CALL long fib(long n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
CALL void leaf(void)
{
	__asm__ volatile("");
}
CALL void after(void)
{
	leaf();
}

/* --- threads */

CALL void *worker(void *n)
{
	for (long i = 0; i < (long)n; i++)
		leaf();
	return NULL;
}
CALL void start_and_join(long n)
{
	pthread_t t;
	if (pthread_create(&t, NULL, worker, (void *)n) || pthread_join(t, NULL))
		exit(1);
}
CALL void threads(long n)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, worker, (void *)n))
			exit(1);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}
CALL void short_threads(long n)
{
	for (long i = 0; i < n; i++)
		start_and_join(3);
}

/* --- longjmp */

static jmp_buf back;
CALL void inner(int deep)
{
	if (deep)
		inner(deep - 1);
	else
		longjmp(back, 1);
}
CALL void middle(void)
{
	char room[200];
	__asm__ volatile("" ::"r"(room) : "memory");
	inner(3);
}
CALL void jumps(long n)
{
	for (volatile long i = 0; i < n; i++) {
		if (!setjmp(back))
			middle();
		after();
	}
}

/* --- signals */

CALL void on_signal(int sig)
{
	after();
}
CALL void signals(long n)
{
	static char other[65536];
	stack_t alt = {.ss_sp = other, .ss_size = sizeof(other)};
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	sigaltstack(&alt, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	for (long i = 0; i < n; i++) {
		raise(SIGUSR1);
		leaf();
	}
}

/* --- coroutines */

#ifdef __GLIBC__
#define COROUTINES 3
static ucontext_t scheduler, coroutines[COROUTINES];
static char stacks[COROUTINES][65536];
static int current;
CALL void yield(void)
{
	swapcontext(&coroutines[current], &scheduler);
}
CALL void resume(int i)
{
	current = i;
	swapcontext(&scheduler, &coroutines[i]);
}
CALL void step(void)
{
	yield();
	leaf();
}
CALL void coroutine(int n)
{
	for (int i = 0; i < n; i++)
		step();
}
CALL void coroutines_all(long n)
{
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&coroutines[i]);
		coroutines[i].uc_stack = (stack_t){.ss_sp = stacks[i], .ss_size = sizeof(stacks[i])};
		coroutines[i].uc_link = &scheduler;
		makecontext(&coroutines[i], (void (*)(void))coroutine, 1, (int)n);
	}
	for (long k = 0; k <= n; k++)
		for (int i = 0; i < COROUTINES; i++)
			resume(i);
	after();
}
#endif

/* --- a million frames */

CALL long down(long n)
{
	if (n == 0)
		return 0;
	long r = down(n - 1);
	leaf();
	return r + 1;
}
CALL void *deep(void *n)
{
	if (down((long)n) != (long)n)
		exit(1);
	after();
	return NULL;
}
CALL void deep_thread(long n)
{
	pthread_t t;
	pthread_attr_t a;
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 512u << 20);
	if (pthread_create(&t, &a, deep, (void *)n) || pthread_join(t, NULL))
		exit(1);
}

/* --- processes */

CALL void child_calls(long n)
{
	for (long i = 0; i < n; i++)
		after();
}
CALL void forks(long n)
{
	leaf();
	pid_t pid = fork();
	if (pid == 0) {
		child_calls(n);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		exit(1);
	printf("%d\n", (int)pid);
	leaf();
	for (long i = 0; i < n; i++) {
		pid = vfork();
		if (pid == 0)
			_exit(0);
		waitpid(pid, NULL, 0);
		after();
	}
}

CALL void fib_all(long n)
{
	printf("%ld\n", fib(n));
}
/* Now and then 1000 calls, for so many milliseconds, and how many they were so far */
CALL void steady(long n)
{
	for (long i = 0; i < n / 10; i++) {
		for (long k = 0; k < 1000; k++)
			leaf();
		printf("%ld\n", (i + 1) * 1000);
		fflush(stdout);
		usleep(10000);
	}
}
/* The same in another program, in this process */
CALL void again(long n)
{
	char text[32];
	steady(n);
	snprintf(text, sizeof(text), "%ld", n);
	execl("/proc/self/exe", "again", "steady", text, NULL);
	exit(1);
}
CALL void status(long n)
{
	exit((int)n);
}

static const struct {
	const char *way;
	void (*run)(long n);
} ways[] = {
	{"fib", fib_all},
	{"threads", threads},
	{"short", short_threads},
	{"longjmp", jumps},
	{"signals", signals},
	{"deep", deep_thread},
	{"forks", forks},
	{"status", status},
	{"steady", steady},
	{"again", again},
#ifdef __GLIBC__
	{"coroutines", coroutines_all},
#endif
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].way)) {
			ways[i].run(argc > 2 ? atol(argv[2]) : 0);
			return 0;
		}
	return 2;
}

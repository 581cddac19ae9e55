/*
 * oddalloc - programs that do to an allocator's profiler what programs do: `oddalloc MODE [N]`. Says "done MODE" at its
 * end, whatever libpillion made of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile sink;

static void churn(size_t bytes)
{
	for (size_t got = 0; got < bytes; got += 4000) {
		void *p = malloc(4000);
		if (!p)
			return;
		sink = memset(p, 1, 16);
		free(p);
	}
}

__attribute__((noinline)) static void hold(size_t bytes)
{
	for (size_t got = 0; got < bytes; got += 4000)
		sink = malloc(4000);
}

/* All descriptors, then its own by the numbers that were ours: nothing of ours may end up in them. */
static int closes_all(int n)
{
	int sv[2], own[64];
	churn(64 << 20);
	for (int fd = 3; fd < 1100; fd++)
		close(fd);
	for (int i = 0; i < 64; i++) {
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, sv) < 0)
			return 1;
		own[i] = sv[0];
		for (int fd = 1000 + i; fd < 1024; fd += 64)
			dup2(sv[1], fd);
	}
	churn(64 << 20);
	for (int i = 0; i < 64; i++) {
		char byte[16];
		if (read(own[i], byte, sizeof(byte)) >= 0)
			return 1;
	}
	return 0;
}

static int strict(int n)
{
	churn(64 << 20);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) < 0)
		return 1;
	for (int i = 0; i < 20000; i++) { /* no brk, no mmap: what fits into what is there */
		void *p = malloc(2000);
		sink = p;
		free(p);
	}
	if (write(1, "done strict\n", 12) != 12)
		syscall(60, 1);
	syscall(60, 0);
	return 0;
}

static void *in_thread(void *arg)
{
	churn(8 << 20);
	return NULL;
}

static int threads(int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t t[8];
		for (int k = 0; k < 8; k++)
			if (pthread_create(&t[k], NULL, in_thread, NULL))
				return 1;
		for (int k = 0; k < 8; k++)
			pthread_join(t[k], NULL);
	}
	return 0;
}

static void *forever(void *arg)
{
	for (;;)
		churn(1 << 20);
	return NULL;
}

static int forks(int n)
{
	pthread_t t;
	for (int k = 0; k < 2; k++)
		pthread_create(&t, NULL, forever, NULL);
	for (int i = 0; i < n; i++) {
		pid_t child = i % 4 == 3 ? vfork() : fork();
		if (child == 0) {
			if (i % 4 != 3)
				churn(1 << 20);
			_exit(i % 100);
		}
		int status;
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
			WEXITSTATUS(status) != i % 100)
			return 1;
	}
	return waitpid(-1, NULL, 0) == -1 && errno == ECHILD ? 0 : 1;
}

static sigjmp_buf out;
static volatile sig_atomic_t ticks;
static void on_jump(int sig)
{
	ticks++;
	siglongjmp(out, 1);
}

/* Handlers that allocate while we are at it: of memory of their own, as glibc's malloc(3) is locked then. */
static int handlers(int n)
{
	struct sigaction a = {.sa_handler = on_jump, .sa_flags = SA_NODEFER};
	struct itimerval every = {{0, 1000}, {0, 1000}};
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (ticks < n)
		if (sigsetjmp(out, 1) == 0)
			for (;;)
				free(NULL); /* of libpillion nothing else: libc's own would not bear it */
	every = (struct itimerval){0};
	setitimer(ITIMER_REAL, &every, NULL);
	churn(64 << 20);
	return 0;
}

static int limited(int n)
{
	struct rlimit none = {1 << 20, 1 << 20}, small = {64, 64};
	setrlimit(RLIMIT_FSIZE, &none);
	setrlimit(RLIMIT_NOFILE, &small);
	if (fork() == 0) { /* begins anew, with no room for its area */
		churn(64 << 20);
		_exit(0);
	}
	int status;
	wait(&status);
	return status;
}

static int killed(int n)
{
	pthread_t t;
	for (int k = 0; k < 3; k++)
		pthread_create(&t, NULL, forever, NULL);
	usleep((useconds_t)n);
	kill(getpid(), SIGKILL);
	return 1;
}

static int holds(int n)
{
	hold((size_t)n << 20);
	printf("held\n");
	fflush(stdout);
	for (int i = 0; i < 600; i++) {
		churn(4 << 20);
		usleep(10000);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*run)(int n);
} modes[] = {{"closes", closes_all}, {"strict", strict}, {"threads", threads}, {"forks", forks}, {"handlers", handlers},
	{"limited", limited}, {"killed", killed}, {"holds", holds}};

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[2]) : 100;
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			int status = modes[i].run(n);
			printf("%s %s\n", status ? "FAILED" : "done", argv[1]);
			return status;
		}
	return 2;
}

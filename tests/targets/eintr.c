/*
 * eintr MODE [SECONDS] - looks at every answer of the system's while it computes: system calls that are interrupted,
 * dispositions and masks that it has not set, signals that nobody sent. Says what it saw, which is the same with a
 * profiler in it and without.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

#define WORK                                                                                                           \
	(300 * 1000) /* ns, before each call: the timer of the thread that calls is about to expire now and then       \
		      */

static int64_t length;

static int64_t wall_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

/* --- calls that wait */

static int do_nanosleep(void)
{
	return nanosleep(&(struct timespec){0, 2 * MSEC}, NULL);
}

static int do_clock_nanosleep(void)
{
	return -(errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){0, 2 * MSEC}, NULL));
}

static int do_poll(void)
{
	return poll(NULL, 0, 2);
}

static int do_ppoll(void)
{
	sigset_t none;
	sigemptyset(&none);
	return ppoll(NULL, 0, &(struct timespec){0, 2 * MSEC}, &none);
}

static int do_select(void)
{
	return select(0, NULL, NULL, NULL, &(struct timeval){0, 2000});
}

static int do_epoll(void)
{
	static __thread int fd;
	struct epoll_event e;
	fd = fd ? fd : epoll_create1(EPOLL_CLOEXEC);
	return epoll_wait(fd, &e, 1, 2);
}

static int do_futex(void)
{
	static int word;
	return (int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){0, 2 * MSEC}, NULL, 0);
}

static int do_sem(void)
{
	static __thread sem_t sem;
	static __thread bool made;
	struct timespec until;
	made = made || sem_init(&sem, 0, 0) == 0;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 2 * MSEC;
	until.tv_sec += until.tv_nsec / SEC;
	until.tv_nsec %= SEC;
	return sem_timedwait(&sem, &until);
}

static int do_semop(void)
{
	static __thread int id;
	struct sembuf down = {0, -1, 0};
	id = id ? id : semget(IPC_PRIVATE, 1, 0600);
	int r = semtimedop(id, &down, 1, &(struct timespec){0, 2 * MSEC}), saved = errno;
	semctl(id, 0, IPC_RMID);
	id = 0;
	errno = saved;
	return r;
}

static int do_recv(void)
{
	static __thread int pair[2];
	char c;
	if (!pair[1] && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
		setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 2000}, sizeof(struct timeval));
	return (int)recv(pair[0], &c, 1, 0);
}

static int do_pipe(void)
{
	static __thread int fd[2];
	char c = 0;
	if (!fd[1] && pipe(fd) < 0)
		return -1;
	return write(fd[1], &c, 1) == 1 && read(fd[0], &c, 1) == 1 ? 0 : -1;
}

static int do_sigtimedwait(void)
{
	sigset_t all;
	sigfillset(&all);
	return sigtimedwait(&all, NULL, &(struct timespec){0, 2 * MSEC});
}

static int do_msgrcv(void)
{
	struct {
		long type;
		char c;
	} m = {1, 0};
	int id = msgget(IPC_PRIVATE, 0600);
	int r = msgsnd(id, &m, 1, 0) == 0 && msgrcv(id, &m, 1, 0, 0) == 1 ? 0 : -1, saved = errno;
	msgctl(id, IPC_RMID, NULL);
	errno = saved;
	return r;
}

static const struct call {
	const char *name;
	int (*fn)(void);
} calls[] = {{"nanosleep", do_nanosleep}, {"clock_nanosleep", do_clock_nanosleep}, {"poll", do_poll},
	{"ppoll", do_ppoll}, {"select", do_select}, {"epoll_wait", do_epoll}, {"futex", do_futex},
	{"sem_timedwait", do_sem}, {"semtimedop", do_semop}, {"recv", do_recv}, {"pipe", do_pipe},
	{"sigtimedwait", do_sigtimedwait}, {"msgrcv", do_msgrcv}};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

static unsigned long made, interrupted;

static void *call_again(void *arg)
{
	const struct call *c = arg;
	for (int64_t end = wall_now() + length; wall_now() < end;) {
		cpu_spin(WORK);
		errno = 0;
		if (c->fn() < 0 && errno == EINTR) {
			printf("%s was interrupted\n", c->name);
			__atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
		}
		__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int waits(void)
{
	pthread_t t[CALLS];
	for (size_t i = 0; i < CALLS; i++)
		pthread_create(&t[i], NULL, call_again, (void *)&calls[i]);
	for (size_t i = 0; i < CALLS; i++)
		pthread_join(t[i], NULL);
	fprintf(stderr, "%lu calls\n", made);
	printf("interrupted %lu\n", interrupted);
	return interrupted != 0;
}

/* --- what it is told of signals */

static int mistakes;

static void expect(bool good, const char *what, int sig)
{
	if (!good)
		printf("unexpected: %s %d (%s)\n", what, sig, strerror(errno));
	mistakes += !good;
}

static bool is_libc(int sig)
{
	return sig >= 32 && sig <= 34;
}

static void all_default(void)
{
	struct sigaction a;
	for (int sig = 1; sig <= 64; sig++)
		if (!is_libc(sig) && sig != SIGPROF)
			expect(sigaction(sig, NULL, &a) == 0 && a.sa_handler == SIG_DFL, "a handler of", sig);
}

static void reset_all(void)
{
	struct sigaction a = {.sa_handler = SIG_DFL}, had;
	for (int sig = 1; sig <= 64; sig++)
		if (!is_libc(sig) && sig != SIGKILL && sig != SIGSTOP) {
			expect(sigaction(sig, &a, &had) == 0, "cannot reset", sig);
			expect(sig == SIGPROF || had.sa_handler == SIG_DFL, "had a handler of", sig);
			expect(signal(sig, SIG_DFL) == SIG_DFL, "signal(3) tells of", sig);
		}
}

static void mask_is(bool all)
{
	sigset_t now;
	expect(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0, "no mask", 0);
	for (int sig = 1; sig <= 64; sig++)
		if (!is_libc(sig) && sig != SIGKILL && sig != SIGSTOP)
			expect(sigismember(&now, sig) == all, all ? "not blocked:" : "blocked:", sig);
}

static void none_pending(void)
{
	sigset_t now;
	sigpending(&now);
	for (int sig = 1; sig <= 64; sig++)
		expect(!sigismember(&now, sig), "pending:", sig);
}

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	ticks++;
}

/* Its own profiler, as gprof(1) has one. */
static void use_sigprof(void)
{
	struct sigaction a = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 10000}, {0, 10000}};
	sigaction(SIGPROF, &a, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
	cpu_spin(length / 4);
	every = (struct itimerval){0};
	setitimer(ITIMER_PROF, &every, NULL);
	expect(ticks * 20 * MSEC >= length / 8, "ticks of SIGPROF:", ticks);
}

static void *in_thread(void *arg)
{
	mask_is(arg != NULL);
	cpu_spin(length / 8);
	none_pending();
	return NULL;
}

static void run_thread(bool all)
{
	pthread_t t;
	pthread_create(&t, NULL, in_thread, all ? &t : NULL);
	pthread_join(t, NULL);
}

static void wait_for_all(const sigset_t *all)
{
	struct signalfd_siginfo info;
	int got, fd = signalfd(-1, all, SFD_NONBLOCK | SFD_CLOEXEC);
	cpu_spin(length / 8);
	expect(read(fd, &info, sizeof(info)) < 0 && errno == EAGAIN, "signalfd(2) has", (int)info.ssi_signo);
	got = sigtimedwait(all, NULL, &(struct timespec){0, 20 * MSEC});
	expect(got < 0 && errno == EAGAIN, "sigtimedwait(2) has", got);
	kill(getpid(), SIGUSR1);
	expect(sigwait(all, &got) == 0 && got == SIGUSR1, "sigwait(3) has", got);
	kill(getpid(), SIGRTMIN + 5);
	got = sigwaitinfo(all, NULL);
	expect(got == SIGRTMIN + 5, "sigwaitinfo(2) has", got);
	close(fd);
}

static void block_all(void)
{
	sigset_t all, none;
	sigfillset(&all);
	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	mask_is(true);
	cpu_spin(length / 8);
	none_pending();
	expect(ppoll(NULL, 0, &(struct timespec){0, MSEC}, &none) == 0, "ppoll(2) came back", 0);
	wait_for_all(&all);
	run_thread(true);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	mask_is(false);
}

static int signals(void)
{
	all_default();
	mask_is(false);
	use_sigprof();
	run_thread(false);
	reset_all();
	cpu_spin(length / 8);
	all_default();
	block_all();
	cpu_spin(length / 8);
	printf("mistakes %d\n", mistakes);
	return mistakes;
}

/* --- the very signals that a profiler may have chosen */

static volatile sig_atomic_t seen[65];

static void on_any(int sig, siginfo_t *info, void *context)
{
	expect(info->si_code == SI_TKILL || info->si_code == SI_USER, "nobody sent", sig);
	seen[sig]++;
}

static int takes(void)
{
	struct sigaction a = {.sa_sigaction = on_any, .sa_flags = SA_SIGINFO | SA_RESTART}, had;
	for (int sig = SIGRTMAX; sig > SIGRTMAX - 5; sig--) {
		expect(sigaction(sig, &a, &had) == 0 && had.sa_handler == SIG_DFL, "had a handler of", sig);
		cpu_spin(length / 8);
		expect(seen[sig] == 0, "nobody sent", sig);
		raise(sig);
		expect(seen[sig] == 1, "not there:", sig);
		expect(sigaction(sig, NULL, &had) == 0 && had.sa_sigaction == on_any, "not ours:", sig);
	}
	a = (struct sigaction){.sa_handler = SIG_IGN};
	expect(sigaction(SIGRTMAX - 6, &a, NULL) == 0, "cannot ignore", SIGRTMAX - 6);
	expect(sigaction(SIGRTMAX - 6, NULL, &had) == 0 && had.sa_handler == SIG_IGN, "not ignored:", SIGRTMAX - 6);
	raise(SIGRTMAX - 6);
	cpu_spin(length / 8);
	printf("mistakes %d\n", mistakes);
	return mistakes;
}

static int dies(void)
{
	printf("dies\n");
	fflush(stdout);
	cpu_spin(length / 4);
	raise(SIGRTMAX);
	return 0;
}

static int ignores(void)
{
	signal(SIGRTMAX, SIG_IGN);
	cpu_spin(length / 4);
	expect(raise(SIGRTMAX) == 0, "cannot raise", SIGRTMAX);
	printf("mistakes %d\n", mistakes);
	return mistakes;
}

/* --- children */

static int forks(void)
{
	for (volatile int i = 0; i < 8; i++) {
		int status = 0;
		pid_t child = i % 4 == 3 ? vfork() : fork();
		if (child == 0 && i % 4 == 3) {
			signal(SIGRTMAX, SIG_DFL);
			execl("/bin/true", "true", NULL);
			_exit(9);
		}
		if (child == 0) {
			mistakes = 0;
			all_default();
			cpu_spin(length / 8);
			mask_is(false);
			_exit(mistakes);
		}
		cpu_spin(length / 16);
		expect(waitpid(child, &status, 0) == child, "no child", i);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with", status);
	}
	printf("mistakes %d\n", mistakes);
	return mistakes;
}

static const struct {
	const char *name;
	int (*run)(void);
} modes[] = {{"waits", waits}, {"signals", signals}, {"takes", takes}, {"dies", dies}, {"ignores", ignores},
	{"forks", forks}};

int main(int argc, char **argv)
{
	length = cpu_arg(argc, argv, 2, "1");
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name))
			return modes[i].run() ? 1 : 0;
	return 2;
}

/*
 * sigcount SECONDS [all] - prints every signal it receives (number, code, sender) and at the end their count and what
 * waitpid(-1) says: a program that nobody profiles sees "signals 0" and "waitpid ECHILD". all: waitpid with __WALL.
 * SIGTERM ends it before its time, and counts.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/targets/cpu.h"

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

static int drain(int fd, int64_t *end)
{
	struct signalfd_siginfo s;
	int n = 0;

	while (read(fd, &s, sizeof(s)) == sizeof(s)) {
		printf("signal %u code %d from %u\n", s.ssi_signo, s.ssi_code, s.ssi_pid);
		n++;
		if (s.ssi_signo == SIGTERM)
			*end = now();
	}
	return n;
}

int main(int argc, char **argv)
{
	int64_t end = now() + cpu_arg(argc, argv, 1, "1");
	int count = 0, status;
	struct pollfd p = {.events = POLLIN};
	sigset_t all;
	pid_t pid;

	setvbuf(stdout, NULL, _IOLBF, 0);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	p.fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	if (p.fd < 0)
		return 1;
	printf("ready\n");
	for (int64_t left; (left = end - now()) > 0;)
		if (poll(&p, 1, (int)((left + MSEC - 1) / MSEC)) > 0)
			count += drain(p.fd, &end);
	count += drain(p.fd, &end);
	pid = waitpid(-1, &status, WNOHANG | (argc > 2 ? __WALL : 0));
	printf("signals %d\nwaitpid %s\n", count,
		pid >= 0	  ? "has children"
		: errno == ECHILD ? "ECHILD"
				  : strerror(errno));
	return count || pid >= 0;
}

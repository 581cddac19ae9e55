/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/cli/run_wait.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BY_SIGNAL 128 /* as a shell has it */

/* Signals that a user sends to this process and means for the program. */
static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

static void list_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(set, passed_on[i]);
}

static void pass_on(pid_t child, const siginfo_t *info)
{
	if (info->si_signo != SIGCHLD &&
		(info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL))
		kill(child, info->si_signo);
}

static int wait_for(pid_t child, const sigset_t *set)
{
	siginfo_t info;
	for (;;) {
		int status;
		const pid_t ended = waitpid(child, &status, WNOHANG);
		if (ended == child)
			return status;
		if (ended < 0 && errno != EINTR)
			return -errno;
		if (sigwaitinfo(set, &info) > 0)
			pass_on(child, &info);
	}
}

/* Ignored signals stay ignored in the program; but where SIGCHLD is ignored, waitpid(2) has no status. */
int run_wait(run_wait_fn *program, void *arg, pid_t *ret_child)
{
	const struct sigaction by_default = {.sa_handler = SIG_DFL};
	struct sigaction of_child;
	sigset_t set, old;
	list_signals(&set);
	sigaction(SIGCHLD, &by_default, &of_child);
	sigprocmask(SIG_BLOCK, &set, &old);
	const pid_t pid = fork();
	if (pid == 0) {
		sigaction(SIGCHLD, &of_child, NULL);
		sigprocmask(SIG_SETMASK, &old, NULL);
		_exit(program(arg));
	}
	*ret_child = pid;
	return pid < 0 ? -errno : wait_for(pid, &set);
}

int run_wait_end(int status)
{
	const struct rlimit none = {0, 0};
	sigset_t one;
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	const int sig = WTERMSIG(status);
	sigemptyset(&one);
	sigaddset(&one, sig);
	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	return BY_SIGNAL + sig;
}

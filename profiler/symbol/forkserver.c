/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/forkserver.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/base/process/oom_score.h"
#include "oci/isolation/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define GRACE_NS (200 * NSEC_PER_MSEC) /* at our end, for the fork server to end */

/* --- the client ----------------------------------------------------------------------------------------- */

static _Noreturn void exec_it(int sock, const struct symbolizer_limits *limits)
{
	char jobs[16], memory[32], seconds[16];
	snprintf(jobs, sizeof(jobs), "%u", limits->jobs);
	snprintf(memory, sizeof(memory), "%zu", limits->memory);
	snprintf(seconds, sizeof(seconds), "%u", limits->seconds ? limits->seconds : SYMBOLIZER_SECONDS);
	char *argv[] = {"pilliond", "--fork-server", jobs, memory, seconds, NULL};
	char *envp[] = {NULL};
	int clear = fcntl(sock, F_DUPFD_CLOEXEC, 10); /* where sock is number 3, dup2 would do nothing */
	if (clear >= 0 && dup2(clear, FORKSERVER_SOCKET) >= 0)
		execve("/proc/self/exe", argv, envp);
	_exit(127);
}

int forkserver_start(const struct symbolizer_limits *limits, struct forkserver *ret, struct err *e)
{
	int pair[2];
	*ret = (struct forkserver)FORKSERVER_NONE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "cannot start the symbolizer");
	pid_t pid = child_process_fork_quiet();
	if (pid == 0)
		exec_it(pair[1], limits);
	int r = pid < 0 ? -errno : child_process_pidfd(pid);
	fd_close(pair[1]);
	if (r < 0) {
		fd_close(pair[0]);
		if (pid > 0)
			child_process_wait(pid, clock_now());
		return err_set(e, r, "cannot start the symbolizer");
	}
	ret->sock = pair[0];
	ret->pid = pid;
	ret->pidfd = r;
	fcntl(ret->sock, F_SETFL, O_NONBLOCK);
	return 0;
}

static void on_death(void *arg, uint32_t events)
{
	struct forkserver *f = arg;
	char fate[64];
	int status = child_process_wait(f->pid, clock_now());
	f->source.fd = -1; /* closed, so the loop has forgotten it */
	f->pidfd = fd_close(f->pidfd);
	f->sock = fd_close(f->sock);
	log_line(LOG_ERR, "outcome=no_symbolizer_restart reason=\"who forks them %s\"",
		child_process_fate(status, fate, sizeof(fate)));
}

int forkserver_watch(struct forkserver *f, struct event_loop *l)
{
	return f->pidfd < 0 ? 0 : event_loop_add(l, &f->source, f->pidfd, EPOLLIN, on_death, f);
}

bool forkserver_is_there(const struct forkserver *f)
{
	return f->sock >= 0;
}

static int send_ends(const struct forkserver *f, const int *questions, const int *readers)
{
	int r = forkserver_is_there(f) ? fd_send(f->sock, "", 1, (int[]){questions[1], readers[1]}, 2) : -EPIPE;
	fcntl(questions[0], F_SETFL, O_NONBLOCK);
	fcntl(readers[0], F_SETFL, O_NONBLOCK);
	return r == -ECONNRESET ? -EPIPE : r;
}

int forkserver_fork(const struct forkserver *f, struct symbolizer_sockets *ret)
{
	int questions[2] = {-1, -1}, readers[2] = {-1, -1};
	int r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, questions) < 0 ||
				socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, readers) < 0
			? -errno
			: send_ends(f, questions, readers);
	fd_close(questions[1]);
	fd_close(readers[1]);
	*ret = (struct symbolizer_sockets){questions[0], readers[0]};
	if (r < 0)
		symbolizer_close(ret);
	return r;
}

void forkserver_end(struct forkserver *f)
{
	f->sock = fd_close(f->sock);
	if (f->pidfd >= 0)
		child_process_wait(f->pid, clock_now() + GRACE_NS);
	f->pidfd = fd_close(f->pidfd);
}

void forkserver_abandon(struct forkserver *f)
{
	f->sock = fd_close(f->sock);
	f->pidfd = fd_close(f->pidfd);
}

/* --- the process ---------------------------------------------------------------------------------------- */

/* Does all that a server needs and its role does not allow; the rest is done in symbolizer_serve. */
static void become_forkserver(struct oom_score *oom)
{
	fd_close_all_but((int[]){FORKSERVER_SOCKET}, 1);
	fd_null_stdio(7);
	/* signals of a terminal are not for us; inherited dispositions, least of all */
	for (int sig = 1; sig < SIGSYS; sig++)
		signal(sig, sig == SIGINT || sig == SIGHUP || sig == SIGPIPE ? SIG_IGN : SIG_DFL);
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps the servers */
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	*oom = oom_score_open(); /* after the next line the file belongs to root */
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "pilliond-fork"); /* exec left "exe" */
	/* a command's process has not set it before, and without it a plain user may enter no role */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Forks the next server. False: the client has closed the socket. */
static bool fork_next(const struct symbolizer_limits *limits, struct oom_score *oom)
{
	int fds[2];
	size_t n = 0;
	char any;
	ssize_t got = fd_recv(FORKSERVER_SOCKET, &any, sizeof(any), fds, 2, &n);
	oom_score_before_fork(oom, 1); /* servers are killed first on OOM: they can be replaced, we cannot */
	if (n == 2 && fork() == 0)
		symbolizer_serve(limits, &(struct symbolizer_sockets){fds[0], fds[1]});
	oom_score_after_fork(oom);
	fd_close_each(fds, n);
	return got > 0 || got == -EMFILE;
}

void forkserver_main(int argc, char **argv)
{
	struct err e = {0};
	if (argc != 5 || strcmp(argv[1], "--fork-server") != 0)
		return;
	struct symbolizer_limits limits = {.jobs = (unsigned)strtoul(argv[2], NULL, 10),
		.memory = strtoul(argv[3], NULL, 10),
		.seconds = (unsigned)strtoul(argv[4], NULL, 10)};
	if (limits.jobs < 1 || limits.jobs > SYMBOLIZER_JOBS_MAX || !fd_is(FORKSERVER_SOCKET))
		_exit(2);
	struct oom_score oom;
	become_forkserver(&oom);
	if (seccomp_enter(SECCOMP_SYMBOLIZER, &e) < 0)
		_exit(1);
	while (fork_next(&limits, &oom))
		;
	_exit(0);
}

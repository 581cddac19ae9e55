/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/protocol/session_start.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEPER_MS 60	 /* the keeper gives up so long before the caller */
#define SESSION_SOCKET 3 /* the descriptor of the connection in the session */

static const struct cgroup_limits limits = {.memory = 64 << 20, .cpu_percent = 100, .pids = 16};

static _Noreturn void exec_session(const struct settings *s, const char *id)
{
	char bytes[32], age[16];
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)s->spool_bytes);
	snprintf(age, sizeof(age), "%us", s->spool_age_s);
	char *argv[] = {"pilliond", "--session", (char *)id, "--etc", (char *)s->paths.etc, "--spool",
		(char *)s->paths.spool, "--spool-size", bytes, "--spool-age", age, NULL, NULL, NULL, NULL, NULL};
	size_t n = sizeof(argv) / sizeof(argv[0]) - 5;
	const char *const texts[][2] = {{"--log", s->paths.log}, {"--node", s->node}};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i][1][0]) {
			argv[n++] = (char *)texts[i][0];
			argv[n++] = (char *)texts[i][1];
		}
	char *envp[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	execve(s->paths.daemon, argv, envp);
	_exit(127);
}

/* The report of the starter: shared memory. */
struct start {
	int code;
	/* by the keeper */
	bool done;  /* the session is on its way */
	bool stays; /* so the keeper must stay, too */
	char text[320];
	char note[sizeof(((struct session *)0)->note)];
};

static int prepare_session(const struct session *s, struct start *start, struct err *e)
{
	char cgroup[160];
	/* '@' is in no container's id: else the sessions of "web" and "web.1" could be taken for each other */
	snprintf(cgroup, sizeof(cgroup), "session-%.100s@%llu", s->id, (unsigned long long)s->start_time);
	cgroup_sweep("session-"); /* left by earlier sessions: an unprivileged process cannot remove its own */
	int r = cgroup_enter_own(cgroup, &limits, true, e);
	if (r == -EALREADY)
		err_say(e, r, "a session for this container runs already");
	if (r < 0 && r != -EALREADY && s->share_cgroup) {
		snprintf(start->note, sizeof(start->note), "the profiler has no cgroup of its own: %.190s", e->text);
		r = 0;
	}
	if (r == 0 && access(s->settings->paths.daemon, X_OK) < 0)
		r = err_set(e, -errno, "cannot run %s", s->settings->paths.daemon);
	return r;
}

/* Makes the cgroup and enters it, so that the session is born there; its child is the session. */
static _Noreturn void run_starter(const struct session *s, pid_t parent, int sock, struct start *start)
{
	struct err e = {0};
	child_process_die_with(parent);
	int r = prepare_session(s, start, &e);
	if (r < 0) {
		start->code = r;
		snprintf(start->text, sizeof(start->text), "%s", e.text);
		_exit(1);
	}
	if (sock != SESSION_SOCKET) {
		dup2(sock, SESSION_SOCKET);
		sock = SESSION_SOCKET;
	}
	fcntl(sock, F_SETFD, 0);
	fd_close_all_but(&sock, 1);
	fd_null_stdio(7);
	setsid();
	pid_t pid = fork();
	if (pid != 0)
		_exit(pid < 0);
	child_process_reset(true);
	exec_session(s->settings, s->id);
}

/* Stays until the caller ends: the caller would see its end. Holds nothing, can do nothing, hears nothing. */
static _Noreturn void wait_forever(void)
{
	capabilities_limit(0, NULL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	for (;;)
		pause();
}

/* The process between the caller and the session; closes `done` when the starter has ended. */
static _Noreturn void run_keeper(
	const struct session *s, int sock, struct start *start, pid_t caller, int done, int64_t deadline)
{
	const int hold[] = {sock, done};
	char fate[80];
	sigset_t all;
	child_process_die_with(caller);
	setsid();
	memset(&all, 0xff, sizeof(all)); /* sigfillset(3) leaves out signals that libc uses */
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_NAME, "pillion-keeper");
	fd_close_all_but(hold, 2);
	fd_null_stdio(7);
	if (chdir("/") < 0)
		_exit(126);
	pid_t self = getpid(), pid = child_process_fork_quiet(); /* also where SIGCHLD is ignored */
	if (pid == 0)
		run_starter(s, self, sock, start);
	int status = pid < 0 ? -errno : child_process_wait(pid, deadline - KEEPER_MS * NSEC_PER_MSEC);
	if (status != 0 && start->code == 0) {
		start->code = -EIO;
		snprintf(start->text, sizeof(start->text), "its starter %s",
			child_process_fate(status, fate, sizeof(fate)));
	}
	start->done = status == 0;
	start->stays = start->done || waitpid(-1, NULL, WNOHANG | __WALL) == 0; /* its orphans would be the caller's */
	fd_close_all_but(NULL, 0);
	if (!start->stays && clock_now() < deadline)
		_exit(1); /* the caller still waits for us, and reaps us without a signal */
	wait_forever();
}

/* 0, or why not. */
static int start_kept(const struct session *s, int sock, struct start *start, int64_t deadline, struct err *e)
{
	int done[2];
	pid_t caller = getpid();
	if (pipe2(done, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe to the keeper");
	pid_t pid = child_process_fork_quiet();
	int error = -errno;
	if (pid == 0)
		run_keeper(s, sock, start, caller, done[1], deadline);
	fd_close(done[1]);
	int heard = pid < 0 ? 0 : fd_wait(done[0], POLLIN, deadline);
	fd_close(done[0]);
	if (pid < 0)
		return err_set(e, error, "cannot fork the keeper");
	if (heard == 1 && start->done)
		return 0;
	if (heard != 1) /* it stays: processes that it has started must not become ours */
		return err_say(e, -ETIMEDOUT, "its keeper was not done within the budget");
	if (!start->stays)
		child_process_wait(pid, deadline);
	return start->code < 0 ? err_say(e, start->code, "%s", start->text) : err_say(e, -EIO, "its keeper died");
}

static int start_free(const struct session *s, int sock, struct start *start, int64_t deadline, struct err *e)
{
	char fate[80];
	pid_t self = getpid(), pid = child_process_fork_quiet();
	if (pid < 0)
		return err_set(e, -errno, "cannot fork its starter");
	if (pid == 0)
		run_starter(s, self, sock, start);
	int status = child_process_wait(pid, deadline);
	if (status == 0)
		return 0;
	return start->code < 0 ? err_say(e, start->code, "%s", start->text)
			       : err_say(e, -EIO, "its starter %s", child_process_fate(status, fate, sizeof(fate)));
}

int session_start(struct session *s, int64_t deadline, struct err *e)
{
	int pair[2];
	if (child_process_children_are_elsewhere())
		return err_say(e, -EINVAL,
			"cannot start a session: children of this process would be born into another pid namespace");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "cannot make a socket pair");
	struct start *start = mmap(NULL, sizeof(*start), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r = start == MAP_FAILED ? err_set(e, -errno, "no memory")
		: s->keeper	    ? start_kept(s, pair[1], start, deadline, e)
				    : start_free(s, pair[1], start, deadline, e);
	fd_close(pair[1]);
	if (start != MAP_FAILED) {
		snprintf(s->note, sizeof(s->note), "%s", start->note);
		munmap(start, sizeof(*start));
	}
	if (r == 0)
		return pair[0];
	fd_close(pair[0]);
	return err_wrap(e, r, "cannot start a session");
}

void session_clean(const char *id, int64_t deadline)
{
	char prefix[160];
	snprintf(prefix, sizeof(prefix), "session-%.100s@", id);
	cgroup_sweep_until(prefix, deadline);
	cgroup_sweep("session-");
	cgroup_sweep("files-");
}

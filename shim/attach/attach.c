/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/attach.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/attach/attach_opener.h"
#include "shim/attach/file_opener.h"
#include "shim/event/event_request.h"
#include "shim/protocol/connect.h"
#include "shim/protocol/service_client.h"
#include "shim/protocol/session_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTACH_MS 8000 /* includes the scans of threads; the profiler waits longer */
#define STOP_MS 10000  /* to write the last window */
#define REAP_MS 200
#define REMAP_MS 30000 /* for all targets; the systemd unit is not ready before */
#define CLEAN_MS 500   /* for a session to end */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10U /* linux/memfd.h, since 6.3 */
#endif

int attach_find(pid_t pid, struct attach_target *ret, struct err *e)
{
	char text[64];
	*ret = (struct attach_target){.pid = pid};
	int r = proc_status_field(pid, "Tgid", text, sizeof(text));
	if (r < 0)
		return r == -ESRCH ? err_say(e, r, "there is no process %d", (int)pid)
				   : err_set(e, r, "process %d", (int)pid);
	if (atoi(text) != pid)
		return err_say(e, -EINVAL, "%d is a thread of process %d: attach to that", (int)pid, atoi(text));
	r = proc_status_field(pid, "Name", ret->name, sizeof(ret->name));
	if (r < 0)
		return err_set(e, r, "process %d", (int)pid);
	snprintf(ret->id, sizeof(ret->id), "pid-%d", (int)pid);
	return 0;
}

static int fill_target_desc(
	const struct request *asked, const struct attach_target *t, struct attach_job *job, struct err *e)
{
	struct target_desc *d = &job->request.desc;
	int r = event_request_make(asked->events, NULL, d, e);
	if (r < 0)
		return r;
	snprintf(d->id, sizeof(d->id), "%s", t->id);
	snprintf(d->name, sizeof(d->name), "%s", t->name);
	d->init_pid = d->host_pid = t->pid;
	r = proc_stat_start_time(t->pid, &d->start_time);
	if (r < 0)
		return err_say(e, r, "process %d is gone already", (int)t->pid);
	d->window_s = asked->window_s;
	d->detail = asked->detail;
	d->n_labels = asked->n_labels;
	memcpy(d->labels, asked->labels, sizeof(d->labels));
	job->request.stacks = asked->stacks;
	/* a request for one pid is not a request for its whole cgroup */
	job->request.attach = asked->attach == ATTACH_AUTO && !t->container ? ATTACH_PROCESS : asked->attach;
	job->container = t->container;
	job->except = t->except;
	job->caller = getpid();
	return 0;
}

/* --- a sealed copy of the opener ----------------------------------------------------------------------- */

static int copy_all(int from, int to)
{
	struct stat st;
	off_t at = 0;
	if (fstat(from, &st) < 0)
		return -errno;
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return 0;
}

/* Our process in a container runs from this copy: no process can write to it, by any path. */
static int seal_program(const char *path, struct err *e)
{
	fd_auto program = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	if (program < 0)
		return err_set(e, program, "cannot run %s", path);
	int fd = memfd_create("pillion-opener", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("pillion-opener", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_set(e, -errno, "cannot make a sealed copy of %s (sysctl vm.memfd_noexec?)", path);
	int r = copy_all(program, fd);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		r = -errno;
	if (r < 0)
		return fd_close(fd), err_set(e, r, "cannot make a sealed copy of %s", path);
	return fd;
}

static _Noreturn void exec_opener(int program, int line, int profiler)
{
	char *argv[] = {"pillion-opener", NULL}, *envp[] = {NULL};
	/* above the numbers that dup2(2) sets below */
	program = fcntl(program, F_DUPFD_CLOEXEC, 10);
	line = fcntl(line, F_DUPFD_CLOEXEC, 10);
	profiler = fcntl(profiler, F_DUPFD_CLOEXEC, 10);
	const int keep[] = {ATTACH_OPENER_LINE, ATTACH_OPENER_PROFILER, program};
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (dup2(line, ATTACH_OPENER_LINE) < 0 || dup2(profiler, ATTACH_OPENER_PROFILER) < 0)
		_exit(126);
	fd_close_all_but(keep, 3);
	fexecve(program, argv, envp);
	_exit(127);
}

/* Beside pilliond. */
static int opener_path(const struct settings *s, char *buf, size_t size)
{
	const char *slash = strrchr(s->paths.daemon, '/');
	int n = snprintf(buf, size, "%.*s/pillion-opener", slash ? (int)(slash - s->paths.daemon) : 0, s->paths.daemon);
	return n < (int)size ? 0 : -ENAMETOOLONG;
}

/*
 * Both processes of the opener are our children. If one hangs in the container, it dies with us or with the container,
 * and the container's end must not wait for us to reap it.
 */
static void reap_all(void)
{
	int64_t deadline = clock_now() + REAP_MS * NSEC_PER_MSEC;
	while (waitpid(-1, NULL, WNOHANG | __WALL) >= 0 && clock_now() < deadline)
		usleep(1000);
	signal(SIGCHLD, SIG_IGN);
	while (waitpid(-1, NULL, WNOHANG | __WALL) > 0)
		;
}

static int receive_report(int line, int64_t deadline, struct attached *ret, struct err *e)
{
	static struct attach_report said;
	size_t none;
	if (fd_wait(line, POLLIN, deadline) != 1)
		return err_say(e, -ETIMEDOUT, "attaching did not finish within %d s", ATTACH_MS / 1000);
	if (fd_recv(line, &said, sizeof(said), NULL, 0, &none) != sizeof(said))
		return err_say(e, -EIO, "the opener ended without a word: was it killed?");
	said.text[sizeof(said.text) - 1] = said.notes[sizeof(said.notes) - 1] = 0;
	memcpy(ret->notes, said.notes, sizeof(ret->notes));
	return said.code < 0 ? err_say(e, said.code, "%s", said.text) : 0;
}

/* sockets: sent with the job, as job->request.desc.fds names them. */
static int run_opener(
	const struct settings *s, const struct attach_job *job, const int *sockets, struct attached *ret, struct err *e)
{
	char path[PATH_MAX];
	int pair[2];
	int r = opener_path(s, path, sizeof(path));
	fd_auto program = r < 0 ? r : seal_program(path, e);
	if (program < 0)
		return r < 0 ? err_set(e, r, "pillion-opener") : e->code;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "no socket to the opener");
	pid_t self = getpid(), pid = fork();
	int error = -errno;
	if (pid == 0) {
		child_process_die_with(self);
		exec_opener(program, pair[1], ret->sock);
	}
	fd_close(pair[1]);
	r = pid < 0 ? err_set(e, error, "cannot fork the opener")
		    : fd_send(pair[0], job, sizeof(*job), sockets, (size_t)__builtin_popcount(job->request.desc.fds));
	if (pid >= 0 && (r == 0 || r == -EPIPE))
		r = receive_report(pair[0], job->deadline, ret, e);
	fd_close(pair[0]);
	reap_all();
	return r;
}

/* Neither a session nor a file opener can remove its own cgroup: both have dropped all privileges. */
static void clean_up(const struct attached *a)
{
	const int64_t deadline = deadline_in(CLEAN_MS * NSEC_PER_MSEC);
	if (!a->in_service)
		session_clean(a->id, deadline);
	file_opener_clean(a->id, deadline);
}

/* A target with libpillion can be sampled by timers where perf events are refused. */
static uint32_t get_hello_flags(const struct attach_target *t)
{
	struct err refused = {0};
	return t->listener && perf_refused(&refused) < 0 ? HELLO_NO_PERF : 0;
}

/*
 * The profiler runs as another user if we are root, and always if it is the service. If libpillion in a program has
 * started us (t->except), no file opener is started: the program might inherit it as an orphan.
 */
static int start_file_opener(struct attach_job *job, const struct attach_target *t, const struct attached *a)
{
	const bool other = geteuid() == 0 || a->in_service;
	return other && !t->except ? file_opener_for(&job->request.desc, job->deadline) : -1;
}

int attach_start(const struct options *o, const struct attach_target *t, struct attached *ret, struct err *e)
{
	static struct attach_job job;
	struct reached profiler;
	*ret = (struct attached){.sock = -1};
	memcpy(ret->id, t->id, sizeof(ret->id));
	job.deadline = deadline_in(ATTACH_MS * NSEC_PER_MSEC);
	int r = fill_target_desc(&o->request, t, &job, e);
	if (r < 0)
		return r;
	r = connect_profiler(
		&o->settings, t->id, job.request.desc.start_time, get_hello_flags(t), job.deadline, &profiler, e);
	if (r < 0)
		return clean_up(ret), r;
	if (profiler.note[0])
		target_note(&job.request.desc, profiler.note);
	ret->sock = profiler.sock;
	ret->in_service = profiler.in_service;
	const int files = start_file_opener(&job, t, ret);
	const int sockets[] = {t->listener ? t->listener : files, files};
	job.request.desc.fds = (t->listener ? TARGET_APP : 0) | (files >= 0 ? TARGET_FILES : 0);
	r = run_opener(&o->settings, &job, sockets, ret, e);
	fd_close(files);
	if (r < 0) {
		ret->sock = fd_close(ret->sock);
		clean_up(ret);
	}
	return r;
}

/* --- a restarted service ------------------------------------------------------------------------------- */

static void describe_again(const struct target_desc *d, struct attach_job *job)
{
	*job = (struct attach_job){.remap = true, .caller = getpid()};
	job->request.desc = *d;
	job->request.desc.fds = 0;
	job->request.attach = d->strategy == STRATEGY_CGROUP ? ATTACH_CGROUP : ATTACH_PROCESS;
	job->deadline = deadline_in(ATTACH_MS * NSEC_PER_MSEC);
}

/* 1: `job` describes a target that the service asks for; 0: it asks for no more. */
static int ask_for_one(int sock, struct attach_job *job, struct err *e)
{
	static union msg m;
	int64_t deadline = deadline_in(ATTACH_MS * NSEC_PER_MSEC);
	int pidfd = -1;
	size_t n;
	memset(&m, 0, sizeof(m.remap));
	int r = msg_tell(sock, &m, MSG_REMAP, NULL, 0, e);
	if (r == 0)
		r = msg_recv(sock, deadline, &m, &pidfd, 1, &n, e);
	if (r < 0)
		return r;
	if (n)
		fd_close(pidfd); /* the opener opens its own, by pid and start time */
	if (m.head.type == MSG_REFUSE)
		return err_say(e, m.refuse.code, "refused: %s", m.refuse.text);
	if (m.head.type == MSG_TARGET)
		describe_again(&m.target.desc, job);
	return m.head.type == MSG_TARGET;
}

static int reach_again(const struct options *o, int *ret, struct err *e)
{
	union msg m;
	*ret = service_client_connect_anyway(o->settings.paths.control, e);
	int r = *ret < 0 ? *ret : service_client_greet(*ret, &o->settings, 0, e);
	return r < 0 ? r : msg_answer(*ret, deadline_in(ATTACH_MS * NSEC_PER_MSEC), &m, MSG_WELCOME, e);
}

/* Sends an empty TASKS, so that the service does not ask for this target again. */
static int say_nothing(int sock, struct err *e)
{
	static union msg m;
	memset(&m, 0, sizeof(m.tasks));
	m.tasks.last = 1;
	return msg_call(sock, deadline_in(ATTACH_MS * NSEC_PER_MSEC), &m, MSG_TASKS, NULL, 0, MSG_OK, e);
}

int attach_remap(const struct options *o, void (*say)(const char *id, const struct err *why), struct err *e)
{
	static struct attach_job job;
	struct attached a = {.sock = -1, .in_service = true};
	struct err why;
	const int64_t end = deadline_in(REMAP_MS * NSEC_PER_MSEC);
	int told = 0, r = reach_again(o, &a.sock, e);
	if (r == -ENOENT || r == -ECONNREFUSED)
		return 0;
	while (r == 0 && clock_now() < end && (r = ask_for_one(a.sock, &job, e)) == 1) {
		r = run_opener(&o->settings, &job, NULL, &a, &why);
		told += r == 0;
		if (r == 0)
			continue;
		say(job.request.desc.id, &why);
		if (r == -EPERM && (r = say_nothing(a.sock, &why)) == 0)
			continue;
		/* a late answer may still come on this connection: open another one */
		a.sock = fd_close(a.sock);
		r = reach_again(o, &a.sock, e);
	}
	fd_close(a.sock);
	if (r == 0 && clock_now() >= end)
		r = err_say(e, -ETIMEDOUT, "after %d s: what the others have mapped meanwhile has no names",
			REMAP_MS / 1000);
	return r < 0 ? r : told;
}

int attach_stop(struct attached *a, struct msg_ended *ret, struct err *e)
{
	static union msg m;
	memset(&m, 0, sizeof(m));
	int r = msg_call(a->sock, deadline_in(STOP_MS * NSEC_PER_MSEC), &m, MSG_STOP, NULL, 0, MSG_ENDED, e);
	if (r == 0)
		*ret = m.ended;
	a->sock = fd_close(a->sock);
	clean_up(a);
	return r;
}

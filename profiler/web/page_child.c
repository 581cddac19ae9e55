/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/web/page_child.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
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
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct said { /* sent by the job, with the descriptor */
	uint32_t status, kind;
	char file[256];
};

struct pagejobs {
	struct event_loop *loop;
	unsigned running, heavy;
	uint64_t held; /* bytes of answers in memory */
};

struct page_child {
	struct pagejobs *jobs;
	struct event_loop_source source;
	int sock; /* -1: it has ended */
	bool forgotten, heavy;
	void (*done)(void *arg);
	void *arg;
	int answer; /* -1: none, yet or ever */
	uint64_t bytes;
	struct said said;
};

/* --- the process ---------------------------------------------------------------------------------------- */

static int send_answer_fd(int sock, const struct said *said, int fd)
{
	return fd_send(sock, said, sizeof(*said), &fd, 1);
}

static int give_text(int sock, const struct said *said, const char *text, size_t len)
{
	fd_auto fd = len > PAGE_CHILD_ANSWER_MAX ? -EFBIG : fd_make_sealed("page", text, len);
	return fd < 0 ? fd : send_answer_fd(sock, said, fd);
}

static int send_answer(const struct page_question *q, int sock)
{
	struct page_answer a;
	int r = page_answer(q, &a);
	if (r < 0)
		return r;
	struct said said = {.status = a.status, .kind = a.kind};
	snprintf(said.file, sizeof(said.file), "%s", a.file);
	return a.fd >= 0 ? send_answer_fd(sock, &said, a.fd) : give_text(sock, &said, a.text, a.len);
}

/* Frees nothing: the process ends soon, and the kernel is faster. */
static _Noreturn void become_job(const struct page_question *q, int sock)
{
	struct err e = {0};
	const int keep[] = {q->spool, sock};
	prctl(PR_SET_NAME, "pilliond-page");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd_close_all_but(keep, sizeof(keep) / sizeof(keep[0]));
	if (child_process_bound(PAGE_CHILD_MEMORY, PAGE_CHILD_S) < 0 || seccomp_enter(SECCOMP_PAGE, &e) < 0)
		_exit(1);
	_exit(send_answer(q, sock) < 0);
}

/* --- the exporter --------------------------------------------------------------------------------------- */

int pagejobs_new(struct event_loop *l, struct pagejobs **ret)
{
	struct pagejobs *j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	j->loop = l;
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps them */
	*ret = j;
	return 0;
}

static void let_go(struct page_child *job)
{
	if (job->answer >= 0)
		job->jobs->held -= job->bytes;
	fd_close(job->answer);
	free(job);
}

static void finish_job(struct page_child *job)
{
	event_loop_del(job->jobs->loop, &job->source);
	job->sock = fd_close(job->sock);
	job->jobs->running--;
	job->jobs->heavy -= job->heavy;
	if (job->forgotten)
		let_go(job);
	else
		job->done(job->arg);
}

/* A page must be sealed, so that it does not change while it is sent; a file of the spool is never written to again. */
static bool is_answer(const struct said *said, int fd, uint64_t *ret_bytes)
{
	struct stat st;
	const bool is_file = said->kind == PAGE_IS_PROFILE || said->kind == PAGE_IS_REPORT;
	if (said->kind >= PAGE_KINDS || said->status < 200 || said->status > 599 || fstat(fd, &st) < 0 ||
		!S_ISREG(st.st_mode) || st.st_size > PAGE_CHILD_ANSWER_MAX)
		return false;
	*ret_bytes = is_file ? 0 : (uint64_t)st.st_size;
	return is_file || fd_is_sealed(fd, SEALS);
}

static void on_answer(void *arg, uint32_t events)
{
	struct page_child *job = arg;
	int fd = -1;
	size_t n = 0;
	ssize_t got = fd_recv(job->sock, &job->said, sizeof(job->said), &fd, 1, &n);
	if (got == -EAGAIN)
		return;
	job->said.file[sizeof(job->said.file) - 1] = 0;
	if (got == sizeof(job->said) && n == 1 && is_answer(&job->said, fd, &job->bytes)) {
		job->answer = fd;
		job->jobs->held += job->bytes;
	} else if (n) {
		fd_close(fd);
	}
	if (job->answer < 0)
		log_line(LOG_WARNING, "outcome=no_page reason=\"the process that was to make it has ended\"");
	finish_job(job);
}

static struct page_child *new_job(struct pagejobs *j, int sock)
{
	struct page_child *job = calloc(1, sizeof(*job));
	if (!job)
		return NULL;
	*job = (struct page_child){.jobs = j, .source.fd = -1, .sock = sock, .answer = -1};
	if (event_loop_add(j->loop, &job->source, sock, EPOLLIN, on_answer, job) == 0)
		return job;
	free(job);
	return NULL;
}

int page_child_start(
	struct pagejobs *j, const struct page_question *q, void (*done)(void *arg), void *arg, struct page_child **ret)
{
	int pair[2];
	const bool heavy = page_is_heavy(q);
	if (j->running >= PAGEJOBS_MAX || (heavy && j->heavy))
		return -EAGAIN;
	if (j->held >= PAGEJOBS_HELD_MAX)
		return -ENOBUFS;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	struct page_child *job = new_job(j, pair[0]);
	pid_t pid = job ? fork() : -1;
	int r = job ? -errno : -ENOMEM;
	if (pid == 0)
		become_job(q, pair[1]);
	fd_close(pair[1]);
	if (pid < 0) {
		if (job)
			event_loop_del(j->loop, &job->source);
		fd_close(pair[0]);
		free(job);
		return r;
	}
	job->done = done;
	job->arg = arg;
	job->heavy = heavy;
	j->running++;
	j->heavy += heavy;
	*ret = job;
	return 0;
}

int page_child_answer(const struct page_child *job, struct page_answer *ret)
{
	if (job->sock >= 0)
		return -EINPROGRESS;
	if (job->answer < 0)
		return -EPIPE;
	*ret = (struct page_answer){.status = job->said.status, .kind = job->said.kind, .fd = job->answer};
	snprintf(ret->file, sizeof(ret->file), "%s", job->said.file);
	return 0;
}

void page_child_forget(struct page_child *job)
{
	if (!job)
		return;
	job->forgotten = true;
	if (job->sock < 0)
		let_go(job);
}

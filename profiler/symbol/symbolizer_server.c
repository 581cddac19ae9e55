/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symbolizer_client.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINES_SHARE 2 /* libdw is opened anew when it has taken 1 / LINES_SHARE of a job's memory */

#define OPENER_PATIENCE (500 * NSEC_PER_MSEC) /* without the file, a job still has the names of the symbol table */
#define SERVED_MAX (SYMBOLIZER_JOBS_MAX + 2 + SYMBOLIZER_LINGERING_MAX)
#define END_MS 200 /* at its end, for killed children to die */

enum kind { JOB, READER, KINDS };

/* A child that runs, or was killed and is not dead yet. */
struct served {
	pid_t pid;   /* 0: this place is free */
	int process; /* pidfd; -1: poll cannot see its end, waitpid has to look */
	int answers; /* the write end of its pipe: broken when the client has lost interest */
	int64_t deadline;
	enum kind kind;
	bool killed;
};

struct server {
	pid_t pid;
	const struct symbolizer_limits *limits;
	const struct symbolizer_sockets *own;
	struct served served[SERVED_MAX];
};

/* --- a job --------------------------------------------------------------------------------------------- */

/* Takes the descriptor. */
static struct elf_memory map_file(const struct question_file *q, int fd)
{
	struct file_id id;
	struct elf_memory m = {0};
	struct file f;
	if (q->path[0]) {
		int place = fd;
		fd = q->asks ? target_files_open_there(place, q->path, false, deadline_in(OPENER_PATIENCE), &id)
			     : target_files_open_here(place, q->path, false, &id);
		fd_close(place);
	} else if (fd >= 0 && file_on(fd, &f) == 0) {
		id = f.id;
	} else {
		return m;
	}
	if (fd < 0 || !id.size || !file_id_equal(&id, &q->id))
		return m;
	/* a private copy: libelf writes into the image that it decompressed a section */
	void *data = mmap(NULL, id.size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return m;
	return (struct elf_memory){data, id.size};
}

static void map_files(const struct question_head *head, int sock, struct elf_memory *debug, struct elf_memory *alt)
{
	char any;
	int fds[2];
	size_t n = 0, at = 0;
	if (fd_recv(sock, &any, sizeof(any), fds, 2, &n) < 0)
		return;
	if (head->debug.wanted && at < n)
		*debug = map_file(&head->debug, fds[at++]);
	if (head->alt.wanted && at < n)
		*alt = map_file(&head->alt, fds[at]);
}

/* The job holds the question, the pipe and the mapped files: a fault in a library gives access to nothing else. */
static _Noreturn void run_job(const struct server *s, const int *fds)
{
	const struct symbolizer_limits *limits = s->limits;
	struct err e = {0};
	struct question_head head;
	struct elf_memory debug = {0}, alt = {0};
	child_process_die_with(s->pid);
	if (symbolizer_begin(fds[QUESTION_ANSWERS]) < 0 || symbolizer_head(fds[QUESTION_ITSELF], &head) < 0)
		_exit(1);
	map_files(&head, fds[QUESTION_FILES], &debug, &alt);
	fd_close_all_but(fds, QUESTION_FILES);
	/* the kernel counts these mappings as data, too */
	child_process_bound(limits->memory + debug.size + alt.size, 0);
	if (seccomp_enter(SECCOMP_SYMBOLIZER_JOB, &e) < 0)
		_exit(1);
	int r = symbolizer_answer(
		fds[QUESTION_ITSELF], fds[QUESTION_ANSWERS], &debug, &alt, limits->memory / LINES_SHARE);
	_exit(r < 0);
}

/* --- the server ---------------------------------------------------------------------------------------- */

static unsigned count_served(const struct server *s, enum kind kind, bool killed)
{
	unsigned n = 0;
	for (unsigned i = 0; i < SERVED_MAX; i++)
		n += s->served[i].pid && s->served[i].kind == kind && s->served[i].killed == killed;
	return n;
}

/* NULL: too many killed children have not died yet. */
static struct served *free_place(struct server *s)
{
	if (count_served(s, JOB, true) + count_served(s, READER, true) >= SYMBOLIZER_LINGERING_MAX)
		return NULL;
	for (unsigned i = 0; i < SERVED_MAX; i++)
		if (!s->served[i].pid)
			return &s->served[i];
	return NULL;
}

/* Does not wait: a child in the middle of a request to a file system dies only when the file system has answered. */
static void reap_process(struct served *j)
{
	if (waitpid(j->pid, NULL, WNOHANG) == 0)
		return;
	fd_close(j->process);
	fd_close(j->answers);
	*j = (struct served){.process = -1, .answers = -1};
}

static void kill_process(struct served *j)
{
	kill(j->pid, SIGKILL);
	j->killed = true;
	j->answers = fd_close(j->answers);
	j->deadline = INT64_MAX;
	reap_process(j);
}

static bool is_broken(int pipe)
{
	struct pollfd p = {.fd = pipe};
	return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

/*
 * Forks a child for a request, and closes `fds`. For both kinds the second descriptor is the pipe. j NULL: forks none.
 */
static void start_process(struct server *s, struct served *j, enum kind kind, int *fds, size_t n)
{
	pid_t pid = j && n > QUESTION_ANSWERS && !is_broken(fds[QUESTION_ANSWERS]) ? fork() : -1;
	if (pid == 0) {
		if (kind == READER)
			target_files_reader(fds[QUESTION_ITSELF]);
		run_job(s, fds);
	}
	if (pid > 0) {
		int64_t limit = (int64_t)s->limits->seconds * NSEC_PER_SEC;
		*j = (struct served){.pid = pid,
			.process = (int)syscall(SYS_pidfd_open, pid, 0),
			.answers = fds[QUESTION_ANSWERS],
			.deadline = kind == JOB ? deadline_in(limit) : INT64_MAX,
			.kind = kind};
		fds[QUESTION_ANSWERS] = -1;
		if (j->process < 0) /* poll could not see its end */
			kill_process(j);
	}
	fd_close_each(fds, n);
}

/* Takes one request. False: the client has closed this socket. */
static bool receive_request(struct server *s, enum kind kind)
{
	int fds[QUESTION_FDS];
	size_t n = 0, want = kind == JOB ? QUESTION_FDS : QUESTION_ANSWERS + 1;
	char any;
	int sock = kind == JOB ? s->own->questions : s->own->readers;
	ssize_t got = fd_recv(sock, &any, sizeof(any), fds, want, &n);
	if (got > 0)
		start_process(s, n == want ? free_place(s) : NULL, kind, fds, n);
	return got > 0 || got == -EAGAIN || got == -EINTR;
}

#define POLLED (KINDS + 2 * SERVED_MAX)

/* Waits until there is a request to take, or a child ends, loses its client or is out of time. False: poll failed. */
static bool wait_for_any(struct server *s, bool readers, struct pollfd *p)
{
	int64_t first = INT64_MAX;
	bool room = free_place(s) && count_served(s, JOB, false) < s->limits->jobs;
	p[JOB] = (struct pollfd){.fd = room ? s->own->questions : -1, .events = POLLIN};
	p[READER] = (struct pollfd){.fd = readers ? s->own->readers : -1, .events = POLLIN};
	for (unsigned i = 0; i < SERVED_MAX; i++) {
		struct served *j = &s->served[i];
		p[KINDS + 2 * i] = (struct pollfd){.fd = j->pid ? j->process : -1, .events = POLLIN};
		p[KINDS + 2 * i + 1] = (struct pollfd){.fd = j->pid ? j->answers : -1};
		if (j->pid && j->deadline < first)
			first = j->deadline;
	}
	int n = poll(p, POLLED, first == INT64_MAX ? -1 : deadline_left_ms(first));
	return n >= 0 || errno == EINTR;
}

static void end_some(struct server *s, const struct pollfd *p)
{
	int64_t now = clock_now();
	for (unsigned i = 0; i < SERVED_MAX; i++) {
		struct served *j = &s->served[i];
		if (!j->pid)
			continue;
		if (j->killed)
			reap_process(j);
		else if (p[KINDS + 2 * i].revents || p[KINDS + 2 * i + 1].revents || j->deadline <= now)
			kill_process(j);
	}
}

/* Kills all children and reaps those that die at once, so that nothing else has to reap them. init gets the rest. */
static void end_all(struct server *s)
{
	int64_t deadline = deadline_in(END_MS * NSEC_PER_MSEC);
	for (unsigned i = 0; i < SERVED_MAX; i++)
		if (s->served[i].pid && !s->served[i].killed)
			kill_process(&s->served[i]);
	for (unsigned i = 0; i < SERVED_MAX; i++)
		if (s->served[i].pid && s->served[i].process >= 0 &&
			fd_wait(s->served[i].process, POLLIN, deadline) == 1)
			reap_process(&s->served[i]);
}

/* Sends our pidfd to the client: it is not our parent, but may want to kill us all the same. */
static void say_who(int sock)
{
	fd_auto self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (self >= 0)
		fd_send(sock, "", 1, &self, 1);
}

void symbolizer_serve(const struct symbolizer_limits *limits, const struct symbolizer_sockets *own)
{
	struct pollfd p[POLLED];
	struct server s = {.limits = limits, .own = own, .pid = getpid()};
	bool asked = true, readers = true;
	for (unsigned i = 0; i < SERVED_MAX; i++)
		s.served[i].process = s.served[i].answers = -1;
	fd_close_all_but((int[]){own->questions, own->readers}, 2);
	signal(SIGCHLD, SIG_DFL); /* each child is reaped by its pid */
	say_who(own->questions);
	prctl(PR_SET_NAME, "pilliond-names");
	while (asked) {
		asked = wait_for_any(&s, readers, p);
		end_some(&s, p);
		if (readers && p[READER].revents)
			readers = receive_request(&s, READER);
		if (asked && p[JOB].revents)
			asked = receive_request(&s, JOB);
	}
	end_all(&s);
	_exit(0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/elf/target_file.h"

#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "shim/attach/file_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READY_DEADLINE (500 * NSEC_PER_MSEC) /* of a new reader */
#define READY_PAUSE (2 * NSEC_PER_SEC)	     /* after a reader that was not ready */
#define ALIGNED (32u << 10)		     /* where a short read begins: the bytes around are mostly wanted next */

struct target_files {
	int server, sock; /* sock: of the reader; -1: none is asked for */
	int alive;	  /* a pipe: the server kills the reader when its read end is closed */
	uint32_t reader;  /* number of the reader */
	bool ready;	  /* it said so */
	int stat;	  /* its /proc/PID/stat, which came with that; -1: none did */
	bool broken, told;
	int64_t again; /* a new one not before */
	/* the last bytes that came: of this file from here */
	uint32_t handle;
	uint64_t offset;
	size_t n;
	bool eof;
	struct {
		struct reader_answer head;
		uint8_t bytes[TARGET_FILES_AT_ONCE];
	} in;
};

/* --- a reader ------------------------------------------------------------------------------------------- */

static void close_reader(struct target_files *s)
{
	s->sock = fd_close(s->sock);
	s->alive = fd_close(s->alive);
	s->stat = fd_close(s->stat);
	s->n = 0;
	s->ready = false;
}

static int ask_for_reader(struct target_files *s)
{
	int pair[2], pipe[2];
	if (s->broken)
		return -EPIPE;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	if (pipe2(pipe, O_CLOEXEC) < 0) {
		int r = -errno;
		fd_close(pair[0]);
		fd_close(pair[1]);
		return r;
	}
	int r = fd_send(s->server, "", 1, (int[]){pair[1], pipe[1]}, 2);
	fd_close(pair[1]);
	fd_close(pipe[1]);
	s->sock = pair[0];
	s->alive = pipe[0];
	s->reader++;
	if (r < 0) {
		close_reader(s);
		s->broken = r != -EAGAIN;
	}
	return r;
}

/* There is no reader to ask. Logs this in one line, however many files are wanted. */
static int without_reader(struct target_files *s, const char *reason)
{
	s->again = clock_now() + READY_PAUSE;
	if (!s->told)
		log_line(LOG_ERR, "outcome=files_not_read reason=\"%s\"", reason);
	s->told = true;
	return -EPIPE;
}

/* Something is in the socket: the process at its other end has not had the CPU to take it (unix_outq_len,
 * net/unix/af_unix.c). */
static bool is_untaken(int sock)
{
	int bytes = 0;
	return sock >= 0 && ioctl(sock, SIOCOUTQ, &bytes) == 0 && bytes > 0;
}

/*
 * The reader is on a CPU or waits for one, not for a file system (proc_pid_stat(5): state, behind the name in
 * parentheses).
 */
static bool is_runnable(const struct target_files *s)
{
	char text[64] = "";
	const ssize_t n = s->stat < 0 ? -1 : pread(s->stat, text, sizeof(text) - 1, 0);
	const char *name_end = n > 0 ? strrchr(text, ')') : NULL;
	return name_end && !strncmp(name_end, ") R ", 4);
}

/*
 * 1: there is an answer; 0: the wait is over; -errno. *ret_busy: how long the wait took, in turns (TARGET_FILES_TURN),
 * since the reader took the question. Turns do not count if the reader was runnable at their end, or waited for a file
 * opener that had not taken its question from `asked`.
 */
static int wait_for_reader(const struct target_files *s, int asked, int64_t patience, int64_t *ret_busy)
{
	const int64_t end = deadline_in(TARGET_FILES_WAIT_MAX);
	*ret_busy = 0;
	while (*ret_busy < patience && clock_now() < end) {
		int64_t begin = clock_now();
		int r = fd_wait(s->sock, POLLIN, begin + TARGET_FILES_TURN);
		int64_t took = clock_now() - begin;
		if (r != 0 || !(is_untaken(s->sock) || is_untaken(asked) || is_runnable(s)))
			*ret_busy += took < TARGET_FILES_TURN ? took : TARGET_FILES_TURN;
		if (r != 0)
			return r;
	}
	return 0;
}

/*
 * Receives an answer, which must have the size that it says. -EPIPE: the reader ended; -ETIMEDOUT; -EBUSY: there was no
 * CPU for it.
 */
static int receive_answer(struct target_files *s, int asked, int64_t patience, int64_t *ret_busy)
{
	size_t n = 0;
	int r = wait_for_reader(s, asked, patience, ret_busy);
	if (r <= 0)
		return r < 0 ? r : *ret_busy < patience ? -EBUSY : -ETIMEDOUT;
	int passed = -1; /* only with the reader's first answer, before it has opened any file */
	ssize_t got = fd_recv(s->sock, &s->in, sizeof(s->in), &passed, !s->ready, &n);
	if (n)
		s->stat = passed;
	if (got == 0)
		return -EPIPE;
	if (got < 0)
		return (int)got;
	return (size_t)got >= sizeof(s->in.head) && s->in.head.bytes == (size_t)got - sizeof(s->in.head) ? 0 : -EBADMSG;
}

/* The time that a reader takes to be ready does not count against the target. */
static int have_reader(struct target_files *s)
{
	int64_t unused;
	if (!s->ready && clock_now() < s->again) /* an attempt does not prolong the pause */
		return -EPIPE;
	int r = s->sock >= 0 ? 0 : ask_for_reader(s);
	if (r == 0 && !s->ready) {
		r = receive_answer(s, -1, READY_DEADLINE, &unused);
		s->ready = r == 0;
	}
	if (r == 0)
		return 0;
	if (r != -ETIMEDOUT && r != -EBUSY) /* on a busy machine a reader may be ready after the pause */
		close_reader(s);
	return without_reader(s, s->broken ? "the symbolizer's server has ended" : "no process for it");
}

/* Once its server has ended, no process kills a reader that hangs: it is asked for no file any more. */
void target_files_connect(struct target_files *s, int sock)
{
	close_reader(s);
	fd_close(s->server);
	s->server = sock;
	s->broken = sock < 0;
	s->told = false;
	s->again = 0;
	ask_for_reader(s);
}

int target_files_new(int sock, struct target_files **ret)
{
	struct target_files *s = calloc(1, sizeof(*s));
	if (!s) {
		fd_close(sock);
		return -ENOMEM;
	}
	s->server = s->sock = s->alive = s->stat = -1;
	target_files_connect(s, sock);
	*ret = s;
	return 0;
}

int target_files_socket(const struct target_files *s)
{
	return s->server;
}

struct target_files *target_files_free(struct target_files *s)
{
	if (s) {
		close_reader(s);
		fd_close(s->server);
	}
	free(s);
	return NULL;
}

bool target_files_broken(const struct target_files *s)
{
	return s->broken || s->told;
}

/* --- what a target may cost ----------------------------------------------------------------------------- */

static bool has_credit(struct target_files_account *a)
{
	int64_t now = clock_now();
	if (a->late < TARGET_FILES_LATE_MAX && now >= a->again &&
		a->spent < TARGET_FILES_CREDIT + (now - a->born) / TARGET_FILES_SHARE)
		return true;
	a->silent = true;
	return false;
}

static void was_late(struct target_files_account *a)
{
	a->late++;
	a->silent = true;
	a->again = clock_now() + TARGET_FILES_LATE_PAUSE;
	if (!a->told)
		log_line(LOG_WARNING, "target=%s outcome=files_not_read reason=\"%s\"", a->name,
			a->fault ? a->fault : "its file system does not answer");
	a->told = true;
}

/* The cost of an answer: the reader may have had it ready long before we had a CPU to look, or may have begun late. */
static int64_t compute_cost(int64_t waited, uint64_t took)
{
	const int64_t least = waited / TARGET_FILES_BELIEVED;
	return took >= (uint64_t)waited ? waited : (int64_t)took > least ? (int64_t)took : least;
}

/*
 * Asks one question; its answer is in s->in. A late, wrong or missing answer ends the reader, and with it the files
 * that it has open. asked: the socket on which the reader asks a file opener, -1: none.
 */
static int ask_further(struct target_files *s, struct target_files_account *a, const void *request, size_t size,
	const int *fds, size_t n, int asked)
{
	int64_t busy = 0;
	s->n = 0;
	int r = fd_send(s->sock, request, size, fds, n);
	if (r == 0)
		r = receive_answer(s, asked, TARGET_FILES_DEADLINE, &busy);
	a->spent += r == 0 ? compute_cost(busy, s->in.head.took) : busy;
	if (r == 0)
		return 0;
	if (r == -EBUSY && is_untaken(asked))
		r = -ETIMEDOUT;
	close_reader(s);
	if (r == -EBUSY)
		return without_reader(s, "its process had no CPU");
	if (r == -ETIMEDOUT)
		was_late(a);
	return r;
}

static int call_reader(struct target_files *s, struct target_files_account *a, const void *request, size_t size,
	const int *fds, size_t n)
{
	return ask_further(s, a, request, size, fds, n, -1);
}

/* --- files ---------------------------------------------------------------------------------------------- */

/* Keeps the bytes that came with the answer for the next reads. */
static void set_buffer_range(struct target_files *s, uint32_t handle, uint64_t offset, bool eof)
{
	s->handle = handle;
	s->offset = offset;
	s->n = s->in.head.bytes;
	s->eof = eof;
}

/* asked: a socket where the reader asks the file opener; -1: it opens the file itself. */
static int open_once(struct target_files *s, const struct target_files_place *p, struct target_files_account *a,
	const char *path, int asked, struct file *ret)
{
	struct {
		struct reader_request head;
		char path[PATH_MAX];
	} q = {.head = {.kind = READER_OPEN, .no_links = p->no_links, .asks = asked >= 0}};
	size_t len = strlen(path);
	int fds[] = {p->tree, asked >= 0 ? asked : p->passed};
	if (len >= sizeof(q.path))
		return -ENAMETOOLONG;
	memcpy(q.path, path, len);
	int r = ask_further(s, a, &q, sizeof(q.head) + len, fds, fds[1] < 0 ? 1 : 2, asked);
	if (r < 0)
		return r;
	const struct reader_answer *got = &s->in.head;
	if (got->result < 0)
		return got->result > -4096 ? got->result : -EBADMSG;
	if (got->result >= TARGET_FILES_OPEN_MAX || got->bytes > TARGET_FILES_BEGINNING_MAX ||
		(got->passed && (asked >= 0 || p->passed < 0))) {
		close_reader(s);
		return -EBADMSG;
	}
	*ret = (struct file){.files = s,
		.account = a,
		.handle = (uint32_t)got->result,
		.reader = s->reader,
		.fd = got->passed ? p->passed : p->tree,
		.opener = asked >= 0 ? p->opener : NULL,
		.id = got->id};
	if (!got->passed)
		memcpy(ret->path, path, len + 1);
	set_buffer_range(s, ret->handle, 0, got->eof);
	return 0;
}

/* If the reader has ended meanwhile, tries once more with a new one. */
static int open_by_reader(struct target_files *s, const struct target_files_place *p, struct target_files_account *a,
	const char *path, int asked, struct file *ret)
{
	int r = -EPIPE;
	if (!has_credit(a))
		return -ETIMEDOUT;
	for (int tries = 0; tries < 2 && r == -EPIPE; tries++) {
		r = have_reader(s);
		if (r < 0)
			return r;
		r = open_once(s, p, a, path, asked, ret);
	}
	return r;
}

/*
 * A message to the opener is in flight until it is taken, and counts against all our processes (unix(7), ETOOMANYREFS).
 * The opener may be a user's own program, and take nothing. The kernel counts a buffer for each message: 768 bytes
 * (6.18).
 */
static bool takes_nothing(int sock)
{
	int bytes = 0;
	return ioctl(sock, SIOCOUTQ, &bytes) < 0 || bytes > TARGET_FILES_OPENER_QUEUE;
}

int target_files_opener_connect(struct target_files_opener *o)
{
	if (!o || o->sock < 0 || !has_credit(&o->account))
		return -EACCES;
	if (takes_nothing(o->sock)) {
		was_late(&o->account);
		if (o->account.late >= TARGET_FILES_LATE_MAX)
			o->sock = fd_close(o->sock);
		return -EACCES;
	}
	int sock = file_opener_connect(o->sock);
	if (sock == -EPIPE || sock == -ECONNRESET || sock == -ENOTCONN) {
		o->ended = true;
		o->sock = fd_close(o->sock);
	}
	return sock < 0 ? -EACCES : sock;
}

/* Has the reader ask the file opener. A file that the opener does not open stays one that we may not read. */
static int open_by_opener(struct target_files *s, const struct target_files_place *p, struct target_files_account *a,
	const char *path, struct file *ret)
{
	struct target_files_opener *o = p->opener;
	fd_auto asked = target_files_opener_connect(o);
	if (asked < 0)
		return -EACCES;
	int r = open_by_reader(s, p, &o->account, path, asked, ret);
	if (r == 0)
		ret->account = a; /* from here on the target's file system is read */
	if (o->account.late >= TARGET_FILES_LATE_MAX)
		o->sock = fd_close(o->sock);
	return r == -ETIMEDOUT ? -EACCES : r;
}

int target_files_open(struct target_files *s, const struct target_files_place *p, struct target_files_account *a,
	const char *path, struct file *ret)
{
	int r = open_by_reader(s, p, a, path, -1, ret);
	return r == -EACCES && p->opener ? open_by_opener(s, p, a, path, ret) : r;
}

/* Fetches at least one byte of the file at `off` into s->in, or none: it ends there. */
static int read_chunk(struct target_files *s, const struct file *f, size_t size, uint64_t off)
{
	struct reader_request q = {.kind = READER_READ, .handle = f->handle, .size = TARGET_FILES_AT_ONCE};
	q.offset = size < TARGET_FILES_AT_ONCE / 2 ? off & ~(uint64_t)(ALIGNED - 1) : off;
	if (!has_credit(f->account))
		return -ETIMEDOUT;
	int r = call_reader(s, f->account, &q, sizeof(q), NULL, 0);
	if (r < 0)
		return r;
	if (s->in.head.result < 0)
		return s->in.head.result > -4096 ? s->in.head.result : -EBADMSG;
	set_buffer_range(s, f->handle, q.offset, s->in.head.bytes < q.size);
	return 0;
}

static bool is_kept(const struct target_files *s, const struct file *f, uint64_t off)
{
	return s->n && s->handle == f->handle && off >= s->offset && off - s->offset < s->n;
}

static ssize_t read_some(const struct file *f, void *buf, size_t size, uint64_t off)
{
	struct target_files *s = f->files;
	if (s->reader != f->reader || s->sock < 0)
		return f->account->silent ? -ETIMEDOUT : -ESTALE;
	if (!is_kept(s, f, off)) {
		if (s->n && s->handle == f->handle && s->eof && off >= s->offset)
			return 0;
		int r = read_chunk(s, f, size, off);
		if (r < 0 || !is_kept(s, f, off))
			return r;
	}
	size_t at = (size_t)(off - s->offset), n = s->n - at < size ? s->n - at : size;
	memcpy(buf, s->in.bytes + at, n);
	return (ssize_t)n;
}

ssize_t file_read(const struct file *f, void *buf, size_t size, uint64_t off)
{
	size_t have = 0;
	ssize_t n = 1;
	if (off > INT64_MAX - size)
		return 0;
	if (!f->files)
		return fd_pread_all(f->fd, buf, size, (off_t)off);
	while (have < size && n > 0) {
		n = read_some(f, (char *)buf + have, size - have, off + have);
		if (n > 0)
			have += (size_t)n;
	}
	return n < 0 ? n : (ssize_t)have;
}

/* Waits for the reader as well: this file system may hang, not the next one. */
void file_close(struct file *f)
{
	struct target_files *s = f->files;
	struct reader_request q = {.kind = READER_CLOSE, .handle = f->handle};
	if (s && s->reader == f->reader && s->sock >= 0)
		call_reader(s, f->account, &q, sizeof(q), NULL, 0);
	if (!s)
		fd_close(f->fd);
	f->fd = -1;
}

bool target_files_close_passed(struct target_files *s, struct target_files_account *a, int fd)
{
	struct reader_request q = {.kind = READER_CLOSE_PASSED};
	if (fd < 0)
		return true;
	if (!has_credit(a) || have_reader(s) < 0 || call_reader(s, a, &q, sizeof(q), &fd, 1) < 0)
		return false;
	fd_close(fd);
	return true;
}

static ssize_t read_source(void *arg, void *buf, size_t size, uint64_t off)
{
	return file_read(arg, buf, size, off);
}

struct elf_source file_source(const struct file *f)
{
	return (struct elf_source){.read = read_source, .arg = (void *)f};
}

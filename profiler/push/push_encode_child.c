/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/push/push_encode_child.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/seccomp.h"
#include "profiler/pprof/pprof.h"
#include "profiler/push/profile_split.h"
#include "profiler/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLICE_NS (100 * NSEC_PER_MSEC)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

/* The memfd: this, `n` rows, and the bytes that the rows point at. */
struct head {
	uint64_t n;
};
struct span {
	uint64_t at, len; /* a text: with its NUL; 0, 0: NULL */
};
struct row {
	struct span path, method, content_type, content_encoding, body;
	uint64_t samples;
};

struct said {
	int32_t code; /* 0: the memfd is complete; else it never will be */
	char text[320];
};

/* To the maker, with the descriptors of the file, the memfd and the socket for the answer. */
struct question {
	uint32_t form, reserved;
	uint64_t bytes, samples;
	struct push_progress sent;
	char target[SPOOL_TARGET_MAX + 1], file[SPOOL_TARGET_MAX + 256], kind[64], node[256];
};
enum { FD_FILE, FD_OUT, FD_ANSWER, FDS };

/* --- the process ------------------------------------------------------------------------------------------ */

static struct span reserve_span(uint64_t *end, size_t len)
{
	const struct span s = {*end, len};
	*end += len;
	return s;
}

static struct span place_text(uint64_t *end, const char *text)
{
	return text ? reserve_span(end, strlen(text) + 1) : (struct span){0, 0};
}

static int write_text(int fd, const char *text)
{
	return text ? fd_write_all(fd, text, strlen(text) + 1) : 0;
}

static int write_rows(int fd, const struct push_request *r, size_t n)
{
	uint64_t end = sizeof(struct head) + n * sizeof(struct row);
	int ok = fd_write_all(fd, &(struct head){n}, sizeof(struct head));
	for (size_t i = 0; ok == 0 && i < n; i++) {
		struct row row = {.samples = r[i].samples};
		row.path = place_text(&end, r[i].path);
		row.method = place_text(&end, r[i].method);
		row.content_type = place_text(&end, r[i].content_type);
		row.content_encoding = place_text(&end, r[i].content_encoding);
		row.body = reserve_span(&end, r[i].len);
		ok = fd_write_all(fd, &row, sizeof(row));
	}
	return end > PUSH_ENCODE_CHILD_BYTES_MAX ? -EFBIG : ok;
}

static int write_requests(int fd, const struct push_request *r, size_t n)
{
	int ok = n > PUSH_ENCODE_CHILD_REQUESTS_MAX ? -E2BIG : write_rows(fd, r, n);
	for (size_t i = 0; ok == 0 && i < n; i++) {
		ok = write_text(fd, r[i].path);
		if (ok == 0)
			ok = write_text(fd, r[i].method);
		if (ok == 0)
			ok = write_text(fd, r[i].content_type);
		if (ok == 0)
			ok = write_text(fd, r[i].content_encoding);
		if (ok == 0)
			ok = fd_write_all(fd, r[i].body, r[i].len);
	}
	return ok;
}

/* Replaces *p by its samples from sent->samples on, with a time that no part before it had (push_encode.h: times
 * are a millisecond apart). */
static int skip_samples(struct profile **p, const struct push_progress *sent)
{
	struct profile *rest;
	struct profile_split part = {.from = *p,
		.first = sent->samples,
		.text_max = PROFILE_SPLIT_TEXT_MAX,
		.depth_max = PROFILE_SPLIT_DEPTH_MAX,
		.info = *profile_info(*p)};
	if (!sent->samples || sent->samples >= profile_samples(*p))
		return 0;
	part.n = profile_samples(*p) - sent->samples;
	part.info.time_ns += sent->requests * NSEC_PER_MSEC;
	int r = profile_split_make(&part, &rest);
	if (r == 0)
		*p = rest;
	return r;
}

static int encode_file(const struct question *q, const int *fds, struct err *e)
{
	const struct push_limits limits = {.bytes = q->bytes, .samples = q->samples};
	const struct push_source of = {.target = q->target, .file = q->file, .kind = q->kind, .node = q->node};
	struct profile *profile = NULL;
	struct push_request *requests = NULL;
	char *data = NULL;
	size_t len, n = 0;
	int r = fd_slurp(fds[FD_FILE], PPROF_READ_MAX, &data, &len);
	if (r < 0)
		return err_set(e, r, "cannot read it");
	if (q->form != PUSH_PUT)
		r = pprof_read(data, len, &profile, e);
	if (r == 0 && profile)
		r = skip_samples(&profile, &q->sent);
	if (r == 0)
		r = push_requests(q->form, &limits, &of, profile, data, len, &requests, &n, e);
	if (r == 0 && write_requests(fds[FD_OUT], requests, n) < 0)
		r = err_say(e, -EFBIG, "it is too large to be sent");
	return r; /* nothing is freed: the process ends */
}

static _Noreturn void become_job(const struct question *q, const int *fds)
{
	struct said said = {0};
	struct err e = {0};
	prctl(PR_SET_NAME, "pillion-form");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd_close_all_but(fds, FDS);
	if (child_process_bound(PUSH_ENCODE_CHILD_MEMORY, PUSH_ENCODE_CHILD_S) < 0 ||
		seccomp_enter(SECCOMP_PAGE, &e) < 0)
		_exit(1);
	said.code = encode_file(q, fds, &e);
	if (said.code == -ENOMEM)
		err_say(&e, -ENOMEM, "it is too large: its requests take more than %lu MiB",
			PUSH_ENCODE_CHILD_MEMORY >> 20);
	if (said.code == 0 && fcntl(fds[FD_OUT], F_ADD_SEALS, SEALS | F_SEAL_SEAL) < 0)
		_exit(1);
	memcpy(said.text, e.text, sizeof(said.text));
	_exit(fd_send(fds[FD_ANSWER], &said, sizeof(said), NULL, 0) < 0);
}

static bool is_question(struct question *q)
{
	char *const ends[] = {&q->target[sizeof(q->target) - 1], &q->file[sizeof(q->file) - 1],
		&q->kind[sizeof(q->kind) - 1], &q->node[sizeof(q->node) - 1]};
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		*ends[i] = 0;
	return q->form < PUSH_DIRECTORY;
}

static _Noreturn void serve_questions(int sock)
{
	struct question q;
	int fds[FDS];
	size_t n;
	for (;;) {
		n = 0;
		ssize_t got = fd_recv(sock, &q, sizeof(q), fds, FDS, &n);
		if (got == -EINTR)
			continue;
		if (got <= 0)
			_exit(0);
		const bool whole = got == sizeof(q) && n == FDS && is_question(&q);
		const pid_t pid = whole ? fork() : 1;
		if (pid == 0)
			become_job(&q, fds);
		if (pid < 0) /* not this file's fault: the pushing process ends, too, and is started again later */
			_exit(1);
		fd_close_each(fds, n);
	}
}

static _Noreturn void become_maker(struct push_endpoint *all, size_t n, pid_t parent, int sock)
{
	struct err e = {0};
	child_process_die_with(parent);
	for (size_t i = 0; i < n; i++)
		push_endpoint_forget(&all[i]);
	prctl(PR_SET_NAME, "pillion-maker");
	fd_close_all_but(&sock, 1);
	signal(SIGTERM, SIG_IGN); /* sent to the whole group; the maker ends with its socket, after files under way */
	signal(SIGINT, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* the kernel reaps its jobs */
	if (capabilities_limit(0, &e) < 0 || seccomp_enter(SECCOMP_MAKER, &e) < 0)
		_exit(1);
	serve_questions(sock);
}

int encoder_start(struct push_endpoint *all, size_t n, struct encoder_process *ret, struct err *e)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "cannot fork");
	const pid_t parent = getpid();
	*ret = (struct encoder_process){.sock = pair[0], .pid = fork()};
	if (ret->pid == 0)
		become_maker(all, n, parent, pair[1]);
	fd_close(pair[1]);
	if (ret->pid < 0) {
		int r = -errno;
		ret->sock = fd_close(ret->sock);
		return err_set(e, r, "cannot fork");
	}
	return 0;
}

void encoder_stop(struct encoder_process *m)
{
	m->sock = fd_close(m->sock);
	if (m->pid > 0)
		child_process_wait(m->pid, deadline_in(NSEC_PER_SEC));
	m->pid = 0;
}

/* --- the pushing process ---------------------------------------------------------------------------------- */

static bool text_at(const struct push_batch *b, const struct span *s, const char **ret)
{
	*ret = NULL;
	if (!s->len)
		return true;
	if (s->at >= b->len || s->len > b->len - s->at || ((const char *)b->map)[s->at + s->len - 1])
		return false;
	*ret = (const char *)b->map + s->at;
	return true;
}

/* A text for a line of HTTP must have no line end. */
static bool is_line(const char *text)
{
	for (; text && *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

static bool read_row(const struct push_batch *b, const struct row *row, struct push_request *ret)
{
	const char *path, *method, *type, *encoding;
	if (!text_at(b, &row->path, &path) || !text_at(b, &row->method, &method) ||
		!text_at(b, &row->content_type, &type) || !text_at(b, &row->content_encoding, &encoding) ||
		row->body.at > b->len || row->body.len > b->len - row->body.at)
		return false;
	if (!path || path[0] != '/' || !method || (strcmp(method, "POST") && strcmp(method, "PUT")) || !is_line(path) ||
		!is_line(type) || !is_line(encoding))
		return false;
	*ret = (struct push_request){.path = (char *)path,
		.method = method,
		.content_type = (char *)type,
		.content_encoding = encoding,
		.body = (uint8_t *)b->map + row->body.at,
		.len = row->body.len,
		.samples = row->samples};
	return true;
}

int push_encode_child_read(int fd, struct push_batch *ret)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !fd_is_sealed(fd, SEALS) || st.st_size > PUSH_ENCODE_CHILD_BYTES_MAX ||
		(size_t)st.st_size < sizeof(struct head))
		return -EBADMSG;
	struct push_batch b = {.len = (size_t)st.st_size};
	b.map = mmap(NULL, b.len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (b.map == MAP_FAILED)
		return -errno;
	const struct head *head = b.map;
	const struct row *rows = (const struct row *)(head + 1);
	bool ok = head->n <= PUSH_ENCODE_CHILD_REQUESTS_MAX && sizeof(*head) + head->n * sizeof(*rows) <= b.len;
	b.n = ok ? head->n : 0;
	b.requests = calloc(b.n + 1, sizeof(*b.requests));
	ok = ok && b.requests;
	for (size_t i = 0; ok && i < b.n; i++)
		ok = read_row(&b, &rows[i], &b.requests[i]);
	if (!ok) {
		push_encode_child_done(&b);
		return -EBADMSG;
	}
	*ret = b;
	return 0;
}

/* Waits for an answer. 1: `sock` is readable; 0: it took too long. */
static int wait_for(int sock, const volatile int *stop)
{
	const int64_t deadline = deadline_in((PUSH_ENCODE_CHILD_S + 5) * NSEC_PER_SEC);
	int r = 0;
	while (r == 0 && deadline_left_ms(deadline) > 0) {
		if (stop && *stop)
			return -EINTR;
		r = fd_wait(sock, POLLIN, deadline_in(SLICE_NS));
		if (r == -EINTR)
			r = 0;
	}
	return r;
}

static int receive_answer(int sock, int out, const volatile int *stop, struct push_batch *ret, struct err *e)
{
	struct said said;
	size_t n = 0;
	const int64_t began = clock_now();
	int r = wait_for(sock, stop);
	if (r == -EINTR)
		return err_say(e, r, "stopped");
	ssize_t got = r == 1 ? fd_recv(sock, &said, sizeof(said), NULL, 0, &n) : 0;
	if (got != sizeof(said) && clock_now() - began > (PUSH_ENCODE_CHILD_S - 1) * NSEC_PER_SEC)
		return err_say(e, -ETIME, "to make its requests took more than %d s", PUSH_ENCODE_CHILD_S);
	if (got != sizeof(said))
		return err_say(e, -EPIPE, "the process that was to make its requests has died");
	said.text[sizeof(said.text) - 1] = 0;
	if (said.code < 0)
		return err_say(e, -EBADMSG, "%s", said.text);
	r = push_encode_child_read(out, ret);
	return r == -ENOMEM ? err_set(e, r, "cannot send it")
	       : r < 0	    ? err_set(e, -EBADMSG, "cannot understand the process that made its requests")
			    : 0;
}

static void fill_question(const struct push_question *q, struct question *ret)
{
	*ret = (struct question){
		.form = q->form, .bytes = q->limits.bytes, .samples = q->limits.samples, .sent = q->sent};
	snprintf(ret->target, sizeof(ret->target), "%s", q->of.target);
	snprintf(ret->file, sizeof(ret->file), "%s", q->of.file);
	snprintf(ret->kind, sizeof(ret->kind), "%s", q->of.kind);
	snprintf(ret->node, sizeof(ret->node), "%s", q->of.node);
}

int push_encode_child_run(const struct encoder_process *m, int fd, const struct push_question *q,
	const volatile int *stop, struct push_batch *ret, struct err *e)
{
	struct question question;
	int pair[2];
	fd_auto out = memfd_create("push", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (out < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "cannot ask for its requests");
	fd_auto mine = pair[0];
	fill_question(q, &question);
	int r = fd_send(m->sock, &question, sizeof(question), (int[]){fd, out, pair[1]}, FDS);
	fd_close(pair[1]);
	return r < 0 ? err_set(e, -ECONNRESET, "the process that makes requests has ended")
		     : receive_answer(mine, out, stop, ret, e);
}

void push_encode_child_done(struct push_batch *b)
{
	free(b->requests);
	if (b->map)
		munmap(b->map, b->len);
	*b = (struct push_batch){0};
}

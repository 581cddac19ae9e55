/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/symbol/symbolizer_client.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "profiler/symbol/symtab.h"
#include "shim/attach/file_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_AT_ONCE (64u << 10)

struct symbolizer {
	int sock;
	unsigned asked; /* questions that are open */
	bool left;	/* symbolizer_free was called: the last question frees it */
};

struct job {
	struct symbolizer *symbolizer;
	struct event_loop *loop;
	struct event_loop_source source;
	struct symbolizer_callbacks asking;
	struct symbolizer_response_parser answers;
	int pipe;
	uint64_t *vaddrs;
	uint8_t *buffer;
	size_t used, room, total;
};

/* --- the server at hand --------------------------------------------------------------------------------- */

int symbolizer_new(int sock, struct symbolizer **ret)
{
	struct symbolizer *s = calloc(1, sizeof(*s));
	if (!s) {
		fd_close(sock);
		return -ENOMEM;
	}
	s->sock = sock;
	*ret = s;
	return 0;
}

int symbolizer_socket(const struct symbolizer *s)
{
	return s->sock;
}

struct symbolizer *symbolizer_free(struct symbolizer *s)
{
	if (s) {
		s->sock = fd_close(s->sock); /* this ends the server and its jobs; we do not wait for it */
		s->left = true;
		if (!s->asked)
			free(s);
	}
	return NULL;
}

bool symbolizer_has_ended(const struct symbolizer *s)
{
	return s->sock < 0 || fd_is_hung_up(s->sock);
}

void symbolizer_close(struct symbolizer_sockets *s)
{
	s->questions = fd_close(s->questions);
	s->readers = fd_close(s->readers);
}

int symbolizer_process(int questions)
{
	char any;
	int fd = -1;
	size_t n = 0;
	ssize_t got = fd_recv(questions, &any, sizeof(any), &fd, 1, &n);
	return got < 0 ? (int)got : got == 0 ? -EPIPE : n ? fd : -EPROTO;
}

void symbolizer_kill(int questions)
{
	fd_auto process = symbolizer_process(questions);
	if (process >= 0)
		child_process_kill(process);
}

bool symbolizer_busy(const struct symbolizer *s)
{
	return s->asked >= SYMBOLIZER_ASKED_MAX;
}

/* --- asking -------------------------------------------------------------------------------------------- */

static bool same_name(const struct symbolizer_request *q, size_t i)
{
	return i && q->names[i] && q->names[i - 1] && !strcmp(q->names[i], q->names[i - 1]);
}

static size_t name_size(const struct symbolizer_request *q, size_t i)
{
	return same_name(q, i) ? 0 : q->names[i] ? strnlen(q->names[i], SYMBOLIZER_NAME_MAX) + 1 : 1;
}

/* asked: the socket on which the job asks the file opener; -1: the job opens the file itself. */
static void fill_question_file(const struct file *f, int asked, struct question_file *ret)
{
	ret->wanted = f != NULL;
	ret->asks = f && asked >= 0;
	if (!f)
		return;
	ret->id = f->id;
	memcpy(ret->path, f->path, sizeof(ret->path));
}

/* Packs the question into malloc'ed bytes. *ret_taken: how many addresses fit. */
static int pack_question(
	const struct symbolizer_request *q, const int *asked, uint8_t **ret, size_t *ret_size, size_t *ret_taken)
{
	size_t size = sizeof(struct question_head), at = size, n = 0;
	for (; n < q->n; n++) {
		size_t more = sizeof(struct question_item) + name_size(q, n);
		if (more > SYMBOLIZER_QUESTION_MAX - size)
			break;
		size += more;
	}
	struct question_head head = {.n = (uint32_t)n, .separate = q->separate, .facts = q->facts != NULL};
	fill_question_file(q->debug, asked[0], &head.debug);
	fill_question_file(q->alt, asked[1], &head.alt);
	uint8_t *bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	memcpy(bytes, &head, sizeof(head));
	for (size_t i = 0; i < n; i++) {
		struct question_item item = {.vaddr = q->vaddrs[i],
			.label_floor = q->label_floors ? q->label_floors[i] : symtab_label_floor(q->vaddrs[i]),
			.name_size = (uint32_t)name_size(q, i),
			.index = (uint32_t)i};
		memcpy(bytes + at, &item, sizeof(item));
		at += sizeof(item);
		if (item.name_size > 1)
			memcpy(bytes + at, q->names[i], item.name_size - 1);
		if (item.name_size)
			bytes[at + item.name_size - 1] = 0;
		at += item.name_size;
	}
	*ret = bytes;
	*ret_size = size;
	*ret_taken = n;
	return 0;
}

_Static_assert(FILE_OPENER_CLIENTS_MAX > 2 * SYMBOLIZER_ASKED_MAX + 2, "of each question two files, and a reader's");

/*
 * Returns a socket on which the job asks the file opener. < 0: the job tries to open the file itself; without the file
 * there are fewer names.
 */
static int connect_for(const struct file *f)
{
	return f && f->opener ? target_files_opener_connect(f->opener) : -1;
}

/*
 * Sends the descriptors of the files in a socket of their own. The server passes this socket to the job and never
 * receives from it.
 */
static int send_files(const struct symbolizer_request *q, const int *asked, int *ret)
{
	const struct file *files[] = {q->debug, q->alt};
	int pair[2], fds[2];
	size_t n = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	for (size_t i = 0; i < 2; i++)
		if (files[i])
			fds[n++] = asked[i] >= 0 ? asked[i] : files[i]->fd;
	int r = fd_send(pair[0], "", 1, fds, n);
	fd_close(pair[0]);
	*ret = r < 0 ? fd_close(pair[1]) : pair[1];
	return r;
}

static int send_question(const struct symbolizer *s, const struct symbolizer_request *q, int answers, size_t *ret_taken)
{
	uint8_t *bytes;
	size_t size;
	fd_auto debug = connect_for(q->debug);
	fd_auto alt = connect_for(q->alt);
	const int asked[] = {debug, alt};
	int r = pack_question(q, asked, &bytes, &size, ret_taken);
	if (r < 0)
		return r;
	fd_auto fd = memfd_create("question", MFD_CLOEXEC);
	r = fd < 0 ? -errno : fd_write_all(fd, bytes, size);
	free(bytes);
	fd_auto files = -1;
	if (r == 0)
		r = send_files(q, asked, &files);
	int fds[QUESTION_FDS] = {[QUESTION_ITSELF] = fd, [QUESTION_ANSWERS] = answers, [QUESTION_FILES] = files};
	if (r == 0)
		r = fd_send(s->sock, "", 1, fds, QUESTION_FDS);
	return r == -ECONNRESET ? -EPIPE : r; /* the server ended with a question unread, or before */
}

static void job_free(struct job *j)
{
	event_loop_del(j->loop, &j->source);
	fd_close(j->pipe); /* if the job still runs, the server kills it for this */
	if (--j->symbolizer->asked == 0 && j->symbolizer->left)
		free(j->symbolizer);
	free(j->answers.answered);
	free(j->vaddrs);
	free(j->buffer);
	free(j);
}

static void finish_job(struct job *j, bool good)
{
	struct symbolizer_callbacks a = j->asking;
	const struct symbolizer_response_parser *got = &j->answers;
	enum symbolizer_outcome outcome = good && got->ended && got->n_answered == got->n ? SYMBOLIZER_COMPLETE
					  : symbolizer_has_ended(j->symbolizer)		  ? SYMBOLIZER_GONE
					  : got->begun					  ? SYMBOLIZER_BROKEN
											  : SYMBOLIZER_UNHEARD;
	job_free(j);
	a.done(a.arg, outcome);
}

void symbolizer_cancel(struct job *j)
{
	job_free(j);
}

/* --- answers: hostile bytes may have taken over their sender ------------------------------------------- */

static bool take_text(const uint8_t **at, const uint8_t *end, uint32_t size, const char **ret)
{
	if (!size || size > SYMBOLIZER_NAME_MAX + 1 || (size_t)(end - *at) < size || (*at)[size - 1])
		return false;
	*ret = (const char *)*at;
	*at += size;
	return true;
}

static bool take_lines(struct symbolizer_response_parser *a, const struct answer_head *head, const uint8_t *at)
{
	struct symbol_line lines[NAME_CACHE_LINES_MAX];
	const uint8_t *end = at + head->size;
	if (head->index >= a->n || head->n > NAME_CACHE_LINES_MAX || a->answered[head->index])
		return false;
	for (uint32_t i = 0; i < head->n; i++) {
		struct answer_line l;
		if ((size_t)(end - at) < sizeof(l))
			return false;
		memcpy(&l, at, sizeof(l));
		at += sizeof(l);
		lines[i] = (struct symbol_line){.line = l.line, .start = l.start};
		if (!take_text(&at, end, l.name, &lines[i].name) ||
			!take_text(&at, end, l.linkage, &lines[i].linkage) ||
			!take_text(&at, end, l.file, &lines[i].file))
			return false;
	}
	a->answered[head->index] = 1;
	a->n_answered++;
	a->take(a->arg, head->index, lines, head->n);
	return true;
}

static bool take_facts(struct symbolizer_response_parser *a, const struct answer_head *head, const uint8_t *at)
{
	struct debug_facts f;
	if (!a->facts || head->size != sizeof(f))
		return false;
	memcpy(&f, at, sizeof(f));
	if (f.id.len > ELF_BUILD_ID_MAX || f.alt_id.len > ELF_BUILD_ID_MAX || f.n_segments > DEBUG_SEGMENTS_MAX ||
		f.link[sizeof(f.link) - 1] || f.alt[sizeof(f.alt) - 1])
		return false;
	*a->facts = f;
	return true;
}

static bool take_one(struct symbolizer_response_parser *a, const struct answer_head *head, const uint8_t *at)
{
	if (head->index == ANSWER_FACTS)
		return take_facts(a, head, at);
	bool mark = head->index == ANSWER_BEGUN || head->index == ANSWER_END;
	if (!mark)
		return take_lines(a, head, at);
	*(head->index == ANSWER_END ? &a->ended : &a->begun) = true;
	return head->size == 0;
}

ssize_t answers_take(struct symbolizer_response_parser *a, const uint8_t *bytes, size_t size)
{
	size_t at = 0;
	while (!a->ended) {
		struct answer_head head;
		if (size - at < sizeof(head))
			break;
		memcpy(&head, bytes + at, sizeof(head));
		if (head.size > SYMBOLIZER_ANSWER_MAX)
			return -EBADMSG;
		if (size - at - sizeof(head) < head.size)
			break;
		if (!take_one(a, &head, bytes + at + sizeof(head)))
			return -EBADMSG;
		at += sizeof(head) + head.size;
	}
	return (ssize_t)at;
}

static void on_parsed_answer(void *arg, uint32_t index, const struct symbol_line *lines, size_t n)
{
	struct job *j = arg;
	j->asking.answer(j->asking.arg, j->vaddrs[index], lines, n);
}

static bool make_room(struct job *j)
{
	if (j->room - j->used >= READ_AT_ONCE)
		return true;
	size_t room = j->used + 2 * READ_AT_ONCE;
	uint8_t *bigger = realloc(j->buffer, room);
	if (!bigger)
		return false;
	j->buffer = bigger;
	j->room = room;
	return true;
}

static void on_answers(void *arg, uint32_t events)
{
	struct job *j = arg;
	ssize_t taken = -1, got = make_room(j) ? read(j->pipe, j->buffer + j->used, READ_AT_ONCE) : 0;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got > 0) {
		j->used += (size_t)got;
		j->total += (size_t)got;
		taken = j->total > SYMBOLIZER_ANSWERS_MAX ? -EFBIG : answers_take(&j->answers, j->buffer, j->used);
	}
	if (taken < 0 || j->answers.ended) {
		finish_job(j, taken >= 0);
		return;
	}
	j->used -= (size_t)taken;
	memmove(j->buffer, j->buffer + taken, j->used);
}

static int open_job(struct job *j, const struct symbolizer_request *q, int *ret_answers)
{
	int pipe[2];
	j->vaddrs = malloc((q->n + 1) * sizeof(j->vaddrs[0]));
	j->answers.answered = calloc(q->n + 1, 1);
	if (!j->vaddrs || !j->answers.answered)
		return -ENOMEM;
	memcpy(j->vaddrs, q->vaddrs, q->n * sizeof(j->vaddrs[0]));
	if (pipe2(pipe, O_CLOEXEC) < 0)
		return -errno;
	j->pipe = pipe[0];
	fcntl(j->pipe, F_SETFL, O_NONBLOCK);
	*ret_answers = pipe[1];
	return 0;
}

int symbolizer_ask(struct symbolizer *s, struct event_loop *l, const struct symbolizer_request *q,
	const struct symbolizer_callbacks *a, size_t *ret_taken, struct job **ret)
{
	int answers = -1;
	struct job *j = symbolizer_busy(s) ? NULL : calloc(1, sizeof(*j));
	if (!j)
		return symbolizer_busy(s) ? -EBUSY : -ENOMEM;
	s->asked++;
	*j = (struct job){.symbolizer = s, .loop = l, .source.fd = -1, .asking = *a, .pipe = -1};
	j->answers.take = on_parsed_answer;
	j->answers.arg = j;
	j->answers.facts = q->facts;
	int r = open_job(j, q, &answers);
	if (r == 0)
		r = send_question(s, q, answers, &j->answers.n);
	fd_close(answers);
	if (r == 0)
		r = event_loop_add(l, &j->source, j->pipe, EPOLLIN, on_answers, j);
	if (r < 0) {
		job_free(j);
		return r;
	}
	*ret_taken = j->answers.n;
	*ret = j;
	return 0;
}

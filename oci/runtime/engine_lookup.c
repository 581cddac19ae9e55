/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/engine_lookup.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/json/json_parse.h"
#include "oci/base/process/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MAX (1u << 20)
#define ARGS_MAX 8
#define FORMAT "{{.State.Pid}} {{.Id}} {{.Name}}"

/* In order of preference. The name follows the last argument. Answers are "PID ID NAME", or the state JSON of the
 * runtime spec. */
static const struct engine {
	const char *program;
	const char *args[ARGS_MAX - 2];
} engines[] = {
	{"podman", {"container", "inspect", "--format", FORMAT}},
	{"docker", {"container", "inspect", "--format", FORMAT}},
	{"nerdctl", {"container", "inspect", "--format", FORMAT}},
	{"crictl", {"inspect", "-o", "go-template", "--template",
			   "{{.info.pid}} {{.status.id}} {{.status.metadata.name}}"}},
	{"runc", {"state"}},
	{"crun", {"state"}},
};
#define N_ENGINES (sizeof(engines) / sizeof(engines[0]))

/* All engines are asked at the same time: one that hangs holds up no other. */
struct question {
	const struct engine *engine;
	pid_t pid;
	int from; /* pipe from its stdout */
	char *answer;
	size_t len;
	enum { PENDING, UNKNOWN, KNOWN } state;
	struct engine_container container; /* if KNOWN */
};

static bool is_installed(const char *program)
{
	char path[4096];
	const char *dirs = getenv("PATH");
	if (!dirs)
		return false;
	for (const char *dir = dirs;; dir += strcspn(dir, ":") + 1) {
		size_t len = strcspn(dir, ":");
		snprintf(path, sizeof(path), "%.*s/%s", (int)len, dir, program);
		if (access(path, X_OK) == 0)
			return true;
		if (!dir[len])
			return false;
	}
}

static _Noreturn void exec_engine(const struct engine *g, const char *what, int to)
{
	char *argv[ARGS_MAX] = {(char *)g->program};
	size_t n = 1;
	for (size_t i = 0; i < ARGS_MAX - 2 && g->args[i]; i++)
		argv[n++] = (char *)g->args[i];
	argv[n] = (char *)what;
	dup2(to, 1);
	int null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	dup2(null, 0);
	dup2(null, 2);
	execvp(g->program, argv);
	_exit(127);
}

static int parse_line(const char *text, struct engine_container *ret)
{
	int pid;
	if (sscanf(text, "%d %255s %255s", &pid, ret->id, ret->name) != 3)
		return -EBADMSG;
	if (ret->name[0] == '/') /* docker's names have a slash in front */
		memmove(ret->name, ret->name + 1, strlen(ret->name));
	ret->pid = pid;
	return 0;
}

static int parse_state(const char *text, size_t len, struct engine_container *ret)
{
	struct json *doc;
	int64_t pid = 0;
	int r = json_parse(text, len, &doc, NULL);
	if (r < 0)
		return r;
	const char *id = json_text(json_member(doc, "id"), NULL), *status = json_text(json_member(doc, "status"), NULL);
	r = id && json_number(json_member(doc, "pid"), &pid) == 0 ? 0 : -EBADMSG;
	if (r == 0) {
		snprintf(ret->id, sizeof(ret->id), "%s", id);
		snprintf(ret->name, sizeof(ret->name), "%s", id);
		const char *bundle = json_text(json_member(doc, "bundle"), NULL);
		snprintf(ret->bundle, sizeof(ret->bundle), "%s", bundle ? bundle : "");
		ret->pid = status && !strcmp(status, "stopped") ? 0 : (pid_t)pid;
	}
	json_free(doc);
	return r;
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

static void query_engine(struct question *q, const struct engine *g, const char *what)
{
	int line;
	*q = (struct question){.engine = g, .from = -1, .answer = malloc(ANSWER_MAX), .state = UNKNOWN};
	q->pid = q->answer ? child_process_fork_answering(&line) : -ENOMEM; /* also where SIGCHLD is ignored */
	if (q->pid == 0)
		exec_engine(g, what, line);
	if (q->pid < 0)
		return;
	q->from = line;
	q->state = PENDING;
}

static void finish_question(struct question *q, int64_t deadline)
{
	q->from = fd_close(q->from);
	q->state = UNKNOWN;
	if (child_process_wait(q->pid, deadline) != 0)
		return;
	q->answer[q->len] = 0;
	int r = q->answer[strspn(q->answer, " \t\n")] == '{' ? parse_state(q->answer, q->len, &q->container)
							     : parse_line(q->answer, &q->container);
	q->state = r == 0 ? KNOWN : UNKNOWN;
}

/* There is something to be read. */
static void read_answer(struct question *q, int64_t deadline)
{
	ssize_t n = read(q->from, q->answer + q->len, ANSWER_MAX - 1 - q->len);
	if (n > 0)
		q->len += (size_t)n;
	if (n == 0 || (n < 0 && errno != EINTR) || q->len == ANSWER_MAX - 1)
		finish_question(q, deadline);
}

static void close_question(struct question *q)
{
	if (q->state == PENDING) {
		fd_close(q->from);
		child_process_wait(q->pid, 0); /* kills it */
	}
	free(q->answer);
}

static struct question *first_in(struct question *qs, size_t n, unsigned states)
{
	for (size_t i = 0; i < n; i++)
		if (states & 1u << qs[i].state)
			return &qs[i];
	return NULL;
}

/* False: no time is left. */
static bool listen_to(struct question *qs, size_t n, int64_t until, int64_t deadline)
{
	struct pollfd polls[N_ENGINES];
	for (size_t i = 0; i < n; i++)
		polls[i] = (struct pollfd){qs[i].state == PENDING ? qs[i].from : -1, POLLIN, 0};
	if (poll(polls, n, deadline_left_ms(until)) == 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (polls[i].fd >= 0 && polls[i].revents)
			read_answer(&qs[i], deadline);
	return true;
}

/*
 * Returns the first engine in order that knows the container. As soon as one knows it, those before it have half of the
 * time that is left: an engine that hangs is passed over.
 */
static struct question *wait_for_answer(struct question *qs, size_t n, int64_t deadline)
{
	struct question *first;
	int64_t until = deadline;
	while ((first = first_in(qs, n, 1u << PENDING | 1u << KNOWN)) && first->state == PENDING) {
		if (until == deadline && first_in(qs, n, 1u << KNOWN))
			until = clock_now() + (deadline - clock_now()) / 2;
		if (!listen_to(qs, n, until, deadline))
			break;
	}
	return first_in(qs, n, 1u << KNOWN);
}

/* --- */

static int tell_unknown(const struct question *qs, size_t n, const char *shown, struct err *e)
{
	char asked[128] = "";
	size_t at = 0;
	for (size_t i = 0; i < n && at < sizeof(asked); i++) {
		if (qs[i].state == PENDING)
			return err_say(e, -ETIMEDOUT,
				"no container \"%s\" yet, and no more time: %s takes long to answer; give a pid, or "
				"try again",
				shown, qs[i].engine->program);
		at += (size_t)snprintf(asked + at, sizeof(asked) - at, "%s%s", at ? ", " : "", qs[i].engine->program);
	}
	return err_say(e, -ENOENT, "no container \"%s\" (%s%s): give a name, an id or a pid", shown,
		n ? "asked " : "no engine is installed", asked);
}

int engine_lookup_find(const char *what, int64_t deadline, struct engine_container *ret, struct err *e)
{
	struct question qs[N_ENGINES];
	char shown[ERR_SHOWN];
	size_t n = 0;
	*ret = (struct engine_container){0};
	err_shown(what, strlen(what), shown);
	if (what[0] == '-')
		return err_say(e, -EINVAL, "\"%s\" is neither a process nor a container", shown);
	for (size_t i = 0; i < N_ENGINES; i++)
		if (is_installed(engines[i].program))
			query_engine(&qs[n++], &engines[i], what);
	const struct question *q = wait_for_answer(qs, n, deadline);
	int r = q ? 0 : tell_unknown(qs, n, shown, e);
	if (q && q->container.pid > 0)
		*ret = q->container;
	else if (q)
		r = err_say(e, -ESRCH, "container %s (%s) is not running", shown, q->engine->program);
	for (size_t i = 0; i < n; i++)
		close_question(&qs[i]);
	return r;
}

#include "oci/engines.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process.h"
#include "oci/json.h"

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

/* The name stands behind the last argument. Answers are "PID ID NAME", or the state JSON of the runtime spec. */
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

static int ask(const struct engine *g, const char *what, int64_t deadline, char *buf, size_t size)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid_t self = getpid(), pid = process_fork_quiet(); /* also where SIGCHLD is ignored */
	int error = -errno;
	if (pid == 0) {
		process_die_with(self);
		exec_engine(g, what, ends[1]);
	}
	fd_close(ends[1]);
	if (pid > 0)
		buf[fd_read_until(ends[0], buf, size - 1, deadline)] = 0;
	fd_close(ends[0]);
	return pid < 0 ? error : process_wait(pid, deadline) == 0 ? 0 : -ENOENT;
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

static int find_by(const struct engine *g, const char *what, int64_t deadline, struct engine_container *ret)
{
	char *buf = malloc(ANSWER_MAX);
	if (!buf)
		return -ENOMEM;
	int r = ask(g, what, deadline, buf, ANSWER_MAX);
	if (r == 0)
		r = buf[strspn(buf, " \t\n")] == '{' ? parse_state(buf, strlen(buf), ret) : parse_line(buf, ret);
	free(buf);
	return r;
}

int engines_find(const char *what, int64_t deadline, struct engine_container *ret, struct err *e)
{
	char asked[128] = "", shown[ERR_SHOWN];
	const char *slow = NULL;
	size_t at = 0;
	err_shown(what, strlen(what), shown);
	if (what[0] == '-')
		return err_say(e, -EINVAL, "\"%s\" is neither a process nor a container", shown);
	for (size_t i = 0; !slow && i < sizeof(engines) / sizeof(engines[0]); i++) {
		const struct engine *g = &engines[i];
		*ret = (struct engine_container){0};
		if (!is_installed(g->program))
			continue;
		at += (size_t)snprintf(asked + at, sizeof(asked) - at, "%s%s", at ? ", " : "", g->program);
		if (find_by(g, what, deadline, ret) < 0) {
			slow = deadline_left_ms(deadline) > 0 ? NULL : g->program;
			continue;
		}
		if (ret->pid > 0)
			return 0;
		return err_say(e, -ESRCH, "container %s (%s) is not running", shown, g->program);
	}
	if (slow)
		return err_say(e, -ETIMEDOUT,
			"no container \"%s\" yet, and no more time: %s takes long to answer; give a pid, or try again",
			shown, slow);
	return err_say(e, -ENOENT, "no container \"%s\" (%s%s): give a name, an id or a pid", shown,
		at ? "asked " : "no engine is installed", asked);
}

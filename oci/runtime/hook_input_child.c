/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/hook_input_child.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/seccomp.h"
#include "oci/runtime/hook_input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMORY_MAX (128ul << 20) /* a config.json of CONFIG_MAX, its copy and its values, with room */
#define CPU_SECONDS_MAX 2
#define EXIT_NO_MEMORY 12

static void set_resource_limit(int what, rlim_t value)
{
	struct rlimit l = {value, value};
	setrlimit(what, &l);
}

static void limit_resources(void)
{
#ifndef __SANITIZE_ADDRESS__
#ifndef __SANITIZE_THREAD__
	set_resource_limit(RLIMIT_AS, MEMORY_MAX); /* sanitizers reserve terabytes */
#endif
#endif
	set_resource_limit(RLIMIT_CPU, CPU_SECONDS_MAX);
	set_resource_limit(RLIMIT_CORE, 0);
	set_resource_limit(RLIMIT_FSIZE, 0);
	set_resource_limit(RLIMIT_NOFILE, 16);
}

static int set_invalid(struct container *ret, const char *what, int error)
{
	ret->verdict = DECISION_INVALID;
	snprintf(ret->reason, sizeof(ret->reason), "%s: %s", what, strerror(-error));
	return 0;
}

static int read_state(struct hook_input *r, int state_fd, struct container *ret)
{
	char *text;
	size_t len;
	int n = fd_slurp(state_fd, STATE_MAX, &text, &len);
	if (n == -EFBIG) {
		ret->verdict = DECISION_INVALID;
		snprintf(ret->reason, sizeof(ret->reason), "state on stdin: more than %u bytes", STATE_MAX);
		return 0;
	}
	if (n < 0)
		return set_invalid(ret, "state on stdin cannot be read", n);
	n = hook_input_state(r, text, len, ret);
	free(text);
	return n;
}

/* The config.json of the directory that the hook was called in. */
struct here {
	int config;
	char path[sizeof(((struct container *)0)->bundle)];
};

/*
 * Runtimes call hooks in the bundle. If a container has users of its own, only they may enter the bundle (podman
 * --uidmap: mode 0700, their uid). So we open config.json while we still have capabilities.
 */
static void open_here(struct here *h)
{
	h->config = getcwd(h->path, sizeof(h->path))
			    ? fd_open(AT_FDCWD, "config.json", O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0)
			    : -errno;
}

static int open_config(const struct here *h, const struct container *c)
{
	char path[sizeof(c->bundle) + 16];
	snprintf(path, sizeof(path), "%s/config.json", c->bundle);
	int fd = fd_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	return fd == -EACCES && h->config >= 0 && !strcmp(h->path, c->bundle) ? h->config : fd;
}

static int read_config(struct hook_input *r, const struct here *h, struct container *ret)
{
	char *text;
	struct stat st;
	size_t len;
	fd_auto fd = open_config(h, ret);
	if (fd < 0)
		return set_invalid(ret, "config.json of the bundle cannot be opened", fd);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return set_invalid(ret, "config.json of the bundle is not a regular file", -EINVAL);
	int n = fd_slurp(fd, CONFIG_MAX, &text, &len);
	if (n < 0)
		return set_invalid(ret, "config.json of the bundle cannot be read", n);
	n = hook_input_config(r, text, len, ret);
	free(text);
	return n;
}

/* podman tells a container's name to conmon only: hook <- runtime <- "conmon ... -n NAME". */
static void hint_from_conmon(struct hook_input *r, pid_t runtime)
{
	char path[64], args[4096];
	pid_t conmon = runtime > 1 ? proc_status_parent(runtime) : -1;
	if (conmon <= 1)
		return;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)conmon);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ssize_t n = fd < 0 ? fd : fd_read_all(fd, args, sizeof(args) - 1);
	if (n <= 0)
		return;
	args[n] = 0;
	const char *slash = strrchr(args, '/');
	if (strcmp(slash ? slash + 1 : args, "conmon") != 0)
		return;
	for (char *at = args; at < args + n; at += strlen(at) + 1)
		if (!strcmp(at, "-n") && at + 3 < args + n)
			return hook_input_hint_name(r, at + 3);
}

/* The other side waits for the pid first; 0: it has nothing to prepare. */
static int say_pid(int say, int32_t pid)
{
	return fd_write_all(say, &pid, sizeof(pid));
}

static int read_hook_input(int state_fd, int say, pid_t runtime, const struct here *h, struct container *ret)
{
	struct hook_input *reader;
	int r = hook_input_new(&reader);
	if (r == 0)
		r = read_state(reader, state_fd, ret);
	if (r < 0)
		return r;
	bool asked = hook_input_asked(reader, ret);
	r = say_pid(say, asked ? ret->pid : 0);
	if (r == 0 && asked)
		hint_from_conmon(reader, runtime);
	if (r == 0)
		r = hook_input_decide(reader, ret);
	if (r == 0 && (ret->verdict == DECISION_PROFILE || ret->verdict == DECISION_UNDECIDED))
		r = read_config(reader, h, ret);
	return r; /* the reader's memory goes with the process */
}

static _Noreturn void run_child(int state_fd, int say, pid_t hook, pid_t runtime, struct container *ret)
{
	struct err e = {0};
	static struct here here; /* untouched pages take no memory */
	int keep[] = {state_fd, say};
	child_process_die_with(hook);
	fd_close_all_but(keep, 2);
	fd_null_stdio(state_fd == 0 ? 6 : 7);
	open_here(&here);
	limit_resources();
	int r = capabilities_limit(0, &e);
	if (r == 0)
		r = seccomp_enter(SECCOMP_READER, &e);
	if (r < 0) {
		ret->verdict = DECISION_INVALID;
		snprintf(ret->reason, sizeof(ret->reason), "%.300s", e.text);
		r = say_pid(say, 0);
	} else {
		r = read_hook_input(state_fd, say, runtime, &here, ret);
	}
	ret->magic = CONTAINER_MAGIC;
	ret->size = sizeof(*ret);
	if (r >= 0 && fd_write_all(say, "", 1) < 0)
		r = -EPIPE;
	_exit(r == -ENOMEM ? EXIT_NO_MEMORY : r < 0);
}

/* false: the reader is dead, or the deadline has passed. */
static bool read_from_child(struct hook_input_child *in, void *buf, size_t size, int64_t deadline)
{
	return fd_wait(in->said, POLLIN, deadline) == 1 && fd_read_all(in->said, buf, size) == (ssize_t)size;
}

/* *ret_say: the pipe's end that announces the answer. */
static int open_answer(struct hook_input_child *in, int *ret_say, struct err *e)
{
	int said[2];
	*in = (struct hook_input_child){.said = -1};
	in->answer = mmap(
		NULL, sizeof(*in->answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (in->answer == MAP_FAILED) {
		in->answer = NULL;
		return err_set(e, -errno, "no memory for the reader");
	}
	if (pipe2(said, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe for the reader");
	in->said = said[0];
	*ret_say = said[1];
	return 0;
}

int hook_input_child_answered(struct hook_input_child *in, const struct container *c, struct err *e)
{
	int say, r = open_answer(in, &say, e);
	if (r < 0)
		return r;
	*in->answer = *c;
	r = say_pid(say, c->pid);
	if (r == 0)
		r = fd_write_all(say, "", 1);
	fd_close(say);
	return r < 0 ? err_set(e, r, "no word from the reader") : 0;
}

int hook_input_child_start(struct hook_input_child *in, int state_fd, struct err *e)
{
	int say, r = open_answer(in, &say, e);
	if (r < 0)
		return r;
	pid_t hook = getpid(), runtime = getppid();
	in->child = fork();
	int error = -errno;
	if (in->child == 0)
		run_child(state_fd, say, hook, runtime, in->answer);
	child_process_run_beside(in->child);
	fd_close(say);
	return in->child < 0 ? err_set(e, error, "cannot fork the reader") : 0;
}

pid_t hook_input_child_asked(struct hook_input_child *in, int64_t deadline)
{
	int32_t pid;
	return read_from_child(in, &pid, sizeof(pid), deadline) && pid > 1 && pid <= CONTAINER_PID_MAX ? pid : 0;
}

int hook_input_child_finish(struct hook_input_child *in, int64_t deadline, struct container *ret, struct err *e)
{
	char byte;
	if (!read_from_child(in, &byte, 1, deadline))
		return err_say(e, -EPIPE, "no answer from the reader of state and config");
	/* The child may be taken over and write on: we check our copy and use nothing else. */
	*ret = *in->answer;
	if (container_check(ret) == 0)
		return 0;
	container_init(ret);
	return err_say(e, -EBADMSG, "the reader of state and config returned nonsense");
}

int hook_input_child_explain(struct hook_input_child *in, int64_t deadline, struct err *e)
{
	char fate[80];
	int status = child_process_wait(in->child, deadline);
	in->child = 0;
	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_MEMORY)
		return err_say(e, -ENOMEM, "the reader of state and config ran out of memory");
	return err_say(e, status == -ETIMEDOUT ? -ETIMEDOUT : -EIO, "the reader of state and config %s",
		child_process_fate(status, fate, sizeof(fate)));
}

void hook_input_child_unmap(struct hook_input_child *in)
{
	munmap(in->answer, sizeof(*in->answer));
	in->answer = NULL;
}

void hook_input_child_done(struct hook_input_child *in)
{
	if (in->child > 0) {
		kill(in->child, SIGKILL);
		child_process_wait(in->child, clock_now() + NSEC_PER_SEC);
	}
	if (in->answer)
		munmap(in->answer, sizeof(*in->answer));
	in->said = fd_close(in->said);
	in->child = 0;
	in->answer = NULL;
}

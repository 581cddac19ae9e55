/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/launch.h"

#include "shim/libpillion/core/sys_clock.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/text_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define DAEMON "/usr/libexec/pillion/pilliond"
#define NSEC 1000000000ll
#define BUDGET_MS 500 /* default of PILLION_BUDGET */
#define BUDGET_MAX_MS 5000
#define MORE_MS 500 /* pilliond itself waits for the budget, and then replies */
#define REAP_MS 200
#define STACK (16u << 10)

/* The part of our memory that a child uses. */
struct room {
	const char *path;
	char *argv[16], *envp[96];
	char text[2048];
	size_t used;
	int pipe;
	bool stays;    /* the first child */
	int32_t error; /* -errno of a failure in either child */
	int pidfd;     /* of ourselves */
	uint8_t stacks[2][STACK] __attribute__((aligned(64)));
};

static int keeper; /* 0: there is none */

static int64_t read_monotonic(void)
{
	return (int64_t)sys_clock_ns(CLOCK_MONOTONIC);
}

static void pause_ms(int64_t ms)
{
	const struct timespec t = {0, ms * 1000000};
	sys_call(nanosleep, &t, 0);
}

static int set_reply_error(struct start_reply *s, int error, const char *a, const char *b, const char *c)
{
	struct text_writer o = {.fd = -1, .memory = s->text, .size = sizeof(s->text)};
	s->text[0] = 0;
	s->code = error;
	text_put(&o, a);
	text_put(&o, b);
	text_put(&o, c);
	return error;
}

/* --- children -------------------------------------------------------------------------------------------------- */

/* Becomes pilliond, which looks after all its descriptors itself (profiler/daemon/library_mode.c). */
static int exec_daemon(void *arg)
{
	struct room *r = arg;
	sys_call(setsid);
	if (r->pipe == START_REPLY_PIPE)
		sys_call(fcntl, r->pipe, F_SETFD, 0);
	else if (sys_call(dup3, r->pipe, START_REPLY_PIPE, 0) < 0)
		return 1;
	r->error = (int32_t)sys_call(execve, r->path, r->argv, r->envp);
	return 1;
}

static void close_all_but(int kept)
{
	if (kept > 0)
		sys_call(close_range, 0, kept - 1, 0);
	sys_call(close_range, kept + 1, ~0u, 0);
}

/* SIGTERM must not call the application's handler. */
static void become_keeper(const struct room *r)
{
	static const uint64_t default_action[4];
	const long parent = sys_call(getppid);
	sys_call(rt_sigaction, SIGTERM, default_action, 0, 8);
	sys_call(chdir, "/");
	close_all_but(r->pidfd);
	keeper_wait(parent, r->pidfd);
}

static int run_first_child(void *arg)
{
	struct room *r = arg;
	if (r->stays) {
		sys_call(setsid);
		sys_call(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		sys_call(prctl, PR_SET_NAME, "pillion-keeper", 0, 0, 0);
	}
	const long pid = clone_call(CLONE_VM | CLONE_VFORK, exec_daemon, r, r->stacks[1] + STACK);
	if (pid < 0)
		r->error = (int32_t)pid;
	if (pid > 0 && r->error) /* or the reaper of orphans would get this child */
		sys_call(wait4, pid, 0, __WALL, 0);
	if (r->stays && pid > 0 && !r->error)
		become_keeper(r);
	return r->error != 0;
}

/* --- its arguments and environment ----------------------------------------------------------------------------- */

/* NULL: there is no room. */
static char *append_string(struct room *r, const char *a, const char *b)
{
	struct text_writer o = {.fd = -1, .memory = r->text + r->used, .size = sizeof(r->text) - r->used};
	char *at = o.memory;
	text_put(&o, a);
	text_put(&o, b);
	if (o.error)
		return NULL;
	r->used += o.at + 1;
	return at;
}

static char *put_number(struct room *r, unsigned n, const char *unit)
{
	char digits[TEXT_DECIMAL_MAX + 1];
	digits[text_decimal(digits, 0, n)] = 0;
	return append_string(r, digits, unit);
}

static bool has_prefix(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static const char *value_of(char *const *environment, const char *name)
{
	for (; environment && *environment; environment++)
		if (has_prefix(*environment, name))
			return *environment + strlen(name);
	return NULL;
}

/* No LD_PRELOAD, and no other variable that changes how programs behave. */
static void choose_environment(struct room *r, char *const *environment)
{
	static const char *const wanted[] = {"PILLION_", "HOME=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR="};
	size_t n = 0;
	r->envp[n++] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	for (; environment && *environment && n + 1 < sizeof(r->envp) / sizeof(r->envp[0]); environment++)
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
			if (has_prefix(*environment, wanted[i]) && !has_prefix(*environment, "PILLION_SOCKET="))
				r->envp[n++] = *environment;
	r->envp[n] = NULL;
}

static bool build_command(struct room *r, const struct launch *l, char *const *environment)
{
	const char *daemon = value_of(environment, "PILLION_DAEMON=");
	const struct {
		const char *name;
		char *value;
	} options[] = {{"--events", l->events ? append_string(r, l->events, "") : NULL},
		{"--output", l->output ? append_string(r, l->output, "") : NULL},
		{"--window", l->window_s ? put_number(r, l->window_s, "s") : NULL}};
	size_t n = 0;
	r->path = daemon && daemon[0] == '/' ? append_string(r, daemon, "") : DAEMON;
	r->argv[n++] = "pilliond";
	r->argv[n++] = "--library";
	r->argv[n++] = put_number(r, (unsigned)sys_call(getpid), "");
	r->argv[n++] = r->stays ? "1" : "0";
	if (!r->path || !r->argv[2] || (l->events && !options[0].value) || (l->output && !options[1].value))
		return false;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].value) {
			r->argv[n++] = (char *)options[i].name;
			r->argv[n++] = options[i].value;
		}
	choose_environment(r, environment);
	return true;
}

static int64_t read_budget(char *const *environment)
{
	const char *text = value_of(environment, "PILLION_BUDGET=");
	int64_t n = 0;
	for (; text && *text >= '0' && *text <= '9' && n < BUDGET_MAX_MS; text++)
		n = 10 * n + (*text - '0');
	n = text && !strcmp(text, "s") ? 1000 * n : n;
	return n <= 0 ? BUDGET_MS : n < BUDGET_MAX_MS ? n : BUDGET_MAX_MS;
}

/* --- starting and hearing -------------------------------------------------------------------------------------- */

/* Whether a grandchild becomes our child when its parent ends. */
static bool inherits_orphans(void)
{
	int subreaper = 0;
	sys_call(prctl, PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	return sys_call(getpid) == 1 || subreaper;
}

static void reap_child(long pid, int64_t until)
{
	while (sys_call(wait4, pid, 0, __WALL | WNOHANG, 0) == 0 && read_monotonic() < until)
		pause_ms(1);
}

/* In a forked child the keeper is not our child, and is left alone. */
void launch_reap(void)
{
	const int pid = __atomic_exchange_n(&keeper, 0, __ATOMIC_ACQ_REL);
	if (pid && sys_call(wait4, pid, 0, __WALL | WNOHANG, 0) == 0) {
		sys_call(kill, pid, SIGTERM);
		reap_child(pid, read_monotonic() + 1000000 * REAP_MS / 10);
	}
}

/* All signals are blocked: handlers would run in the child, in our memory. */
static long spawn_first(struct room *r)
{
	const uint64_t all = ~0ull;
	uint64_t mask;
	sys_call(rt_sigprocmask, SIG_SETMASK, &all, &mask, 8);
	const long pid = clone_call(r->stays ? 0 : CLONE_VM | CLONE_VFORK, run_first_child, r, r->stacks[0] + STACK);
	sys_call(rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
	return pid;
}

static int read_start_reply(int pipe, const char *path, int64_t until, struct start_reply *ret)
{
	struct pollfd p = {.fd = pipe, .events = POLLIN};
	long n = -EINTR;
	while (n == -EINTR || n == -EAGAIN) {
		const int64_t left = until - read_monotonic();
		const struct timespec t = {left / NSEC, left % NSEC};
		if (left <= 0)
			return set_reply_error(
				ret, -ETIMEDOUT, path, " was started and has said nothing within its budget", "");
		n = sys_call(ppoll, &p, 1, &t, 0, 8);
		if (n > 0)
			n = sys_call(read, pipe, ret, sizeof(*ret));
		else if (n == 0)
			n = -EAGAIN;
	}
	if (n == 0)
		return set_reply_error(ret, -EPIPE, path,
			" ended before it listened, without a word: was it killed, or is it of another version?", "");
	if (n != sizeof(*ret) || ret->magic != START_REPLY_MAGIC || ret->version != START_REPLY_VERSION)
		return set_reply_error(ret, -EPROTO, path, " is of another version than libpillion", "");
	ret->text[sizeof(ret->text) - 1] = ret->socket[sizeof(ret->socket) - 1] = 0;
	return ret->code;
}

static const char *why_not(int error)
{
	return error == -ENOENT	   ? ": there is no such program (make install puts it there; PILLION_DAEMON names it)"
	       : error == -EACCES  ? ": it may not be executed"
	       : error == -ENOEXEC ? ": it is no program"
	       : error == -EPERM   ? ": not permitted (a seccomp filter?)"
	       : error == -EAGAIN  ? ": there may be no more processes (RLIMIT_NPROC, pids.max)"
	       : error == -ENOMEM  ? ": no memory"
				   : ": that failed";
}

static int run(struct room *r, const int pipe[2], int64_t until, struct start_reply *ret)
{
	const long self = sys_call(getpid);
	r->pipe = pipe[1];
	r->pidfd = r->stays ? (int)sys_call(pidfd_open, self, 0) : -1;
	const long pid = spawn_first(r);
	sys_call(close, pipe[1]);
	if (r->pidfd >= 0)
		sys_call(close, r->pidfd);
	if (pid < 0)
		return set_reply_error(ret, (int)pid, "cannot fork for ", r->path, why_not((int)pid));
	if (r->stays)
		__atomic_store_n(&keeper, (int)pid, __ATOMIC_RELEASE);
	else
		reap_child(pid, until);
	int error = read_start_reply(pipe[0], r->path, until, ret);
	if (r->error)
		error = set_reply_error(ret, r->error, "cannot run ", r->path, why_not(r->error));
	if (error < 0 && r->stays)
		launch_reap();
	return error;
}

static int no_pipe(int error, struct start_reply *ret)
{
	return set_reply_error(ret, error, "no pipe to pilliond: ",
		error == -EMFILE   ? "this process has no descriptor left (RLIMIT_NOFILE)"
		: error == -ENFILE ? "this machine has no file left (fs.file-max)"
				   : "pipe2 is refused",
		"");
}

int launch_daemon(const struct launch *l, char *const *environment, struct start_reply *ret)
{
	const int64_t until = read_monotonic() + (read_budget(environment) + MORE_MS) * 1000000;
	int pipe[2];
	launch_reap();
	/* shared with a keeper, too, which stores its error there */
	const long at =
		sys_call(mmap, 0, sizeof(struct room), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct room *r = (struct room *)at;
	if (at < 0 && at > -4096)
		return set_reply_error(ret, (int)at, "no memory to start pilliond", "", "");
	r->stays = inherits_orphans();
	int error = build_command(r, l, environment)
			    ? 0
			    : set_reply_error(ret, -E2BIG, "PILLION_DAEMON, events or output: too long", "", "");
	if (error == 0 && (error = (int)sys_call(pipe2, pipe, O_CLOEXEC)) < 0)
		error = no_pipe(error, ret);
	else if (error == 0) {
		error = run(r, pipe, until, ret);
		sys_call(close, pipe[0]);
	}
	sys_call(munmap, at, sizeof(*r));
	return error;
}

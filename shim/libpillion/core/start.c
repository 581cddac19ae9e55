/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/start.h"

#include "shim/libpillion/core/atfork.h"
#include "shim/libpillion/core/connection.h"
#include "shim/libpillion/core/syscall.h"
#include "shim/libpillion/core/text_writer.h"
#include "shim/libpillion/core/thread_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define NSEC 1000000000ll
#define OTHERS_MS 6000 /* no start takes longer */
#define STOP_NS (10 * NSEC)
#define SOCKET_NAME "PILLION_SOCKET"

extern char **environ __attribute__((weak));
extern int setenv(const char *, const char *, int) __attribute__((weak));
extern int unsetenv(const char *) __attribute__((weak));

/* Shared by a process and all processes that were forked from it. */
static struct tree {
	uint32_t owner;						/* the thread at work; 0: none */
	char socket[sizeof(((struct start_reply *)0)->socket)]; /* of the started profiler; "": none */
} alone, *tree = &alone;

static int set_reply_text(struct start_reply *s, int error, const char *text)
{
	struct text_writer o = {.fd = -1, .memory = s->text, .size = sizeof(s->text)};
	s->text[0] = 0;
	text_put(&o, text);
	return error;
}

/* --- one at a time ------------------------------------------------------------------------------------------ */

static bool lock_tree(void)
{
	const uint32_t self = (uint32_t)sys_call(gettid);
	const struct timespec ms = {0, NSEC / 1000};
	for (int i = 0; i < OTHERS_MS; i++) {
		uint32_t who = __atomic_load_n(&tree->owner, __ATOMIC_ACQUIRE);
		const bool free = who == 0 || sys_call(tkill, who, 0) == -ESRCH;
		if (free && __atomic_compare_exchange_n(
				    &tree->owner, &who, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return true;
		sys_call(nanosleep, &ms, 0);
	}
	return false;
}

static void unlock_tree(void)
{
	__atomic_store_n(&tree->owner, 0, __ATOMIC_RELEASE);
}

/* --- the environment ---------------------------------------------------------------------------------------- */

static char **find_variable(const char *name)
{
	const size_t n = strlen(name);
	char **e = environ;
	while (e && *e && !(!strncmp(*e, name, n) && (*e)[n] == '='))
		e++;
	return e && *e ? e : NULL;
}

static const char *value_of(const char *name)
{
	char **e = find_variable(name);
	return e ? *e + strlen(name) + 1 : NULL;
}

/* Adds a variable, in a copy of the array. */
static void add_variable(char *variable)
{
	size_t n = 0;
	while (environ[n])
		n++;
	const long at =
		sys_call(mmap, 0, (n + 2) * sizeof(char *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at < 0 && at > -4096)
		return;
	char **copy = (char **)at;
	memcpy(copy, environ, n * sizeof(char *));
	copy[n] = variable;
	environ = copy;
}

static void put_socket(const char *socket)
{
	static char variable[sizeof(SOCKET_NAME "=") + sizeof(((struct start_reply *)0)->socket)];
	char **e = find_variable(SOCKET_NAME);
	memcpy(variable, SOCKET_NAME "=", sizeof(SOCKET_NAME));
	memcpy(variable + sizeof(SOCKET_NAME), socket, strlen(socket) + 1);
	if (e)
		*e = variable;
	else if (environ)
		add_variable(variable);
}

/* --- starting ------------------------------------------------------------------------------------------------ */

static int no_area(int error, struct start_reply *s)
{
	return set_reply_text(s, error,
		error == -EMFILE   ? "this process has no descriptor left for libpillion (RLIMIT_NOFILE)"
		: error == -ENFILE ? "this machine has no file left (fs.file-max)"
		: error == -EFBIG
			? "libpillion's memory is a file that is larger than this process may make (RLIMIT_FSIZE)"
		: error == -ENOMEM ? "no memory for libpillion's samples (RLIMIT_AS?)"
		: error == -EBADF  ? "the program has closed libpillion's descriptors"
		: error == -EBUSY  ? "another thread is connecting, for too long"
		: error == -EACCES ? "the program has asked for a seccomp filter: libpillion keeps still"
				   : "memfd_create is refused: there is no memory to share (a seccomp filter?)");
}

static int start_alone(const struct launch *l, struct start_reply *s)
{
	int r = 0;
	if (connection_is_connected() || (tree->socket[0] && connection_move(tree->socket) == 0))
		return 0;
	r = connection_prepare();
	if (r < 0)
		return no_area(r, s);
	r = launch_daemon(l, environ, s);
	if (r < 0)
		return r;
	r = connection_move(s->socket);
	if (r < 0)
		return set_reply_text(s, r,
			r == -EBADF	  ? "the program has closed libpillion's descriptors"
			: r == -ETIMEDOUT ? "pilliond was started and does not answer"
			: r == -EMFILE	  ? "this process has no descriptor left for libpillion (RLIMIT_NOFILE)"
					  : "pilliond was started and cannot be connected to");
	memcpy(tree->socket, s->socket, sizeof(tree->socket));
	return 0;
}

/* `put` stores the socket in the environment. */
static int start_profiler(const struct launch *l, void (*put)(const char *), struct start_reply *s)
{
	struct thread_state *t = &thread_own;
	*s = (struct start_reply){0};
	int r = connection_secure();
	if (r < 0)
		return no_area(r, s);
	if (r)
		return set_reply_text(s, -EPERM,
			"a program with more rights than its user (setuid) is not profiled by what that asks");
	if (connection_is_quiet())
		return no_area(-EACCES, s);
	if (!thread_state_enter(t))
		return set_reply_text(s, -EDEADLK, "called by a signal handler within libpillion");
	r = lock_tree() ? 0 : set_reply_text(s, -ETIMEDOUT, "another thread or process is at it, for too long");
	if (r == 0) {
		r = start_alone(l, s);
		if (r == 0 && tree->socket[0])
			put(tree->socket);
		unlock_tree();
	}
	thread_state_leave(t);
	return r;
}

static void put_by_libc(const char *socket)
{
	if (setenv)
		setenv(SOCKET_NAME, socket, 1);
	else
		put_socket(socket);
}

int start_now(const struct launch *l, struct start_reply *ret)
{
	atfork_follow();
	return start_profiler(l, put_by_libc, ret);
}

/* pilliond removes it, too; unless we are PID 1, and end right now. */
static void take_away(char *socket)
{
	char *slash = strrchr(socket, '/');
	sys_call(unlink, socket);
	if (slash) {
		*slash = 0;
		sys_call(rmdir, socket);
		*slash = '/';
	}
}

int start_stop(void)
{
	struct thread_state *t = &thread_own;
	char socket[sizeof(tree->socket)];
	int r = -ENOTCONN;
	if (connection_is_quiet() || !tree->socket[0] || !thread_state_enter(t))
		return r;
	if (!lock_tree()) {
		thread_state_leave(t);
		return -ETIMEDOUT;
	}
	memcpy(socket, tree->socket, sizeof(socket));
	r = connection_leave(connection_clock() + STOP_NS);
	if (r != -EBUSY)
		tree->socket[0] = 0;
	if (r == 0)
		take_away(socket);
	unlock_tree();
	thread_state_leave(t);
	launch_reap();
	const char *value = value_of(SOCKET_NAME);
	if (unsetenv && value && !strcmp(value, socket))
		unsetenv(SOCKET_NAME);
	return r;
}

/* --- before the program begins -------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *list)
{
	while (*list && strcmp(text, *list) != 0)
		list++;
	return *list;
}

static bool is_asked_for(void)
{
	static const char *const no[] = {"0", "no", "false", "off", NULL};
	const char *events = value_of("PILLION_EVENTS"), *enabled = value_of("PILLION_ENABLED");
	return events && *events && strcmp(events, "off") != 0 && !(enabled && is_one_of(enabled, no));
}

static void log_failure(const struct start_reply *s)
{
	const char *log = value_of("PILLION_LOG");
	const long fd =
		log && log[0] == '/'
			? sys_call(open, log,
				  O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0640)
			: -1;
	if (fd < 0)
		return;
	struct text_writer o = {.fd = (int)fd};
	text_put(&o, "libpillion: outcome=not_profiled pid=");
	text_put_decimal(&o, (uint64_t)sys_call(getpid));
	text_put(&o, " reason=\"");
	text_put(&o, s->text);
	text_put(&o, "\"\n");
	text_flush(&o);
	sys_call(close, fd);
}

static void share_tree(void)
{
	const long at =
		sys_call(mmap, 0, sizeof(struct tree), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!(at < 0 && at > -4096))
		tree = (struct tree *)at;
}

/*
 * After the constructor of connection.c, which has looked for PILLION_SOCKET, and before those that ask whether it is
 * there.
 */
__attribute__((constructor(103))) static void start_early(void)
{
	const struct launch as_environment = {0};
	struct start_reply s;
	share_tree();
	if (!is_asked_for() || connection_secure() != 0 || start_profiler(&as_environment, put_socket, &s) == 0)
		return;
	log_failure(&s);
	*find_variable("PILLION_EVENTS") = "PILLION_EVENTS=off";
}

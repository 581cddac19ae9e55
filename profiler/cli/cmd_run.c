/* SPDX-License-Identifier: Apache-2.0 */
/* run: the instrumentation sequence, then the program in this very process. */
#include "profiler/cli/command.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/config/cli_settings.h"
#include "oci/config/options.h"
#include "profiler/cli/run_wait.h"
#include "profiler/spool/spool_index_read.h"
#include "profiler/view/target_table.h"
#include "shim/attach/run.h"
#include "shim/protocol/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define WARN_MS 100

enum { EXIT_OURS = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 }; /* as a shell and env(1) have them */

/* --- the program ---------------------------------------------------------------------------------------- */

/* Reports only certain errors; execvp(3) has the last word. */
static int is_program(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 && errno == EACCES ? -EACCES : 0;
}

/* Searches as a shell does, so that no profiler is started in vain. */
static int find_program(const char *name, char path[static PATH_MAX])
{
	const char *dirs = getenv("PATH");
	snprintf(path, PATH_MAX, "%s", name);
	if (strchr(name, '/') || !*name)
		return is_program(name);
	int r = -ENOENT;
	for (const char *dir = dirs ? dirs : "/bin:/usr/bin";; dir += strcspn(dir, ":") + 1) {
		size_t len = strcspn(dir, ":");
		snprintf(path, PATH_MAX, "%.*s%s%s", (int)len, dir, len ? "/" : "", name);
		int there = is_program(path);
		if (there == 0)
			return 0;
		if (there == -EACCES && access(path, F_OK) == 0) /* the file exists; not so in a closed directory */
			r = there;
		if (!dir[len])
			return r;
	}
}

static void make_absolute(char path[static PATH_MAX])
{
	char here[PATH_MAX];
	size_t len = strlen(path), n;
	if (path[0] == '/' || !getcwd(here, sizeof(here)) || (n = strlen(here)) + 1 + len >= PATH_MAX)
		return;
	memmove(path + n + 1, path, len + 1);
	memcpy(path, here, n);
	path[n] = '/';
}

static int cannot_run(const char *program, int error)
{
	return command_fail("run", error == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE, "cannot run %s: %s",
		program, strerror(-error));
}

static int run_help(void)
{
	command_help(&cmd_run, stdout);
	return EXIT_DONE;
}

/*
 * Prints one line on stderr. It must neither kill us nor hold us up, and leave no signal pending: there may be no
 * reader, the file may be at its limit, the terminal may belong to other processes.
 */
static void print_warning(const char *fmt, ...)
{
	char line[512] = "pillion run: ";
	size_t at = strlen(line);
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(line + at, sizeof(line) - at - 1, fmt, ap);
	va_end(ap);
	at = strlen(line);
	line[at++] = '\n';
	sigset_t ours, old, pending;
	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	sigaddset(&ours, SIGTTOU);
	sigpending(&pending);
	sigprocmask(SIG_BLOCK, &ours, &old);
	/* SIGTTOU is blocked, so a terminal takes it; a pipe has room for one line or gets none */
	if (fd_wait(2, POLLOUT, clock_now() + WARN_MS * NSEC_PER_MSEC) == 1 && write(2, line, at) < 0)
		at = 0;
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&pending, sig) == 1)
			sigdelset(&ours, sig);
	while (sigtimedwait(&ours, NULL, &(struct timespec){0}) > 0)
		;
	sigprocmask(SIG_SETMASK, &old, NULL);
}

struct asked {
	struct options *o;
	const struct err *mistake;
	char **program;
	char path[PATH_MAX];
	int above; /* with --wait: to the process above the program; else -1 */
};
enum { ARMED_SESSION = 's', ARMED_SERVICE = 'l' }; /* written there when the program is profiled */

/* Returns the path as the user would name it. */
static const char *output_of(const struct settings *s, pid_t program)
{
	static char own[32];
	snprintf(own, sizeof(own), "pillion-%d", (int)program);
	return s->paths.output[0] ? s->paths.output : own;
}

static void say_where(const struct settings *s, const char *program, bool in_service)
{
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
	if (s->command.quiet || !isatty(STDERR_FILENO))
		return;
	if (in_service)
		print_warning("the service at %s profiles %s; look: pillion ps, pillion top", s->paths.control, name);
	else
		print_warning("the profile of %s will be in %s; look: pillion top %s", name, output_of(s, getpid()),
			output_of(s, getpid()));
}

static void tell_above(int above, bool in_service)
{
	const char c = in_service ? ARMED_SERVICE : ARMED_SESSION;
	if (above >= 0 && write(above, &c, 1) < 0)
		return; /* the other end is gone */
}

/* Does all of our work. 0, or the exit status if the program must not run. */
static int prepare_profiling(const struct asked *a)
{
	struct err e = {0};
	struct run_armed armed = {0};
	struct settings *s = &a->o->settings;
	if (a->mistake->code && s->strict)
		return command_fail("run", EXIT_OURS, "%s", a->mistake->text);
	if (options_off(s->paths.etc) == 1) {
		print_warning("switched off on this host ('pillion on' ends that): the program runs without a profile");
		return 0;
	}
	if (a->mistake->code) /* costs no profile */
		print_warning("%s", a->mistake->text);
	int r = connect_output(s, getpid(), &e);
	if (r == 0)
		r = run_arm(a->o, a->path, &armed, &e);
	if (r == 0 && armed.less.code)
		print_warning("%s", armed.less.text);
	if (r < 0 && s->strict)
		return command_fail("run", EXIT_OURS, "%s", e.text);
	if (r < 0) {
		print_warning("%s; the program runs without a profile", e.text);
		return 0;
	}
	say_where(s, a->path, armed.in_service);
	tell_above(a->above, armed.in_service);
	return 0;
}

static int become_program(void *arg)
{
	const struct asked *a = arg;
	const int status = a->o->settings.enabled ? prepare_profiling(a) : 0;
	if (status)
		return status;
	execvp(a->program[0], a->program);
	return cannot_run(a->program[0], -errno);
}

/* --- above it ------------------------------------------------------------------------------------------------ */

#define SERVICE_NS (10 * NSEC_PER_SEC) /* for a service to write the last window */
#define LOOK_NS (10 * NSEC_PER_MSEC)

static bool is_listed(const struct settings *s, const char *id, char spool[static PATH_MAX])
{
	struct target_table l = {0};
	bool found = false;
	if (command_ask_targets("run", s->paths.control, s->paths.daemon, &l) != EXIT_DONE)
		return false;
	for (size_t i = 0; i < l.n; i++)
		found |= !strcmp(l.targets[i].id, id);
	snprintf(spool, PATH_MAX, "%s", l.spool);
	target_table_done(&l);
	return found;
}

static void await_service(const struct settings *s, const char *id, char spool[static PATH_MAX])
{
	const int64_t until = deadline_in(SERVICE_NS);
	while (is_listed(s, id, spool) && clock_now() < until)
		nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
}

/* `armed`: ARMED_SESSION or ARMED_SERVICE. */
static void say_result(const struct asked *a, char armed, pid_t program, int64_t since_ns)
{
	struct settings *s = &a->o->settings;
	char spool[PATH_MAX], path[PATH_MAX + 512], id[32];
	struct spool_index_target of = {0};
	const char *slash = strrchr(a->path, '/');
	snprintf(id, sizeof(id), "run-%d", (int)program);
	snprintf(spool, sizeof(spool), "%s", output_of(s, program));
	if (armed == ARMED_SERVICE)
		await_service(s, id, spool);
	else
		command_await("run", spool);
	fd_auto dir = fd_open_dir(AT_FDCWD, spool);
	if (dir >= 0)
		spool_index_read_target(dir, id, since_ns, &of);
	snprintf(path, sizeof(path), "%s/%s", spool, of.file);
	if (of.profiles)
		command_say_profile(slash ? slash + 1 : a->path, of.samples, path);
	else
		print_warning(
			"no profile of %s was written: it used no CPU time, or there is no room in %s", a->path, spool);
}
static int run_above(struct asked *a)
{
	int tell[2];
	char armed = 0;
	pid_t program;
	const int64_t since_ns = clock_real();
	if (pipe2(tell, O_CLOEXEC) < 0)
		return command_fail("run", EXIT_OURS, "no pipe to the program: %s", strerror(errno));
	a->above = tell[1];
	const int status = run_wait(become_program, a, &program);
	fd_close(tell[1]);
	const ssize_t n = status < 0 ? 0 : fd_read_all(tell[0], &armed, 1);
	fd_close(tell[0]);
	if (status < 0)
		return command_fail("run", EXIT_OURS, "cannot wait for %s: %s", a->program[0], strerror(-status));
	if (n == 1)
		say_result(a, armed, program, since_ns);
	return run_wait_end(status);
}

/* --- the command --------------------------------------------------------------------------------------------- */

static int run_run(int argc, char **argv)
{
	static struct options o;
	static struct asked a = {.o = &o, .above = -1};
	struct err mistake = {0};
	fd_hold_stdio(); /* closed descriptors stay closed for the program, and we do not use them meanwhile */
	int next = cli_settings_read_session(&o, argc, argv, &mistake);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return run_help();
	if (next >= argc)
		return command_fail("run", EXIT_USAGE, "no program is given; see 'pillion help run'");
	a.mistake = &mistake;
	a.program = argv + next;
	int r = find_program(a.program[0], a.path);
	if (r < 0 && mistake.code)
		print_warning("%s", mistake.text); /* `--windwo 7s app` takes 7s for the program */
	if (r < 0)
		return cannot_run(a.program[0], r);
	make_absolute(a.path);
	return o.settings.command.wait ? run_above(&a) : become_program(&a);
}

const struct command cmd_run = {
	.name = "run",
	.line = "run a program and profile it and its children",
	.help = "usage: pillion run [OPTION]... [--] PROGRAM [ARGUMENT]...\n"
		"\n"
		"The program runs in this very process: same pid, parent, stdio, signals, limits and exit status. The "
		"profile\n"
		"goes to a service that listens, else to ./pillion-PID/ (--output). Whatever fails, the program runs, "
		"and one\n"
		"line on stderr says why there is no profile; with --strict it does not run, and the exit status is "
		"125.\n"
		"--wait keeps a process above the program, and ends with how many samples there are; --quiet: on a "
		"terminal\n"
		"nothing is said before the program begins.\n"
		"\n"
		"example: pillion run --output prof -- xz -9 file; pillion top prof\n",
	.run = run_run,
	.own_options = true,
	.settings = true,
};

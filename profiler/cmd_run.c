/* run: the instrumentation sequence, then the program in this very process. */
#include "profiler/command.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/options.h"
#include "shim/reach.h"
#include "shim/run.h"

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
#include <unistd.h>

#define WARN_MS 100

enum { EXIT_OURS = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 }; /* as a shell and env(1) have them */

/* --- the program ---------------------------------------------------------------------------------------- */

/* Only what is certain is an error here; execvp(3) has the last word. */
static int is_program(const char *path)
{
	struct stat st;
	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0 && errno == EACCES ? -EACCES : 0;
}

/* As a shell looks for it, so that no profiler is started for nothing. */
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
		if (there == -EACCES &&
			access(path, F_OK) == 0) /* it is there, and not for us; a closed directory is not */
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
 * One line on stderr. It must neither kill us nor hold us up, and leave no signal pending: nobody may be reading, the
 * file may be at its limit, the terminal may belong to others.
 */
static void warn(const char *fmt, ...)
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

/* Everything that is ours. 0, or the exit status with which the program is not run. */
static int arm(struct options *o, const struct err *mistake, const char *program)
{
	struct err e = {0}, less = {0};
	if (mistake->code && o->settings.strict)
		return command_fail("run", EXIT_OURS, "%s", mistake->text);
	if (options_off(o->settings.etc) == 1) {
		warn("switched off on this host ('pillion on' ends that): the program runs without a profile");
		return 0;
	}
	if (mistake->code) /* costs no profile */
		warn("%s", mistake->text);
	int r = reach_output(&o->settings, getpid(), &e);
	if (r == 0)
		r = run_arm(o, program, &less, &e);
	if (r == 0 && less.code)
		warn("%s", less.text);
	if (r < 0 && o->settings.strict)
		return command_fail("run", EXIT_OURS, "%s", e.text);
	if (r < 0)
		warn("%s; the program runs without a profile", e.text);
	return 0;
}

static int run_run(int argc, char **argv)
{
	static struct options o;
	char path[PATH_MAX];
	struct err mistake = {0};
	fd_hold_stdio(); /* what is closed stays closed for the program, and is not ours meanwhile */
	int next = command_session_settings(&o, argc, argv, &mistake);
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return run_help();
	if (next >= argc)
		return command_fail("run", EXIT_USAGE, "no program is given; see 'pillion help run'");
	char **program = argv + next;
	int r = find_program(program[0], path);
	if (r < 0 && mistake.code)
		warn("%s", mistake.text); /* `--windwo 7s app` takes 7s for the program */
	if (r < 0)
		return cannot_run(program[0], r);
	make_absolute(path);
	int status = o.settings.enabled ? arm(&o, &mistake, path) : 0;
	if (status)
		return status;
	execvp(program[0], program);
	return cannot_run(program[0], -errno);
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
		"\n"
		"example: pillion run --output prof -- xz -9 file; pillion top prof\n",
	.run = run_run,
	.own_options = true,
	.settings = true,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* attach: profile a running program, until it ends, the time is over or the user stops it. */
#include "profiler/cli/command.h"
#include "profiler/cli/progress.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/config/cli_settings.h"
#include "oci/runtime/engine_lookup.h"
#include "shim/attach/attach.h"
#include "shim/protocol/connect.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FIND_MS 10000 /* an engine may be slow */

static bool is_number(const char *text)
{
	return text[strspn(text, "0123456789")] == 0 && text[0];
}

/* A number is a process; for a container called 1234 the user gives its id. */
static int find_attach_target(const char *what, struct attach_target *ret, struct err *e)
{
	struct engine_container c;
	if (is_number(what)) {
		long pid = strtol(what, NULL, 10);
		return attach_find(pid > 0 && pid < INT_MAX ? (pid_t)pid : INT_MAX, ret, e);
	}
	int r = engine_lookup_find(what, deadline_in(FIND_MS * NSEC_PER_MSEC), &c, e);
	if (r < 0)
		return r;
	*ret = (struct attach_target){.pid = c.pid, .container = true};
	memcpy(ret->id, c.id, sizeof(ret->id));
	memcpy(ret->name, c.name, sizeof(ret->name));
	return 0;
}

static int open_signals(void)
{
	static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction old;
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* as under nohup */
			sigaddset(&set, ends[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Waits until the target has ended, a signal stops us, or the time is over. */
static void wait_for_end(const struct attached *a, int signals, uint32_t duration_s)
{
	struct pollfd p[] = {{.fd = a->sock, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
	int64_t end = duration_s ? deadline_in(duration_s * NSEC_PER_SEC) : INT64_MAX;
	int left, r;
	do {
		left = end == INT64_MAX ? -1 : deadline_left_ms(end);
		r = poll(p, 2, left);
	} while ((r < 0 && errno == EINTR) || (r == 0 && left > 0 && clock_now() < end));
}

static int print_result(const char *self, const struct attach_target *t, const struct msg_ended *ended)
{
	if (!ended->profile[0])
		return command_fail(self, EXIT_FAILED,
			"no profile of %s was written: it used no CPU time, or the spool is full (see the log)",
			t->name);
	command_say_profile(t->name, ended->samples, ended->profile);
	puts(ended->profile);
	return EXIT_DONE;
}

static int profile_target(const char *self, struct options *o, const struct attach_target *t)
{
	struct err e = {0};
	struct attached a;
	struct msg_ended ended;
	int signals = open_signals();
	int r = connect_output(&o->settings, t->pid, &e);
	if (r == 0)
		r = attach_start(o, t, &a, &e);
	if (r < 0)
		return command_fail(self, EXIT_FAILED, "cannot attach to %s (pid %d): %s", t->name, (int)t->pid,
			command_clean(e.text));
	fprintf(stderr, "attached to %s (pid %d)%s%s%s\n", t->name, (int)t->pid, a.notes[0] ? ": " : "",
		command_clean(a.notes), o->settings.command.duration_s ? "" : "; Ctrl-C ends it");
	progress_show("pillion attach: profiling");
	wait_for_end(&a, signals, o->settings.command.duration_s);
	progress_end();
	r = attach_stop(&a, &ended, &e);
	fd_close(signals);
	return r < 0 ? command_fail(self, EXIT_FAILED, "the profiler of %s is gone: %s", t->name, e.text)
		     : print_result(self, t, &ended);
}

/* Options may also follow the target: moves it to the end. */
static void put_target_last(int argc, char **argv)
{
	static struct options unused;
	int at;
	options_read_flags(&unused, argc, argv, &at, NULL);
	if (at >= argc)
		return;
	char *target = argv[at];
	memmove(argv + at, argv + at + 1, (size_t)(argc - at - 1) * sizeof(*argv));
	argv[argc - 1] = target;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return true;
	return false;
}

static int print_help(void)
{
	command_help(&cmd_attach, stdout);
	return EXIT_DONE;
}

static int cannot_find(const char *self, int error, struct err *e)
{
	int code = error == -ENOENT || error == -ESRCH ? EXIT_NOTHING : error == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	return command_fail(self, code, "%s", e->text);
}

static int run(int argc, char **argv)
{
	static struct options o;
	static struct attach_target t;
	struct err e = {0};
	if (asks_for_help(argc, argv))
		return print_help();
	fd_hold_stdio(); /* keeps output for people out of our sockets */
	put_target_last(argc, argv);
	int next = cli_settings_read_session(&o, argc, argv, &e);
	if (e.code)
		return command_fail(argv[0], EXIT_USAGE, "%s", e.text);
	if (argc - next != 1)
		return command_fail(argv[0], EXIT_USAGE, "give one process or container; see 'pillion help attach'");
	if (!o.settings.enabled)
		return command_fail(argv[0], EXIT_FAILED, "it is switched off: enabled is 0");
	int r = find_attach_target(argv[next], &t, &e);
	if (r < 0)
		return cannot_find(argv[0], r, &e);
	command_clean(t.name);
	return profile_target(argv[0], &o, &t);
}

const struct command cmd_attach = {
	.name = "attach",
	.line = "profile a process or container that runs already",
	.help = "usage: pillion attach PID|CONTAINER [OPTION]...\n"
		"\n"
		"Profiles a process, its threads and what it started, or everything in a container (name or id), until "
		"it\n"
		"ends, --duration is over, or Ctrl-C; the path of the last profile goes to stdout. Needs root for what "
		"is not\n"
		"your own. The profile goes to a service that listens, else to ./pillion-PID/ (--output).\n"
		"\n"
		"example: pillion attach web --duration 10s\n",
	.run = run,
	.own_options = true,
	.settings = true,
};

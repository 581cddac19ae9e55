/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/library_mode.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/config/cli_settings.h"
#include "shim/attach/app_socket.h"
#include "shim/attach/attach.h"
#include "shim/libpillion/abi/start_reply.h"
#include "shim/protocol/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Resets signals, limits and descriptors that the application may have changed. */
static void reset_process_state(void)
{
	static const int limits[] = {RLIMIT_NOFILE, RLIMIT_AS, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_STACK};
	const int keep = START_REPLY_PIPE;
	sigset_t none;
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	signal(SIGPIPE, SIG_IGN); /* a process that gave up has closed the pipe: then there is no target */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct rlimit l;
		if (getrlimit(limits[i], &l) == 0) {
			l.rlim_cur = l.rlim_max;
			setrlimit(limits[i], &l);
		}
	}
	fd_close_all_but(&keep, 1);
	fd_null_stdio(7);
	fcntl(START_REPLY_PIPE, F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_NAME, "pillion-library");
}

/*
 * Names the target by a part of the socket's path, which only its process knows; it also tells one session of a process
 * from the next.
 */
static void name_target(const struct app_socket *a, struct attach_target *t)
{
	const char *slash = strrchr(a->socket, '/');
	snprintf(t->id, sizeof(t->id), "library-%d.%.8s", (int)t->pid, slash && slash - a->socket > 8 ? slash - 8 : "");
}

static int attach_process(
	struct options *o, pid_t pid, bool kept, struct app_socket *app, struct attached *ret, struct err *e)
{
	static struct attach_target t;
	int r = options_off(o->settings.paths.etc) == 1
			? err_say(e, -EPERM, "switched off on this host ('pillion on' ends that)")
		: !o->settings.enabled ? err_say(e, -EPERM, "it is switched off: enabled is 0")
				       : attach_find(pid, &t, e);
	if (r == 0)
		r = connect_output(&o->settings, pid, e);
	if (r == 0)
		r = app_socket_listen_for_caller(app, e);
	if (r < 0)
		return r;
	name_target(app, &t);
	t.listener = app->listener;
	t.except = kept ? getppid() : 0;
	return attach_start(o, &t, ret, e);
}

static bool send_start_reply(int code, const char *socket, const char *text)
{
	struct start_reply s = {.magic = START_REPLY_MAGIC, .version = START_REPLY_VERSION, .code = code};
	snprintf(s.socket, sizeof(s.socket), "%s", socket);
	snprintf(s.text, sizeof(s.text), "%s", text);
	const bool heard = write(START_REPLY_PIPE, &s, sizeof(s)) == sizeof(s);
	fd_close(START_REPLY_PIPE);
	return heard;
}

/*
 * Waits until the target has ended, by itself or by its process's order; below a keeper, until the process has ended,
 * too.
 */
static void await_target_end(struct attached *a, int process, bool kept)
{
	static struct msg_ended ended;
	struct err e = {0};
	fd_wait(a->sock, POLLIN, INT64_MAX);
	attach_stop(a, &ended, &e);
	if (kept)
		fd_wait(process, POLLIN, INT64_MAX);
}

static int report_failure(const struct err *e)
{
	log_line(LOG_WARNING, "outcome=not_profiled reason=\"%s\"", e->text);
	send_start_reply(e->code, "", e->text);
	return 1;
}

int library_mode_main(int argc, char **argv)
{
	static struct options o;
	struct app_socket app = APP_SOCKET_NONE;
	struct attached attached;
	struct err e = {0};
	reset_process_state();
	const pid_t pid = argc > 3 ? atoi(argv[2]) : 0;
	const bool kept = argc > 3 && !strcmp(argv[3], "1");
	if (pid <= 0)
		return 2;
	fd_auto process = child_process_pidfd(pid);
	cli_settings_read(&o, argc - 3, argv + 3, &e);
	log_open("pilliond-library", o.settings.paths.log[0] ? o.settings.paths.log : NULL);
	log_level(o.settings.log_level);
	if (e.code)
		return report_failure(&e);
	if (attach_process(&o, pid, kept, &app, &attached, &e) < 0) {
		app_socket_forget(&app);
		return report_failure(&e);
	}
	app.listener = fd_close(app.listener);
	if (send_start_reply(0, app.socket, attached.notes) && chdir("/") == 0)
		await_target_end(&attached, process, kept);
	else
		fd_close(attached.sock);
	app_socket_forget(&app);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/run.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "shim/attach/app_socket.h"
#include "shim/attach/event_open.h"
#include "shim/attach/exe_open.h"
#include "shim/attach/file_opener.h"
#include "shim/event/event_request.h"
#include "shim/event/perf_event.h"
#include "shim/protocol/connect.h"
#include "shim/protocol/service_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
	const struct settings *settings;
	int64_t deadline;
	struct host_info host;
	struct event_open_request request;
	int tree, pidfd, exe, files;
	struct reached profiler;
	struct app_socket app;
	struct err refused, no_timers; /* why perf events are refused; why timers cannot take their place */
};

static int fill_target_desc(
	struct run *w, const struct request *asked, const char *program, struct err *ret_less, struct err *e)
{
	struct target_desc *d = &w->request.desc;
	const char *slash = strrchr(program, '/');
	int r = event_request_make(asked->events, NULL, d, e);
	if (r < 0)
		return r;
	if (d->notes[0])
		err_say(ret_less, -EINVAL, "%s", d->notes);
	snprintf(d->id, sizeof(d->id), "run-%d", (int)getpid());
	snprintf(d->name, sizeof(d->name), "%s", slash ? slash + 1 : program);
	d->init_pid = d->host_pid = getpid();
	if (proc_stat_start_time(getpid(), &d->start_time) < 0)
		d->start_time = (uint64_t)clock_now(); /* no /proc: unique all the same */
	d->window_s = asked->window_s;
	d->detail = asked->detail;
	d->n_labels = asked->n_labels;
	memcpy(d->labels, asked->labels, sizeof(d->labels));
	w->request.stacks = asked->stacks;
	w->request.attach = ATTACH_PROCESS;
	if (asked->attach == ATTACH_CGROUP)
		return err_say(
			e, -EINVAL, "`pillion run` follows one process and its children: --attach is auto or process");
	if (getpid() == 1)
		target_note(
			&w->request.desc, "the program is PID 1 and ends us with itself: its last window is missing");
	return 0;
}

static int open_target_events(struct run *w, struct err *e)
{
	struct target_desc *d = &w->request.desc;
	/* in the order of enum target_fd */
	const int fds[] = {w->pidfd, w->tree, -1, w->exe, -1, -1, w->app.listener, w->files};
	int target[TARGET_FDS_MAX];
	static const int no_probes[EVENTS_MAX] = {
		-1, -1, -1, -1, -1, -1, -1, -1}; /* they are left out: shim/attach/event_open.c */
	size_t n = 0;
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0) {
			d->fds |= 1u << i;
			target[n++] = fds[i];
		}
	const struct event_open p = {.host = &w->host,
		.request = &w->request,
		.target = target,
		.n_target = n,
		.cgroup = -1,
		.probes = no_probes,
		.sock = w->profiler.sock,
		.deadline = w->deadline};
	return event_open_events(&p, e);
}

static bool any_of_app(const struct target_desc *d)
{
	bool any = false;
	for (uint32_t i = 0; i < d->n_events; i++)
		any |= event_is_of_app(&d->events[i]);
	return any;
}

/* Leaves out the events that libpillion cannot count here; the others run. */
static int prepare_app(struct run *w, const char *program, struct err *ret_less, struct err *e)
{
	struct target_desc *d = &w->request.desc;
	struct err why = {0};
	perf_refused(&w->refused);
	if ((!any_of_app(d) && !w->refused.code) || app_socket_listen(w->settings, program, &w->app, &why) == 0)
		return 0;
	w->no_timers = why;
	for (uint32_t i = 0; i < d->n_events; i++)
		if (event_is_of_app(&d->events[i])) {
			err_say(ret_less, why.code, "%s: %s", event_name(&d->events[i]), why.text);
			target_leave_out(d, i, ret_less->text);
		}
	return d->n_events ? 0 : err_say(e, ret_less->code, "%s", ret_less->text);
}

static uint32_t get_hello_flags(const struct run *w)
{
	return w->refused.code && w->app.listener >= 0 ? HELLO_NO_PERF : 0;
}

static bool asks_for_cpu(const struct target_desc *d)
{
	uint32_t i = 0;
	while (i < d->n_events && event_kind(d->events[i].kind)->measure != MEASURES_CPU)
		i++;
	return i < d->n_events;
}

/* Appends to the text that is there already, in one line. */
static void say_timers(const struct run *w, struct err *ret_less)
{
	char said[sizeof(ret_less->text)];
	snprintf(said, sizeof(said), "%s", ret_less->code ? ret_less->text : "");
	err_say(ret_less, w->refused.code, "%s%s%s: %s", said, said[0] ? "; " : "",
		asks_for_cpu(&w->request.desc) ? "CPU time is sampled by timers in the program"
					       : "only processes with libpillion are known",
		w->refused.text);
}

/* Completes the result where perf events are refused. */
static int explain_result(const struct run *w, int r, struct err *ret_less, struct err *e)
{
	if (r == 0 && w->request.desc.strategy == STRATEGY_TIMERS)
		say_timers(w, ret_less);
	if (r < 0 && w->refused.code && w->no_timers.code) {
		char said[sizeof(e->text)];
		snprintf(said, sizeof(said), "%s", e->text);
		err_say(e, r, "%.160s; nor by timers: %s", said, w->no_timers.text);
	}
	return r;
}

/* The profiler runs as another user if we are root, and always if it is the service. */
static void open_files(struct run *w, const char *program)
{
	w->exe = w->files = -1;
	if (geteuid() == 0) {
		fd_auto self_fds = exe_self_fds();
		w->exe = exe_open_unreadable(w->tree, self_fds, program);
	}
	if (geteuid() == 0 || w->profiler.in_service)
		w->files = file_opener_give_tree(
			file_opener_for(&w->request.desc, w->deadline), w->tree, &w->request.desc);
}

int run_arm(struct options *o, const char *program, struct run_armed *ret, struct err *e)
{
	struct err *ret_less = &ret->less;
	static struct run w = {.app = APP_SOCKET_NONE};
	w.settings = &o->settings;
	w.deadline = deadline_in(o->settings.budget_ms * NSEC_PER_MSEC);
	int r = fill_target_desc(&w, &o->request, program, ret_less, e);
	if (r == 0)
		r = prepare_app(&w, program, ret_less, e);
	if (r < 0)
		return r;
	w.pidfd = child_process_pidfd(getpid());
	if (w.pidfd < 0) {
		app_socket_forget(&w.app);
		return err_set(e, w.pidfd, "no descriptor of this process");
	}
	r = connect_profiler(w.settings, w.request.desc.id, w.request.desc.start_time, get_hello_flags(&w), w.deadline,
		&w.profiler, e);
	if (r < 0) {
		fd_close(w.pidfd);
		app_socket_forget(&w.app);
		return explain_result(&w, r, ret_less, e);
	}
	ret->in_service = w.profiler.in_service;
	if (w.profiler.note[0])
		target_note(&w.request.desc, w.profiler.note);
	w.tree = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	open_files(&w, program);
	event_open_look(&w.host);
	r = open_target_events(&w, e);
	if (r == -ETIMEDOUT && w.profiler.in_service)
		service_client_failed(o->settings.paths.control);
	fd_close(w.profiler.sock);
	fd_close(w.pidfd);
	fd_close(w.tree);
	fd_close(w.exe);
	fd_close(w.files);
	if (w.app.listener >= 0 && r == 0 && app_socket_environment(&w.app) < 0)
		err_say(ret_less, -E2BIG,
			"LD_PRELOAD is too long for one more library: nothing is known from within the program");
	else if (w.app.listener >= 0 && r < 0)
		app_socket_forget(&w.app);
	fd_close(w.app.listener);
	if (r == 0)
		unsetenv("PILLION_EVENTS"); /* libpillion in the program would start another session for it */
	return explain_result(&w, r, ret_less, e);
}

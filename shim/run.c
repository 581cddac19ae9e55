#include "shim/run.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process.h"
#include "shim/asked.h"
#include "shim/pass.h"
#include "shim/program.h"
#include "shim/reach.h"
#include "shim/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct run {
	const struct settings *settings;
	int64_t deadline;
	struct pass_host host;
	struct pass_request request;
	int tree, pidfd, exe;
	struct reached profiler;
};

static int describe(
	struct run *w, const struct request *asked, const char *program, struct err *ret_less, struct err *e)
{
	struct target_desc *d = &w->request.desc;
	const char *slash = strrchr(program, '/');
	int r = asked_events(asked->events, NULL, d, e);
	if (r < 0)
		return r;
	if (d->notes[0])
		err_say(ret_less, -EINVAL, "%s", d->notes);
	snprintf(d->id, sizeof(d->id), "run-%d", (int)getpid());
	snprintf(d->name, sizeof(d->name), "%s", slash ? slash + 1 : program);
	d->init_pid = d->host_pid = getpid();
	if (process_start_time(getpid(), &d->start_time) < 0)
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

static int pass(struct run *w, struct err *e)
{
	struct target_desc *d = &w->request.desc;
	const int fds[] = {w->pidfd, w->tree, -1, w->exe}; /* in the order of enum target_fd */
	int target[TARGET_FDS_MAX];
	static const int no_probes[EVENTS_MAX] = {-1, -1, -1, -1, -1, -1, -1, -1}; /* they are left out: shim/pass.c */
	size_t n = 0;
	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0) {
			d->fds |= 1u << i;
			target[n++] = fds[i];
		}
	const struct passing p = {.host = &w->host,
		.request = &w->request,
		.target = target,
		.n_target = n,
		.cgroup = -1,
		.probes = no_probes,
		.sock = w->profiler.sock,
		.deadline = w->deadline};
	return pass_events(&p, e);
}

/* The profiler will not be root. */
static int open_program(int tree, const char *program)
{
	if (geteuid() != 0)
		return -1;
	fd_auto self_fds = program_self_fds();
	return program_open_unreadable(tree, self_fds, program);
}

int run_arm(struct options *o, const char *program, struct err *ret_less, struct err *e)
{
	static struct run w;
	w.settings = &o->settings;
	w.deadline = deadline_in(o->settings.budget_ms * NSEC_PER_MSEC);
	int r = describe(&w, &o->request, program, ret_less, e);
	if (r < 0)
		return r;
	w.pidfd = process_pidfd(getpid());
	if (w.pidfd < 0)
		return err_set(e, w.pidfd, "no descriptor of this process");
	r = reach_profiler(w.settings, w.request.desc.id, w.request.desc.start_time, w.deadline, &w.profiler, e);
	if (r < 0)
		return fd_close(w.pidfd), r;
	if (w.profiler.note[0])
		target_note(&w.request.desc, w.profiler.note);
	w.tree = fd_open(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
	w.exe = open_program(w.tree, program);
	pass_look(&w.host);
	r = pass(&w, e);
	if (r == -ETIMEDOUT && w.profiler.in_service)
		service_failed(o->settings.control);
	fd_close(w.profiler.sock);
	fd_close(w.pidfd);
	fd_close(w.tree);
	fd_close(w.exe);
	return r;
}

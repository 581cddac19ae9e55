/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/opener.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/config/user_dirs.h"
#include "oci/isolation/cgroup.h"
#include "oci/isolation/namespaces.h"
#include "oci/runtime/init_check.h"
#include "oci/runtime/policy.h"
#include "shim/attach/app_socket_container.h"
#include "shim/attach/exe_open.h"
#include "shim/attach/opener_inner.h"
#include "shim/attach/sidecar.h"
#include "shim/event/event_request.h"
#include "shim/event/event_spec.h"
#include "shim/event/uprobe.h"
#include "shim/protocol/service_client.h"
#include "shim/protocol/session_start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LAST_WORD_MS 20 /* beyond the deadline, to report a failure */

/* Everything that outer holds. */
struct outer {
	const struct settings *settings;
	struct hook_input_child *intake;
	struct opener_shared *shared;
	struct container *container; /* shared->container */
	struct opener_report *report;
	int64_t deadline;
	pid_t init;
	int line;   /* socket to the hook, for inner */
	int parcel; /* socket to inner */
	int pidfd, tree, exe, app, ns_mnt, ns_pid, self_fds;
	int root; /* the init's root directory, if it has entered its own already */
	bool same_mnt, same_pid;
	struct cgroup_target cgroup;
	struct event_open_request out;
	int probes[EVENTS_MAX];
	int sidecar; /* connection to the profiler in its Pod */
};

/* --- outer: looks, joins, forks ------------------------------------------------------------------------- */

/*
 * At createRuntime the container's root is still a path in the runtime's mount namespace. When we are called at
 * `start`, the init knows that path no more: its root directory is the container's.
 */
static int root_of(pid_t init)
{
	struct stat ours, theirs;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/root", (int)init);
	int fd = fd_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
	if (fd < 0 || fstat(fd, &theirs) < 0 || stat("/", &ours) < 0)
		return fd_close(fd);
	return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino ? fd_close(fd) : fd;
}

static int identify_target(struct outer *w, struct err *e)
{
	struct target_desc *d = &w->out.desc;
	int r = proc_stat_start_time(w->init, &d->start_time);
	if (r == 0)
		r = ns_pid_in(w->ns_pid, w->init, &d->init_pid);
	if (r < 0)
		return child_process_explain(w->init, r, e);
	w->root = root_of(w->init);
	w->ns_mnt = ns_open(w->init, NS_MNT, &w->same_mnt, e);
	return w->ns_mnt < 0 ? e->code : 0;
}

static _Noreturn void become_inner(const struct outer *w, int parcel)
{
	const struct opener_inner in = {.settings = w->settings,
		.report = w->report,
		.deadline = w->deadline,
		.line = w->line,
		.parcel = parcel};
	const int keep[] = {w->line, parcel};
	/* outer and the hook act on these, so no less privileged process may write them */
	munmap(w->shared, sizeof(*w->shared));
	hook_input_child_unmap(w->intake);
	fd_close_all_but(keep, 2);
	inner_run(&in);
}

/* Early: inner greets the service and gives up its privileges while outer goes on. */
static int fork_inner(struct outer *w, struct err *e)
{
	int pair[2];
	w->ns_pid = ns_open(w->init, NS_PID, &w->same_pid, e);
	int r = w->ns_pid < 0 ? e->code : w->same_pid ? 0 : ns_join(w->ns_pid, NS_PID, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "no socket between the opener's processes");
	pid_t pid = ns_fork_high(&w->shared->inner);
	int error = -errno;
	if (pid == 0)
		become_inner(w, pair[1]);
	fd_close(pair[1]);
	w->parcel = pair[0];
	if (pid < 0)
		return err_set(e, error, "cannot fork into the container's pid namespace");
	child_process_run_beside(pid);
	return 0;
}

/* Without a tree there are still samples; they carry module and offset instead of names. */
static void take_tree(struct outer *w)
{
	struct err e = {0};
	if (w->same_mnt || ns_join(w->ns_mnt, NS_MNT, &e) == 0)
		w->tree = w->root < 0 ? ns_tree(w->container->root, &e) : ns_tree_at(w->root, &e);
	if (w->tree < 0) {
		w->tree = -1;
		target_note(&w->out.desc, "no names of functions");
		target_note(&w->out.desc, e.text);
	}
}

typedef int open_exe_fn(int tree, int self_fds, const char *path);

/* process.args[0], by the default PATH where it is a bare name */
static int open_exe(const struct outer *w, open_exe_fn *open)
{
	static const char *const dirs[] = {
		"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"};
	const char *exe = w->container->exe;
	char path[4200];
	int fd = -1;
	if (w->tree < 0 || !exe[0])
		return -1;
	if (strchr(exe, '/'))
		return open(w->tree, w->self_fds, exe);
	for (size_t i = 0; fd < 0 && i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], exe);
		fd = open(w->tree, w->self_fds, path);
	}
	return fd;
}

/* Makes the socket to which libpillion connects; without it, events that only libpillion counts are left out. */
static int take_app(struct outer *w, struct err *e)
{
	struct target_desc *d = &w->out.desc;
	struct err why = {0};
	char text[400];
	uint32_t i = 0;
	while (i < d->n_events && !event_is_of_app(&d->events[i]))
		i++;
	if (i == d->n_events)
		return 0;
	fd_auto exe = open_exe(w, exe_open);
	/* not w->tree, which is read-only, but the same directory by the path that led to it */
	fd_auto root = w->tree < 0   ? w->tree
		       : w->root < 0 ? fd_open(AT_FDCWD, w->container->root, O_PATH | O_DIRECTORY, 0)
				     : fd_open(w->root, ".", O_PATH | O_DIRECTORY, 0);
	w->app = root < 0 ? err_say(&why, -ENOENT, "the container's files cannot be reached")
			  : app_socket_listen_in_container(root, exe, w->container->exe, &why);
	while (w->app < 0 && i < d->n_events) {
		snprintf(text, sizeof(text), "%s: %.300s", event_name(&d->events[i]), why.text);
		if (event_is_of_app(&d->events[i]))
			target_leave_out(d, i, text);
		else
			i++;
	}
	return d->n_events ? 0 : err_say(e, why.code, "%s", text);
}

static int fill_target_desc(struct outer *w, struct err *e)
{
	const struct container *c = w->container;
	const struct request *req = &c->request;
	struct target_desc *d = &w->out.desc;
	int r = event_request_make(req->events, &w->settings->policy, d, e);
	if (r < 0)
		return err_wrap(e, r, "annotation io.pillion.profile");
	snprintf(d->id, sizeof(d->id), "%s", c->id);
	snprintf(d->name, sizeof(d->name), "%s", c->name);
	snprintf(d->pod, sizeof(d->pod), "%s", c->pod);
	snprintf(d->pod_namespace, sizeof(d->pod_namespace), "%s", c->pod_namespace);
	snprintf(d->service, sizeof(d->service), "%s", c->service);
	snprintf(d->cgroup, sizeof(d->cgroup), "%s", w->cgroup.path);
	d->host_pid = w->sidecar < 0 ? c->pid : d->init_pid;
	d->window_s = req->window_s;
	d->detail = req->detail;
	d->n_labels = req->n_labels;
	memcpy(d->labels, req->labels, sizeof(d->labels));
	w->out.attach = req->attach;
	w->out.stacks = req->stacks;
	if (c->warning[0])
		target_note(&w->out.desc, c->warning);
	return 0;
}

/*
 * Finds the sidecar, which is a tenant's: it gets user code only, by strategy `process`, and nothing that leads out of
 * the Pod. Where policy allows no sidecars, the profiler of the node takes its place, with a note.
 */
static int find_sidecar(struct outer *w, struct err *e)
{
	static struct settings own;
	if (!w->container->sidecar[0])
		return 0;
	if (!w->settings->policy.sidecars) {
		target_note(&w->out.desc, "not by the volume at " SIDECAR_DIR ": policy allows no sidecars");
		return 0;
	}
	w->sidecar = sidecar_reach(w->container->sidecar, &w->cgroup, e);
	if (w->sidecar < 0)
		return e->code;
	own = *w->settings;
	own.policy.tracepoints = own.policy.kprobes = own.policy.uprobes = own.policy.raw = false;
	w->settings = &own;
	cgroup_target_done(&w->cgroup);
	w->cgroup = (struct cgroup_target){
		.perf_dir = -1, .events_dir = -1, .reason = "a sidecar has no other container's cgroup"};
	w->out.user_only = true;
	target_note(&w->out.desc, "by a sidecar of its Pod: user code alone, and no tracepoint, probe or raw counter");
	return 0;
}

static int hand_over(struct outer *w, struct err *e)
{
	const int target[] = {w->pidfd, w->tree, w->cgroup.events_dir, w->exe}; /* in the order of enum target_fd */
	int fds[PARCEL_FDS_MAX], n = 0;
	for (unsigned i = 0; i < sizeof(target) / sizeof(target[0]); i++)
		if (target[i] >= 0) {
			w->out.desc.fds |= 1u << i;
			fds[n++] = target[i];
		}
	if (w->app >= 0) {
		w->out.desc.fds |= TARGET_APP;
		fds[n++] = w->app;
	}
	if (w->cgroup.perf_dir >= 0)
		fds[n++] = w->cgroup.perf_dir;
	else
		memcpy(w->out.no_cgroup, w->cgroup.reason, sizeof(w->out.no_cgroup));
	for (size_t i = 0; i < probes_count(&w->out.desc); i++)
		fds[n++] = w->probes[i];
	if (w->sidecar >= 0)
		fds[n++] = w->sidecar;
	int r = fd_send(w->parcel, &w->out, sizeof(w->out), fds, (size_t)n);
	/* -EPIPE: it died, and its wait status says how */
	return r < 0 && r != -EPIPE ? err_set(e, r, "no word to the opener's second process") : 0;
}

/* Done before it is known whether a profile is requested at all. */
static int prepare_attach(struct outer *w, struct err *e)
{
	w->pidfd = child_process_pidfd(w->init);
	int r = w->pidfd < 0 ? child_process_explain(w->init, w->pidfd, e) : init_check_program(w->init, e);
	if (r == 0)
		r = fork_inner(w, e);
	if (r == 0)
		r = identify_target(w, e);
	if (r < 0)
		return r;
	cgroup_find(w->init, &w->cgroup);
	/* if the init still lives, the lookups by its pid found it */
	return fd_wait(w->pidfd, POLLIN, 0) == 1 ? child_process_explain(w->init, -ESRCH, e) : 0;
}

/* 0 = handed over: inner reports. */
static int attach_container(struct outer *w, struct err *e)
{
	int r = w->parcel < 0 || w->init != w->container->pid
			? err_say(e, -EBADMSG, "the reader of state and config contradicts itself")
			: 0;
	if (r == 0)
		r = find_sidecar(w, e);
	if (r == 0)
		r = fill_target_desc(w, e);
	if (r < 0)
		return r;
	w->self_fds = exe_self_fds();
	if (w->sidecar < 0)
		take_tree(w);
	w->exe = open_exe(w, exe_open_unreadable);
	r = take_app(w, e);
	if (r < 0)
		return r;
	r = probes_find(
		&w->out.desc, w->tree, w->self_fds, clock_now() + (w->deadline - clock_now()) / 2, w->probes, e);
	return r < 0 ? r : hand_over(w, e);
}

static int apply_verdict(struct outer *w, int prepared, const struct err *why, struct err *e)
{
	const struct container *c = w->container;
	w->report->outcome = c->stopped ? OPENER_STOPPED : OPENER_NOTHING;
	if (c->stopped) /* runc says so, too, of a container that it restores, but with a pid */
		return c->verdict == DECISION_PROFILE && c->pid > 0 ? init_check_program(c->pid, e) : 0;
	switch ((enum profile_decision)c->verdict) {
	case DECISION_OFF:
	case DECISION_SANDBOX:
		return 0;
	case DECISION_INVALID:
		return err_say(e, -EINVAL, "%s", c->reason);
	case DECISION_PROFILE:
		if (!container_sampled(c->id, w->settings->policy.sample)) {
			w->report->outcome = OPENER_UNSAMPLED;
			return 0;
		}
		if (policy_permits(w->settings, c, e) < 0) {
			snprintf(w->report->text, sizeof(w->report->text), "%s", e->text);
			w->report->outcome = OPENER_FORBIDDEN;
			return 0;
		}
		w->report->outcome = OPENER_DIED;
		return prepared < 0 ? err_say(e, prepared, "%s", why->text) : attach_container(w, e);
	default: /* container_check lets no other pass */
		return 0;
	}
}

static int process_hook_input(struct outer *w, struct err *e)
{
	struct err why = {0};
	int prepared = 0;
	w->init = hook_input_child_asked(w->intake, w->deadline);
	if (w->init)
		prepared = prepare_attach(w, &why);
	int r = hook_input_child_finish(w->intake, w->deadline, w->container, e);
	if (r == -EPIPE) {
		w->report->outcome = OPENER_NO_ANSWER;
		return 0;
	}
	return r < 0 ? r : apply_verdict(w, prepared, &why, e);
}

static _Noreturn void run_outer(const struct opener *op, int line)
{
	/* set field by field: pages that stay zero are never touched */
	static struct outer w;
	struct err e = {0};
	w.settings = op->settings;
	w.intake = op->intake;
	w.shared = op->shared;
	w.container = &op->shared->container;
	w.report = op->report;
	w.deadline = op->deadline;
	w.line = line;
	w.pidfd = w.tree = w.exe = w.app = w.root = w.ns_mnt = w.ns_pid = w.parcel = w.self_fds = -1;
	w.cgroup.perf_dir = w.cgroup.events_dir = -1;
	w.sidecar = -1;
	const int keep[] = {line, op->intake->said};
	child_process_die_with(op->hook);
	prctl(PR_SET_DUMPABLE, 0); /* no process in the namespaces that we join may look into us */
	fd_close_all_but(keep, 2);
	fd_null_stdio(7);
	int r = process_hook_input(&w, &e);
	if (r < 0)
		opener_report(w.report, r, w.out.desc.notes, &e);
	_exit(0);
}

/* --- the hook's side ------------------------------------------------------------------------------------ */

static void *shared_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

int opener_start(struct opener *op, struct hook_input_child *in, const struct settings *settings, int64_t deadline,
	struct err *e)
{
	int pair[2];
	/* set field by field: touching the pages of `container` before the fork would have them copied */
	op->settings = settings;
	op->intake = in;
	op->deadline = deadline;
	op->hook = getpid();
	op->outer = 0;
	op->line = -1;
	op->report = shared_memory(sizeof(*op->report));
	op->shared = shared_memory(sizeof(*op->shared));
	if (!op->report || !op->shared)
		return err_set(e, -errno, "no memory for the opener");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "no socket to the opener");
	op->outer = fork();
	int error = -errno;
	if (op->outer == 0)
		run_outer(op, pair[1]);
	fd_close(pair[1]);
	op->line = pair[0];
	return op->outer < 0 ? err_set(e, error, "cannot fork the opener") : 0;
}

/* Copies the container as far as outer has it; also when inner asks before outer is done. */
static int copy_container(struct opener *op, struct err *e)
{
	op->container = op->shared->container;
	if (container_check(&op->container) == 0)
		return 0;
	container_init(&op->container);
	return err_say(e, -EBADMSG, "the reader of state and config returned nonsense");
}

static int start_session(struct opener *op, struct err *e)
{
	uint64_t start;
	int r = copy_container(op, e);
	if (r == 0 && op->container.verdict != DECISION_PROFILE)
		r = err_say(e, -EBADMSG, "the opener asked for a session out of turn");
	if (r < 0)
		return r;
	r = proc_stat_start_time(op->container.pid, &start);
	if (r < 0)
		return child_process_explain(op->container.pid, r, e);
	struct session session = {.settings = op->settings,
		.id = op->container.id,
		.start_time = start,
		.share_cgroup = user_dirs_in_userns()};
	fd_auto sock = session_start(&session, op->deadline, e);
	op->in_session = sock >= 0;
	r = sock < 0 ? sock : fd_send(op->line, "", 1, &sock, 1);
	return sock >= 0 && r < 0 ? err_set(e, r, "no word to the opener") : r;
}

/* Waits until both have ended, or for the deadline. Inner may ask for a session, once. */
static int listen_on_line(struct opener *op, int64_t deadline, struct err *e)
{
	char byte;
	size_t n;
	int r = 0;
	if (fd_wait(op->line, POLLIN, deadline) == 1 && fd_recv(op->line, &byte, 1, NULL, 0, &n) == 1) {
		r = start_session(op, e);
		if (r == 0)
			fd_wait(op->line, POLLIN, deadline);
	}
	op->line = fd_close(op->line);
	return r;
}

static int wait_for(pid_t *child, int64_t deadline)
{
	pid_t pid = *child;
	*child = 0;
	return pid > 0 ? child_process_wait(pid, deadline) : 0;
}

/* Outer first: it forks inner, whose pid is known from then on. */
static int wait_for_both(struct opener *op, int64_t deadline, struct err *e)
{
	char fate[80];
	int status = wait_for(&op->outer, deadline);
	int inner = wait_for(&op->shared->inner, deadline);
	status = status ? status : inner;
	if (status == -ETIMEDOUT)
		return err_say(e, -ETIMEDOUT, "the handshake did not finish within its budget");
	return status ? err_say(e, -EIO, "the opener %s", child_process_fate(status, fate, sizeof(fate))) : 0;
}

static int explain_outcome(struct opener *op, const struct opener_report *report, struct err *e)
{
	switch ((enum opener_outcome)report->outcome) {
	case OPENER_NO_ANSWER:
		return hook_input_child_explain(op->intake, op->deadline, e);
	case OPENER_FAILED:
		return err_say(e, report->code, "%s", report->text);
	case OPENER_DIED:
		return err_say(e, -EIO, "the opener ended without a word");
	case OPENER_FORBIDDEN:
		err_say(e, 0, "%s", report->text);
		return 0;
	default:
		return 0;
	}
}

enum opener_outcome opener_wait(struct opener *op, char *notes, size_t notes_size, struct err *e)
{
	struct err later;
	int64_t deadline = op->deadline + LAST_WORD_MS * NSEC_PER_MSEC;
	int r = listen_on_line(op, deadline, e);
	/* Once armed, how they end no longer matters, and an exit takes long enough to do something else meanwhile. */
	if (r < 0 || op->report->outcome != OPENER_ARMED) {
		int ended = wait_for_both(op, deadline, r < 0 ? &later : e);
		r = r < 0 ? r : ended;
	}
	copy_container(op, &later);
	struct opener_report report = *op->report; /* a copy is checked: inner may still write */
	report.text[sizeof(report.text) - 1] = report.notes[sizeof(report.notes) - 1] = 0;
	if (r == 0)
		r = explain_outcome(op, &report, e);
	if (r == -ETIMEDOUT && report.in_service)
		service_client_failed(op->settings->paths.control);
	snprintf(notes, notes_size, "%s", r < 0 ? "" : report.notes);
	if (r < 0 && op->in_session) /* else the next start would believe that it profiles the container */
		session_clean(op->container.id, op->deadline);
	return r < 0 ? OPENER_FAILED : (enum opener_outcome)report.outcome;
}

void opener_done(struct opener *op)
{
	struct err e;
	if (!op->shared)
		return; /* never started */
	op->line = fd_close(op->line);
	wait_for_both(op, op->deadline, &e);
}

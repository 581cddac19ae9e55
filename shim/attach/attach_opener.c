/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/attach/attach_opener.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/cgroup.h"
#include "oci/isolation/namespaces.h"
#include "oci/isolation/seccomp.h"
#include "shim/attach/exe_open.h"
#include "shim/attach/file_opener.h"
#include "shim/event/perf_event.h"
#include "shim/event/uprobe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOBODY 65534
#define DEEPER_MAX 2

/* From outer to inner, with descriptors: those that request.desc.fds names, the cgroup's directory, uprobes' files. */
struct parcel {
	struct event_open_request request;
	struct thread_scan_scope scope;
};

static struct attach_job job;

static void send_report(int code, const struct err *e)
{
	struct attach_report r = {.code = code};
	snprintf(r.text, sizeof(r.text), "%s", code < 0 ? e->text : "");
	snprintf(r.notes, sizeof(r.notes), "%s", job.request.desc.notes);
	fd_send(ATTACH_OPENER_LINE, &r, sizeof(r), NULL, 0);
}

/* No process in the namespaces that we join may look into us. Every change of user undoes both. */
static void protect_process(void)
{
	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* --- inner --------------------------------------------------------------------------------------------- */

static int become_opener(struct err *e)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (uid == 0) {
		uid = NOBODY;
		gid = NOBODY;
		passwd_user("pillion", &uid, &gid);
	}
	uint64_t events = job.remap ? 0 : perf_caps(probes_count(&job.request.desc) > 0);
	int r = capabilities_become(uid, gid, events | CAP_BIT(CAP_SYS_PTRACE), e);
	protect_process();
	return r;
}

static int open_target_events(
	struct parcel *parcel, const int *fds, size_t n, const struct host_info *host, struct err *e)
{
	size_t n_target = (size_t)__builtin_popcount(parcel->request.desc.fds);
	bool has_cgroup = !job.remap && !parcel->request.no_cgroup[0];
	if (n != n_target + has_cgroup + (job.remap ? 0 : probes_count(&parcel->request.desc)))
		return err_say(e, -EPROTO, "the opener's processes misunderstood each other");
	const struct event_open p = {.host = host,
		.request = &job.request,
		.target = fds,
		.n_target = n_target,
		.cgroup = has_cgroup ? fds[n_target] : -1,
		.probes = fds + n_target + has_cgroup,
		.running = &parcel->scope,
		.sock = ATTACH_OPENER_PROFILER,
		.deadline = job.deadline};
	job.request = parcel->request;
	return job.remap ? event_open_remapped(&p, e) : event_open_events(&p, e);
}

static _Noreturn void run_inner(int from_outer)
{
	static struct parcel parcel;
	static struct host_info host;
	struct err e = {0};
	int fds[TARGET_FDS_MAX + 1 + EVENTS_MAX];
	size_t n = 0;
	protect_process();
	event_open_look(&host);
	event_open_raise_files();
	int r = become_opener(&e);
	if (fd_wait(ATTACH_OPENER_LINE, POLLIN, 0) == 1)
		_exit(0); /* the caller has ended already */
	if (r == 0)
		r = seccomp_enter(SECCOMP_ATTACHER, &e);
	if (fd_wait(from_outer, POLLIN, job.deadline) != 1 ||
		fd_recv(from_outer, &parcel, sizeof(parcel), fds, sizeof(fds) / sizeof(fds[0]), &n) != sizeof(parcel))
		_exit(0); /* outer gave up, and has reported why */
	if (r == 0)
		r = open_target_events(&parcel, fds, n, &host, &e);
	send_report(r, &e);
	_exit(0);
}

/* --- outer --------------------------------------------------------------------------------------------- */

struct outer {
	struct parcel parcel;
	pid_t pid;
	int to_inner, ns_pid, ns_mnt, pidfd, root, tree, exe, app, files, self_fds;
	bool same_pid, same_mnt;
	struct cgroup_target cgroup;
	int probes[EVENTS_MAX];
};

static struct target_desc *get_target_desc(struct outer *w)
{
	return &w->parcel.request.desc;
}

static void add_error_note(struct outer *w, const char *text, const struct err *e)
{
	char line[400];
	snprintf(line, sizeof(line), "%s: %s", text, e->text);
	target_note(get_target_desc(w), line);
}

/* From here on lookups by pid find the target, as long as the pidfd says that it lives. */
static int identify_target(struct outer *w, struct err *e)
{
	uint64_t start = 0;
	char path[64];
	w->pidfd = child_process_pidfd(w->pid);
	if (w->pidfd < 0)
		return err_set(e, w->pidfd, "process %d", (int)w->pid);
	int r = proc_stat_start_time(w->pid, &start);
	if (r < 0 || start != get_target_desc(w)->start_time)
		return err_say(e, -ESRCH, "process %d is gone already", (int)w->pid);
	w->ns_pid = ns_open(w->pid, NS_PID, &w->same_pid, e);
	if (w->ns_pid >= 0)
		w->ns_mnt = ns_open(w->pid, NS_MNT, &w->same_mnt, e);
	if (w->ns_pid < 0 || w->ns_mnt < 0)
		return e->code;
	if (job.remap && w->same_pid)
		return err_say(e, -EPERM, "only of what has a pid namespace of its own");
	snprintf(path, sizeof(path), "/proc/%d/root", (int)w->pid);
	w->root = fd_open(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
	return 0;
}

/* Forks inner, into the target's pid namespace where we may join it. */
static int fork_inner(struct outer *w, struct err *e)
{
	int pair[2];
	static pid_t told;
	bool joined = !w->same_pid && ns_join(w->ns_pid, NS_PID, e) == 0;
	if (!w->same_pid && !joined)
		add_error_note(w, "pids are those of the host", e);
	int depth = joined ? proc_status_nspid_depth(w->pid) : 1;
	w->parcel.scope.depth = depth > 0 ? (unsigned)depth : 1;
	int r = joined ? ns_pid_in(w->ns_pid, w->pid, &get_target_desc(w)->init_pid) : 0;
	if (r < 0)
		return err_set(e, r, "process %d", (int)w->pid);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "no socket between the opener's processes");
	pid_t pid = ns_fork_high(&told);
	int error = -errno;
	if (pid == 0) {
		const int keep[] = {ATTACH_OPENER_LINE, ATTACH_OPENER_PROFILER, pair[1]};
		fd_close_all_but(keep, 3);
		run_inner(pair[1]);
	}
	fd_close(pair[1]);
	w->to_inner = pair[0];
	return pid < 0 ? err_set(e, error, "cannot fork into the target's pid namespace") : 0;
}

/* Without a copy of the target's mounts its own root serves, as long as the target lives. */
static void take_tree(struct outer *w)
{
	struct err e = {0};
	if (!w->same_mnt && ns_join(w->ns_mnt, NS_MNT, &e) == 0)
		w->tree = ns_tree_at(w->root, &e);
	if (w->tree < 0)
		w->tree = w->root;
	if (w->tree < 0)
		target_note(get_target_desc(w), "no names of functions: its files cannot be reached");
	w->files = file_opener_give_tree(w->files, w->tree, get_target_desc(w));
}

/* Reads our own /proc, which we lose by joining the mount namespace. */
static void name_exe(const struct outer *w, char exe[static PATH_MAX])
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)w->pid);
	ssize_t n = readlink(path, exe, PATH_MAX - 1);
	exe[n < 0 ? 0 : n] = 0;
}

/* May this cgroup be a container's own? The root and slices hold those of others as well. */
static bool may_be_whole(const char *path, size_t n)
{
	static const char slice[] = ".slice";
	return n > 1 && (n < sizeof(slice) || memcmp(path + n - sizeof(slice) + 1, slice, sizeof(slice) - 1) != 0);
}

/*
 * On a remap, the cgroup by which the target was attached: its init may have moved deeper since, by a cgroup or two
 * (systemd does). No more is allowed: the request comes from an unprivileged profiler, which must not learn the
 * mappings of other processes.
 */
static const char *scope_path(struct outer *w)
{
	const char *asked = get_target_desc(w)->cgroup, *own = w->cgroup.path;
	size_t n = strlen(asked);
	unsigned deeper = 0;
	if (!job.remap || !may_be_whole(asked, n) || strncmp(asked, own, n) != 0 || (own[n] != '/' && own[n]))
		return own;
	for (const char *c = own + n; *c; c++)
		deeper += *c == '/';
	return deeper <= DEEPER_MAX ? asked : own;
}

/* Sets the scope of the scan for threads, and finds the cgroup for PERF_FLAG_PID_CGROUP. */
static void find_scope(struct outer *w)
{
	struct thread_scan_scope *scope = &w->parcel.scope;
	bool whole = job.container || job.request.attach == ATTACH_CGROUP;
	scope->root = w->pid;
	scope->except = job.except;
	snprintf(w->cgroup.reason, sizeof(w->cgroup.reason), "one process is asked for, not its cgroup");
	if (whole)
		cgroup_find_running(w->pid, job.container ? get_target_desc(w)->id : "", &w->cgroup);
	if (w->cgroup.perf_dir < 0) {
		snprintf(w->parcel.request.no_cgroup, sizeof(w->parcel.request.no_cgroup), "%s", w->cgroup.reason);
		return;
	}
	snprintf(scope->controller, sizeof(scope->controller), "%s", w->cgroup.v1 ? "perf_event" : "");
	snprintf(scope->cgroup, sizeof(scope->cgroup), "%s", scope_path(w));
	snprintf(get_target_desc(w)->cgroup, sizeof(get_target_desc(w)->cgroup), "%s", scope->cgroup);
}

static int hand_over(struct outer *w, struct err *e)
{
	/* in the order of enum target_fd */
	const int target[] = {w->pidfd, w->tree, w->cgroup.events_dir, w->exe, -1, -1, w->app, w->files};
	int fds[TARGET_FDS_MAX + 1 + EVENTS_MAX], n = 0;
	for (unsigned i = 0; i < sizeof(target) / sizeof(target[0]); i++)
		if (target[i] >= 0) {
			get_target_desc(w)->fds |= 1u << i;
			fds[n++] = target[i];
		}
	if (w->cgroup.perf_dir >= 0 && !job.remap)
		fds[n++] = w->cgroup.perf_dir;
	for (size_t i = 0; i < probes_count(get_target_desc(w)) && !job.remap; i++)
		fds[n++] = w->probes[i];
	int r = fd_send(w->to_inner, &w->parcel, sizeof(w->parcel), fds, (size_t)n);
	/* -EPIPE: inner died, and EOF on the line tells the caller */
	return r < 0 && r != -EPIPE ? err_set(e, r, "no word to the opener's second process") : 0;
}

static int run_outer(struct outer *w, struct err *e)
{
	char exe[PATH_MAX];
	int r = identify_target(w, e);
	if (r == 0) {
		find_scope(w);
		r = fork_inner(w, e);
	}
	if (r < 0)
		return r;
	if (job.remap && fd_wait(w->pidfd, POLLIN, 0) == 1)
		return err_say(e, -ESRCH, "process %d is gone already", (int)w->pid);
	if (job.remap)
		return hand_over(w, e);
	name_exe(w, exe);
	take_tree(w);
	if (w->tree >= 0 && exe[0] && geteuid() == 0)
		w->exe = exe_open_unreadable(w->tree, w->self_fds, exe);
	if (fd_wait(w->pidfd, POLLIN, 0) == 1) /* its pid may have become that of another process */
		return err_say(e, -ESRCH, "process %d is gone already", (int)w->pid);
	r = probes_find(
		get_target_desc(w), w->tree, w->self_fds, clock_now() + (job.deadline - clock_now()) / 2, w->probes, e);
	return r < 0 ? r : hand_over(w, e);
}

/* In the order of enum target_fd. */
static void take_sockets(struct outer *w, const int *fds, size_t n)
{
	const uint32_t named = job.request.desc.fds;
	size_t at = 0;
	w->app = named & TARGET_APP && at < n ? fds[at++] : -1;
	w->files = named & TARGET_FILES && at < n ? fds[at] : -1;
	job.request.desc.fds = 0;
}

_Noreturn void attach_opener_run(void)
{
	static struct outer w = {
		.to_inner = -1, .ns_pid = -1, .ns_mnt = -1, .pidfd = -1, .root = -1, .tree = -1, .exe = -1};
	int keep[4] = {ATTACH_OPENER_LINE, ATTACH_OPENER_PROFILER};
	struct err e = {0};
	size_t n;
	w.cgroup.perf_dir = w.cgroup.events_dir = -1;
	if (fd_recv(ATTACH_OPENER_LINE, &job, sizeof(job), keep + 2, 2, &n) != sizeof(job))
		_exit(2); /* started by hand: there is no job */
	take_sockets(&w, keep + 2, n);
	protect_process();
	if (getppid() != job.caller)
		_exit(1);
	fd_close_all_but(keep, 2 + n);
	fd_null_stdio(7);
	w.self_fds = exe_self_fds();
	w.parcel.request = job.request;
	w.pid = job.request.desc.host_pid;
	get_target_desc(&w)->init_pid = w.pid;
	int r = run_outer(&w, &e);
	job.request = w.parcel.request;
	if (r < 0)
		send_report(r, &e);
	_exit(r < 0);
}

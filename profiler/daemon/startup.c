/* SPDX-License-Identifier: Apache-2.0 */
#include "profiler/daemon/startup.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/log.h"
#include "oci/base/process/child_process.h"
#include "oci/base/unix_socket.h"
#include "oci/config/user_dirs.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/cgroup.h"
#include "oci/isolation/seccomp.h"
#include "profiler/daemon/worker_handover.h"
#include "profiler/process/debug_file.h"
#include "profiler/target/limits.h"
#include "profiler/web/http_listen.h"
#include "shim/event/perf_event.h"
#include "shim/protocol/service_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY 65534
#define PROCESSES 256

static const struct cgroup_limits service_limits = {.memory = 256 << 20, .cpu_percent = 100, .pids = 256};

/* True: a directory that is another user's and not empty; it stays as it is: `pillion run --output /tmp` as root. */
static bool is_foreign(int dir, uid_t uid, struct err *e, const char *path)
{
	struct stat st;
	int copy = fd_open_dir(dir, ".");
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	bool empty = true;
	for (struct dirent *de; d && (de = readdir(d));)
		empty &= !strcmp(de->d_name, ".") || !strcmp(de->d_name, "..");
	if (d)
		closedir(d);
	if (empty || fstat(dir, &st) < 0 || st.st_uid == uid || st.st_uid == NOBODY)
		return false;
	err_say(e, -EPERM, "%s holds files of user %u: name a new directory, or give it to user %u", path,
		(unsigned)st.st_uid, (unsigned)uid);
	return true;
}

/* mkdir -p; the last directory gets owner and mode, and is returned open. */
static int make_dir(const char *path, bool may_be_foreign, uid_t uid, gid_t gid, mode_t mode, struct err *e)
{
	char part[1100];
	size_t len = strlen(path);
	if (len == 0 || len >= sizeof(part) || path[0] != '/')
		return err_say(e, -EINVAL, "\"%s\" is not an absolute directory", path);
	for (size_t i = 1; i <= len; i++)
		if (path[i] == '/' || !path[i]) {
			snprintf(part, sizeof(part), "%.*s", (int)i, path);
			if (mkdir(part, 0755) < 0 && errno != EEXIST)
				return err_set(e, -errno, "cannot make %s", part);
		}
	int dir = fd_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (dir < 0)
		return err_set(e, dir, "cannot open %s", path);
	int r = 0;
	if (geteuid() == 0 && may_be_foreign && is_foreign(dir, uid, e, path))
		r = -EPERM;
	else if (geteuid() == 0 && (fchown(dir, uid, gid) < 0 || fchmod(dir, mode) < 0))
		r = err_set(e, -errno, "cannot hand over %s", path);
	return r < 0 ? fd_close(dir), r : dir;
}

static int open_spool(const struct settings *set, struct startup *s, struct engine *g, struct err *e)
{
	/* users only pass through to their own directory, of which they know the name */
	int dir = make_dir(set->paths.spool, g->role.single, s->uid, s->gid, set->users.group[0] ? 0751 : 0750, e);
	snprintf(g->spool.path, sizeof(g->spool.path), "%s", set->paths.spool);
	*s->exporter = (struct exporter_setup){
		.spool = dir, .spool_bytes = set->spool_bytes, .spool_age_s = set->spool_age_s, .http.fd = -1};
	return dir < 0 ? dir : 0;
}

/* Without the lock, commands that read there do not wait for the last window. */
static void lock_spool(struct startup *s, struct engine *g)
{
	if (spool_lock_take(s->exporter->spool, &s->spool_lock) == 0)
		g->spool.lock = &s->spool_lock;
}

/* A failure is only logged: a service works without metrics. */
static void open_metrics(const struct settings *set, struct startup *s)
{
	struct err e = {0};
	int r = http_listen(set, s->gid, s->left >= 0, &s->exporter->http, &e);
	if (r == 0 && s->exporter->http.fd >= 0)
		r = exporter_load(&e);
	if (r < 0)
		log_line(LOG_WARNING, "outcome=no_metrics reason=\"%s\"", e.text);
}

static int bind_at(const char *path, gid_t gid, struct err *e)
{
	const int fd = unix_socket_listen(unix_socket_new(SOCK_SEQPACKET), path, 0660, gid, 256);
	return fd < 0 ? err_set(e, fd, "cannot listen at %s", path) : fd;
}

static int listen_at(const char *path, gid_t gid, struct err *e)
{
	if (strlen(path) >= UNIX_SOCKET_PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "control socket %s", path);
	if (unix_socket_has_listener(path, SOCK_SEQPACKET))
		return err_say(e, -EADDRINUSE, "another pilliond listens at %s", path);
	unlink(path);
	return bind_at(path, gid, e);
}

/* Hooks look where `control` says: they do not find a service that its unit lets listen elsewhere. */
static void compare_address(int listener, const char *control)
{
	struct sockaddr_un un = {0};
	socklen_t size = sizeof(un) - 1;
	if (getsockname(listener, (struct sockaddr *)&un, &size) == 0 && strcmp(un.sun_path, control) != 0)
		log_line(LOG_WARNING,
			"outcome=socket_mismatch reason=\"the service manager listens at %s, control is %s\"",
			un.sun_path, control);
}

static int open_listener(const struct settings *set, struct startup *s, struct err *e)
{
	int r = sd_notify_handed(&s->handed, e);
	for (size_t i = 0; i < s->handed.n_kept; i++) /* our later seccomp role may not */
		fd_peek_from_first(s->handed.kept[i].fd);
	s->listener = s->handed.listener;
	if (s->listener >= 0)
		compare_address(s->listener, set->paths.control);
	else if (r == 0)
		r = s->listener = listen_at(set->paths.control, s->gid, e);
	return r < 0 ? r : 0;
}

static int open_control(const struct settings *set, struct startup *s, struct engine *g, struct err *e)
{
	char dir[108];
	const char *slash = strrchr(set->paths.control, '/');
	if (!slash || slash == set->paths.control)
		return err_say(e, -EINVAL, "control socket \"%s\" is not an absolute path", set->paths.control);
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - set->paths.control), set->paths.control);
	/*
	 * files in there have modes of their own; below app/ are sockets that programs of any user reach by name
	 * (shim/attach/app_socket.c)
	 */
	fd_auto made = make_dir(dir, false, 0, s->gid, 0751, e);
	if (made < 0)
		return made;
	int r = open_listener(set, s, e);
	if (r < 0)
		return r;
	s->memory = service_client_memory_open(set->paths.control);
	service_client_memory_reset(s->memory);
	s->left = handover_connect(set->paths.control);
	g->host.handover = handover_listen(set->paths.control);
	if (g->host.handover < 0)
		log_line(LOG_WARNING, "outcome=no_handover_socket reason=\"%s\"", strerror(-g->host.handover));
	return 0;
}

/* With one task event held open, the opens of a container's start need not wait for the kernel to switch perf on. */
static int open_parked(void)
{
	struct perf_want want = {.role = PERF_OWNER};
	struct perf_event_attr attr;
	struct perf_layout layout;
	perf_attr(&want, &attr, &layout);
	return perf_open(&attr, 0, -1, 0);
}

/*
 * Blocks signals and opens a signalfd. A session has nothing to read anew. A signal that our parent made us ignore
 * would not come to a signalfd either, so SIGHUP becomes default in a service.
 */
static int open_signals(bool session)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (!session) {
		sigaddset(&set, SIGHUP);
		sigaddset(&set, SIGUSR2);
	}
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, session ? SIG_IGN : SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void raise_soft(int what)
{
	struct rlimit l;
	if (getrlimit(what, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(what, &l);
	}
}

/* Several processes of ours have one user: a limit that we have from our caller is raised, where it may be. */
static void raise_processes(void)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NPROC, &l) < 0 || l.rlim_cur >= PROCESSES)
		return;
	l.rlim_cur = PROCESSES;
	l.rlim_max = l.rlim_max < PROCESSES ? PROCESSES : l.rlim_max;
	if (setrlimit(RLIMIT_NPROC, &l) < 0)
		raise_soft(RLIMIT_NPROC);
}

/* Under systemd the unit has a cgroup; a session starts in its own. Else: /pillion/service. */
static void own_cgroup(void)
{
	struct cgroup cg;
	struct err e = {0};
	if (getenv("INVOCATION_ID") || geteuid() != 0)
		return;
	int r = cgroup_create("service", &service_limits, &cg, &e);
	if (r == 0) {
		r = cgroup_enter(&cg, 0, &e);
		cgroup_done(&cg);
	}
	if (r < 0)
		log_line(LOG_WARNING, "outcome=no_own_cgroup reason=\"%s\"", e.text);
}

static int drop_privileges(const struct startup *s, struct err *e)
{
	struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none); /* stack snapshots hold secrets */
	capabilities_empty_bounding();
	int r = capabilities_become(s->uid, s->gid, 0, e);
	return r == 0 && prctl(PR_SET_DUMPABLE, 0) < 0 ? err_set(e, -errno, "cannot become undumpable") : r;
}

/* --- the part that serves users (user_services.h) -------------------------------------------------------------- */

struct users_arg {
	const struct startup *startup;
	struct cgroup cgroup; /* n = 0: there is none */
};

static int drop_for_users(void *arg, struct forkserver *ret, struct err *e)
{
	const struct symbolizer_limits limits = {.jobs = 1, .memory = 32 << 20};
	struct users_arg *a = arg;
	struct err why = {0};
	if (a->cgroup.n && cgroup_enter(&a->cgroup, 0, &why) < 0)
		log_line(LOG_WARNING, "outcome=no_users_cgroup reason=\"%s\"", why.text);
	int r = drop_privileges(a->startup, e);
	*ret = (struct forkserver)FORKSERVER_NONE;
	if (r == 0 && forkserver_start(&limits, ret, &why) < 0)
		log_line(LOG_WARNING, "outcome=no_names_for_users reason=\"%s\"", why.text);
	return r;
}

/* The rings that the users' services map count against one limit, that of the user we become. */
static void raise_memlock(unsigned users, unsigned cpus)
{
	struct rlimit l;
	rlim_t wanted = (rlim_t)users * cpus * (PERF_RING_BYTES + (rlim_t)sysconf(_SC_PAGESIZE));
	if (getrlimit(RLIMIT_MEMLOCK, &l) < 0 || l.rlim_cur >= wanted)
		return;
	l = (struct rlimit){wanted, l.rlim_max < wanted ? wanted : l.rlim_max};
	if (setrlimit(RLIMIT_MEMLOCK, &l) < 0)
		raise_soft(RLIMIT_MEMLOCK);
}

static int reserve_rings(struct user_services_setup *u, unsigned n, struct err *e)
{
	int r = 0;
	while (u->n < n && (r = cpu_rings_reserve(&u->rings[u->n], e)) == 0)
		u->n++;
	return r;
}

static int open_users(const struct settings *set, struct user_services_setup *u, struct err *e)
{
	char path[108];
	gid_t group;
	int r = passwd_group(set->users.group, &group);
	if (r < 0)
		return err_say(e, r, "users_group: there is no group %s in /etc/group", set->users.group);
	r = service_client_users_path(set->paths.control, path, sizeof(path));
	if (r < 0)
		return err_set(e, r, "%s", set->paths.control);
	unlink(path); /* a service that listened there before us has closed it, or is about to */
	u->listener = r = bind_at(path, group, e);
	return r < 0 ? r : reserve_rings(u, set->users.max, e);
}

/*
 * Without a cgroup of its own, the users' CPU time is in the account of ours and would lower root's rates: then we have
 * no account.
 */
static void make_cgroup(struct cgroup *cg, struct engine *g)
{
	struct err e = {0};
	bool ours = !getenv("INVOCATION_ID") && geteuid() == 0;
	if (!ours || cgroup_create("users", &service_limits, cg, &e) < 0)
		sample_rate_close_account(&g->rates);
	if (e.code)
		log_line(LOG_WARNING, "outcome=no_users_cgroup reason=\"%s\"", e.text);
}

/* On failure the service is root's alone, as it is without the setting. */
static void start_users(const struct settings *set, struct startup *s, struct engine *g)
{
	struct err e = {0};
	struct users_arg arg = {.startup = s};
	struct user_services_setup setup = {.settings = set,
		.listener = -1,
		.spool = s->exporter->spool,
		.root = g->symbols.root,
		.drop = drop_for_users,
		.arg = &arg};
	int r = open_users(set, &setup, &e);
	if (r < 0 && setup.n)
		log_line(LOG_WARNING, "outcome=fewer_users users=%u users_max=%u reason=\"%s\"", setup.n,
			(unsigned)set->users.max, e.text);
	if (setup.n) {
		make_cgroup(&arg.cgroup, g);
		raise_memlock(setup.n, cpu_rings_count(setup.rings[0]));
		oom_score_before_fork(&s->oom, 2);
		r = user_services_start(&s->users, &setup, &e);
		oom_score_after_fork(&s->oom);
		cgroup_done(&arg.cgroup);
	}
	if (r < 0)
		log_line(LOG_WARNING, "outcome=root_only reason=\"%s\"", e.text);
	fd_close(setup.listener);
	while (setup.n)
		cpu_rings_close(setup.rings[--setup.n]);
}

/*
 * Opens the rings. A session may do without: its client accepts that (HELLO_NO_PERF), or gets the reason why there is
 * no profile.
 */
static int open_rings(bool session, struct engine *g, struct err *e)
{
	int r = cpu_rings_open(&g->perf.rings, g->perf.rings_note, sizeof(g->perf.rings_note), e);
	if (!session || (r != -EACCES && r != -EPERM && r != -ENOSYS) || perf_refused(&g->perf.none) == 0)
		return r;
	g->perf.none = *e;
	r = cpu_rings_none(&g->perf.rings);
	return r < 0 ? err_set(e, r, "cannot make rings") : 0;
}

int startup_open(const struct settings *set, bool session, struct engine *g, struct exporter_setup *exporter,
	struct startup *s, struct err *e)
{
	*s = (struct startup){.started_by = geteuid(),
		.exporter = exporter,
		.uid = NOBODY,
		.gid = NOBODY,
		.listener = -1,
		.memory = -1,
		.signals = -1,
		.parked = -1,
		.oom.fd = -1,
		.forkserver = FORKSERVER_NONE,
		.tree = -1,
		.left = -1,
		.spool_lock = {.file = -1, .dir = -1}};
	if (geteuid() != 0 || user_dirs_rootless()) { /* profiles are the user's */
		s->uid = geteuid();
		s->gid = getegid();
	} else {
		passwd_user("pillion", &s->uid, &s->gid);
	}
	g->role.single = g->role.modest = session;
	g->symbols.kallsyms_fd = g->symbols.root = g->host.channel = g->host.statm = g->host.handover =
		g->host.journal[0] = g->host.journal[1] = -1;
	g->role.trusted = s->started_by;
	raise_soft(RLIMIT_NOFILE);
	raise_processes();
	int r = open_spool(set, s, g, e);
	if (r == 0 && session)
		lock_spool(s, g);
	if (r == 0 && !session) {
		own_cgroup();
		r = open_control(set, s, g, e);
	}
	if (r == 0)
		r = open_rings(session, g, e);
	if (r < 0)
		return r;
	limits_apply(g, set);
	snprintf(g->role.node, sizeof(g->role.node), "%s", set->node);
	if (!session)
		g->rates.account = sample_rate_open_account();
	s->parked = session ? -1 : open_parked();
	s->oom = oom_score_open();
	g->symbols.root = fd_open(AT_FDCWD, DEBUG_DIR, O_PATH | O_DIRECTORY, 0);
	s->tree = set->paths.target_root[0] ? fd_open(AT_FDCWD, set->paths.target_root, O_PATH | O_DIRECTORY, 0) : -1;
	if (set->paths.target_root[0] && s->tree < 0)
		return err_set(e, s->tree, "target_root: cannot open %s", set->paths.target_root);
	g->symbols.kallsyms_fd = fd_open(AT_FDCWD, "/proc/kallsyms", O_RDONLY, 0);
	if (g->symbols.kallsyms_fd < 0)
		err_set(&g->symbols.kallsyms_none, g->symbols.kallsyms_fd, "cannot open /proc/kallsyms");
	s->signals = open_signals(session);
	if (!session && set->users.group[0])
		start_users(set, s, g);
	if (!session)
		open_metrics(set, s); /* after the fork of the users' process, which must not have the token */
	return s->signals < 0 ? err_set(e, s->signals, "cannot watch signals") : 0;
}

/* Called without privileges, and before the last step, after which no process of ours may exec. */
static void start_forkserver(struct startup *s, struct engine *g, struct err *e)
{
	struct symbolizer_limits limits = {
		.jobs = g->role.single ? 1 : 2, .memory = g->role.single ? 32 << 20 : 64 << 20};
	g->symbols.host_files = (struct target_files_account){.name = "host", .born = clock_now()};
	if (forkserver_start(&limits, &s->forkserver, e) < 0)
		log_line(LOG_WARNING, "outcome=no_user_names reason=\"%s\"", e->text);
}

int startup_drop(struct startup *s, struct engine *g, struct err *e)
{
	int r = drop_privileges(s, e);
	if (r == 0)
		start_forkserver(s, g, e);
	child_process_run_soon(); /* a ring fills up while its reader waits for a CPU; symbolizers may wait */
	if (r == 0)
		r = seccomp_enter(SECCOMP_SUPERVISOR, e);
	return r;
}

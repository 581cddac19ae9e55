/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/process/child_process.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOWED 1 /* a sanitizer's memory is terabytes */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SHADOWED 1
#endif
#endif
#ifndef SHADOWED
#define SHADOWED 0
#endif

#define KILL_MS 50 /* for a killed child to end */

static int read_proc(pid_t pid, const char *name, char *buf, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	int r = fd_read_text(AT_FDCWD, path, buf, size);
	return r == -ENOENT ? -ESRCH : r;
}

int proc_status_field(pid_t pid, const char *field, char *buf, size_t size)
{
	char text[8192], key[64];
	text[0] = '\n'; /* so that the first field is found as the others are */
	int r = read_proc(pid, "status", text + 1, sizeof(text) - 1);
	if (r < 0)
		return r;
	int n = snprintf(key, sizeof(key), "\n%s:", field);
	char *at = strstr(text, key);
	if (!at)
		return -ENODATA;
	at += n;
	at += strspn(at, "\t ");
	size_t len = strcspn(at, "\n");
	if (len >= size)
		return -ENOBUFS;
	memcpy(buf, at, len);
	buf[len] = 0;
	return 0;
}

/* 32 levels at most (MAX_PID_NS_LEVEL), of seven digits */
#define NSPID_MAX 512

int proc_status_nspid_depth(pid_t pid)
{
	char text[NSPID_MAX];
	int r = proc_status_field(pid, "NSpid", text, sizeof(text));
	for (const char *at = text; r >= 0 && at; at = strchr(at + 1, '\t'))
		r++;
	return r;
}

int proc_status_nspid_at(pid_t pid, unsigned depth, pid_t *ret)
{
	char text[NSPID_MAX];
	int r = proc_status_field(pid, "NSpid", text, sizeof(text));
	const char *at = text;
	while (r == 0 && at && --depth)
		at = strchr(at + 1, '\t');
	if (r < 0)
		return r;
	*ret = at ? atoi(at) : 0;
	return *ret > 0 ? 0 : -ESRCH;
}

int proc_status_nspid(pid_t pid, pid_t *ret)
{
	char text[NSPID_MAX];
	int r = proc_status_field(pid, "NSpid", text, sizeof(text));
	if (r < 0)
		return r;
	const char *last = strrchr(text, '\t');
	*ret = atoi(last ? last + 1 : text);
	return *ret > 0 ? 0 : -ENODATA;
}

/* Finds the fields after the command name, which may itself hold spaces and parentheses. */
static int stat_fields(pid_t pid, char *buf, size_t size, char **ret)
{
	int r = read_proc(pid, "stat", buf, size);
	if (r < 0)
		return r;
	char *end = strrchr(buf, ')');
	if (!end || end[1] != ' ')
		return -EBADMSG;
	*ret = end + 2;
	return 0;
}

int proc_stat_start_time(pid_t pid, uint64_t *ret)
{
	char buf[1024], *at;
	int r = stat_fields(pid, buf, sizeof(buf), &at);
	if (r < 0)
		return r;
	for (int field = 3; field < 22; field++) { /* starttime is field 22 */
		at = strchr(at, ' ');
		if (!at)
			return -EBADMSG;
		at++;
	}
	*ret = strtoull(at, NULL, 10);
	return 0;
}

pid_t proc_status_parent(pid_t pid)
{
	char buf[1024], *at;
	int r = stat_fields(pid, buf, sizeof(buf), &at);
	if (r < 0)
		return r;
	at = strchr(at, ' ');
	return at ? atoi(at + 1) : -EBADMSG;
}

void child_process_die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
}

pid_t child_process_fork_quiet(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

pid_t child_process_fork_answering(int *ret)
{
	int ends[2];
	const pid_t self = getpid();
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	const pid_t pid = child_process_fork_quiet();
	const int error = -errno;
	if (pid == 0)
		child_process_die_with(self);
	else
		fd_close(ends[1]);
	*ret = pid < 0 ? fd_close(ends[0]) : ends[pid == 0];
	return pid < 0 ? error : pid;
}

void child_process_run_beside(pid_t child)
{
	cpu_set_t cpus;
	int here = sched_getcpu();
	if (child <= 0 || here < 0 || sched_getaffinity(0, sizeof(cpus), &cpus) < 0)
		return;
	CPU_CLR(here, &cpus);
	sched_setaffinity(child, sizeof(cpus), &cpus); /* an empty set is refused */
}

/* sched_setattr(2), as the kernel first had it: a C library may not know it. */
struct turns {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t slice, deadline, period; /* ns */
};
#define SLICE_LEAST_NS 100000

void child_process_run_soon(void)
{
	struct turns t = {.size = sizeof(t)};
	if (syscall(SYS_sched_getattr, 0, &t, sizeof(t), 0) < 0 || t.policy != SCHED_OTHER)
		return;
	t.slice = SLICE_LEAST_NS;
	syscall(SYS_sched_setattr, 0, &t, 0);
}

int child_process_pidfd(pid_t pid)
{
	long fd = syscall(SYS_pidfd_open, pid, 0);
	return fd < 0 ? -errno : (int)fd;
}

int child_process_kill(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}

int proc_namespace(pid_t pid, const char *name, uint64_t *ret)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	if (stat(path, &st) < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	*ret = st.st_ino;
	return 0;
}

int child_process_explain(pid_t init, int error, struct err *e)
{
	if (error != -ESRCH)
		return err_set(e, error, "cannot look at the container's init (pid %d)", (int)init);
	if (access("/proc/self", F_OK) < 0)
		return err_say(
			e, error, "cannot look at the container's init (pid %d): /proc is not mounted", (int)init);
	return err_say(e, error, "the container's init (pid %d) is gone already", (int)init);
}

static int reap_child(pid_t child, int flags)
{
	int status;
	pid_t r;
	do
		r = waitpid(child, &status, flags | __WALL);
	while (r < 0 && errno == EINTR);
	return r == child ? status : r == 0 ? -EAGAIN : -errno;
}

bool child_process_inherits_orphans(void)
{
	int subreaper = 0;
	prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
	return getpid() == 1 || subreaper;
}

bool child_process_children_are_elsewhere(void)
{
	uint64_t ours, theirs;
	if (proc_namespace(getpid(), "pid", &ours) < 0)
		return false; /* no /proc: it cannot be told */
	/* unreadable as long as it has no PID 1 */
	return proc_namespace(getpid(), "pid_for_children", &theirs) < 0 || ours != theirs;
}

static void raise_soft(int what)
{
	struct rlimit l;
	if (getrlimit(what, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		setrlimit(what, &l);
	}
}

/* By the system call: libc refuses its own signals, 32 and 33, and needs its handlers for them if no exec follows. */
static void reset_signal(int sig, bool exec_follows)
{
	static const struct kernel_action { /* struct sigaction of the kernel; all zero: SIG_DFL */
		void (*handler)(int);
		unsigned long flags_and_the_rest[7];
	} zero;
	struct kernel_action now = {SIG_IGN, {0}};
	const bool is_libcs = sig == 32 || sig == 33;
	if (is_libcs && !exec_follows)
		syscall(SYS_rt_sigaction, sig, NULL, &now, NSIG / 8);
	if (now.handler == SIG_IGN)
		syscall(SYS_rt_sigaction, sig, &zero, NULL, NSIG / 8);
}

void child_process_reset(bool exec_follows)
{
	cpu_set_t all;
	sigset_t none;
	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
	setpriority(PRIO_PROCESS, 0, 0);
	syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &(struct sched_param){0}); /* musl has none */
	for (int sig = 1; sig < NSIG; sig++)
		reset_signal(sig, exec_follows);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(027);
	prctl(PR_SET_PDEATHSIG, 0);
	raise_soft(RLIMIT_NOFILE);
	raise_soft(RLIMIT_MEMLOCK);
	raise_soft(RLIMIT_FSIZE);
	raise_soft(RLIMIT_CPU);
	raise_soft(RLIMIT_AS);
	raise_soft(RLIMIT_DATA);
	struct rlimit no_core = {0, 0};
	setrlimit(RLIMIT_CORE, &no_core);
	/* the first to go when memory is short: never the application because of us */
	fd_write_text(AT_FDCWD, "/proc/self/oom_score_adj", "500");
	prctl(PR_SET_DUMPABLE, 0); /* from here on /proc/self belongs to root */
	if (chdir("/") < 0)
		_exit(126);
}

int child_process_wait(pid_t child, int64_t deadline)
{
	int r = reap_child(child, WNOHANG); /* -ECHILD: no child of ours: we must neither wait for it nor kill it */
	if (r != -EAGAIN)
		return r;
	fd_auto pidfd = child_process_pidfd(child);
	if (pidfd >= 0) {
		r = fd_wait(pidfd, POLLIN, deadline);
		if (r == 1)
			return reap_child(child, 0);
	} else {
		while ((r = reap_child(child, WNOHANG)) == -EAGAIN && deadline_left_ms(deadline) > 0)
			usleep(1000); /* no pidfd to be had (out of fds): rare, short */
		if (r != -EAGAIN)
			return r;
	}
	kill(child, SIGKILL);
	/* a child that waits in the kernel for a file system that never answers cannot be killed: our reaper gets it */
	int64_t last = clock_now() + KILL_MS * NSEC_PER_MSEC;
	while ((r = reap_child(child, WNOHANG)) == -EAGAIN && clock_now() < last)
		usleep(200);
	return r < 0 && r != -EAGAIN ? r : -ETIMEDOUT;
}

int child_process_bound(size_t bytes, unsigned seconds)
{
	const struct rlimit memory = {bytes, bytes};
	sigset_t alarms;
	if (seconds) {
		sigemptyset(&alarms);
		sigaddset(&alarms, SIGALRM);
		signal(SIGALRM, SIG_DFL);
		sigprocmask(SIG_UNBLOCK, &alarms, NULL);
		alarm(seconds);
	}
	return !SHADOWED && setrlimit(RLIMIT_DATA, &memory) < 0 ? -errno : 0;
}

const char *child_process_fate(int status, char *buf, size_t size)
{
	if (status == -ETIMEDOUT)
		snprintf(buf, size, "did not finish within its time and was killed");
	else if (status < 0)
		snprintf(buf, size, "could not be waited for (%s)", strerror(-status));
	else if (WIFSIGNALED(status))
		snprintf(buf, size, "was killed by signal %d", WTERMSIG(status));
	else
		snprintf(buf, size, "exited with status %d", WEXITSTATUS(status));
	return buf;
}

/* Reads the numbers after name and password in `name`'s line of /etc/passwd or /etc/group. How many, at most two. */
static int find_numbers(const char *path, const char *name, unsigned *first, unsigned *second)
{
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	char *text;
	size_t len, n = strlen(name);
	int r = fd_slurp(fd, 1 << 20, &text, &len);
	if (r < 0)
		return r;
	r = -ENOENT;
	for (char *line = text; line && *line && r < 0; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		if (strncmp(line, name, n) != 0 || line[n] != ':')
			continue;
		const char *behind = line + n + 1 + strcspn(line + n + 1, ":\n"); /* a password may be empty */
		int found = sscanf(behind, ":%u:%u", first, second);
		r = found > 0 ? found : -ENOENT;
	}
	free(text);
	return r;
}

int passwd_user(const char *name, uid_t *ret_uid, gid_t *ret_gid)
{
	unsigned uid, gid;
	int r = find_numbers("/etc/passwd", name, &uid, &gid);
	if (r < 2)
		return r < 0 ? r : -ENOENT;
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

int passwd_user_name(uid_t uid, char *buf, size_t size)
{
	char *text;
	size_t len;
	unsigned found;
	int r = -ENOENT;
	fd_auto fd = fd_open(AT_FDCWD, "/etc/passwd", O_RDONLY, 0);
	if (fd < 0)
		return fd;
	int read = fd_slurp(fd, 1 << 20, &text, &len);
	if (read < 0)
		return read;
	for (char *line = text; line && r < 0; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		const size_t name = strcspn(line, ":\n");
		const char *behind = line + name + (line[name] == ':');
		behind += strcspn(behind, ":\n"); /* a password may be empty */
		if (name && name < size && sscanf(behind, ":%u:", &found) == 1 && found == uid)
			r = snprintf(buf, size, "%.*s", (int)name, line) < 0 ? -ENOENT : 0;
	}
	free(text);
	return r;
}

int passwd_group(const char *name, gid_t *ret_gid)
{
	unsigned gid, unused;
	int r = find_numbers("/etc/group", name, &gid, &unused);
	if (r < 1)
		return r < 0 ? r : -ENOENT;
	*ret_gid = gid;
	return 0;
}

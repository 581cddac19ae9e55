/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SPREAD_US 3000 /* a hook takes half of that */
#define CALLS_MAX 420  /* a hook and its children make three hundred */

static uint64_t dice = 1;
static char told[160];
static atomic_int *shared; /* between fork and exec: the number of the listener */

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* --- chance --------------------------------------------------------------------------------------------- */

void fault_seed(unsigned seed)
{
	dice = 0x9e3779b97f4a7c15 ^ ((uint64_t)seed + 1) * 0xbf58476d1ce4e5b9;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		die("mmap");
}

static unsigned chance(unsigned n)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (unsigned)((dice >> 33) % n);
}

static const struct {
	const char *name;
	unsigned weight;
} kinds[FAULTS] = {
	[FAULT_NONE] = {"none", 20},
	[FAULT_SYSCALL] = {"a system call fails", 30},
	[FAULT_DEATH] = {"a system call kills", 10},
	[FAULT_CHILD_KILL] = {"a child is killed", 10},
	[FAULT_CHILD_STOP] = {"a child is stopped", 1}, /* it takes the whole budget */
	[FAULT_INIT] = {"the init is killed", 10},
	[FAULT_FILES] = {"few descriptors", 5},
	[FAULT_MEMORY] = {"little memory", 4},
	[FAULT_STATE_CUT] = {"the state is cut", 5},
	[FAULT_STATE_BYTE] = {"the state is garbled", 5},
};

const char *fault_name(enum fault f)
{
	return kinds[f].name;
}

const char *fault_tell(enum fault f)
{
	return told[0] ? told : kinds[f].name;
}

enum fault fault_draw(void)
{
	unsigned sum = 0, at, f = 0;
	for (unsigned i = 0; i < FAULTS; i++)
		sum += kinds[i].weight;
	for (at = chance(sum); at >= kinds[f].weight; f++)
		at -= kinds[f].weight;
	return f;
}

void fault_text(enum fault f, char *text, size_t *len)
{
	if (f == FAULT_STATE_CUT)
		*len = chance((unsigned)*len);
	if (f == FAULT_STATE_BYTE)
		text[chance((unsigned)*len)] = (char)chance(256);
}

/* --- system calls by notice ------------------------------------------------------------------------------ */

/*
 * Of main and what follows: a C library whose own start fails has nobody to exit 0 for it. Nor does anybody answer
 * for an exit that fails.
 */
static bool spared(int number)
{
	return number == SYS_exit || number == SYS_exit_group || number == SYS_rt_sigreturn || number == SYS_futex ||
	       number == SYS_execve || number == SYS_restart_syscall;
}

static int filter_new(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

struct watch {
	pid_t hook;
	bool begun, kills, done;
	unsigned calls, at;
	int error;
};

static int decide(struct watch *w, const struct seccomp_notif *n)
{
	w->begun |= n->data.nr == SYS_rt_sigaction;
	if (!w->begun || spared(n->data.nr) || ++w->calls < w->at || w->done)
		return 0;
	if (w->kills && (pid_t)n->pid == w->hook)
		return 0; /* it is the runtime's own child: who kills it fails the start */
	w->done = true;
	snprintf(told, sizeof(told), "call %u, number %d of pid %u: %s", w->calls, n->data.nr, n->pid,
		w->kills ? "killed" : strerror(w->error));
	if (w->kills)
		kill((pid_t)n->pid, SIGSEGV);
	return w->kills ? EINTR : w->error;
}

/* False: none comes any more. */
static bool answer(int listener, struct watch *w, bool blind)
{
	struct seccomp_notif n = {0};
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
		return errno == ENOENT || errno == EINTR;
	struct seccomp_notif_resp r = {.id = n.id};
	int error = blind ? 0 : decide(w, &n);
	r.error = -error;
	r.flags = error ? 0 : SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &r); /* ENOENT: it was killed meanwhile */
	return true;
}

static int take_listener(int pidfd)
{
	struct timespec moment = {0, 20000};
	int number;
	while ((number = atomic_load(shared)) < 0)
		nanosleep(&moment, NULL);
	int fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	if (fd < 0)
		die("pidfd_getfd");
	return fd;
}

static double starved;

double fault_starved(void)
{
	return starved;
}

/* 0: the kernel does not count it. */
static double starved_so_far(pid_t pid)
{
	char path[64];
	unsigned long long waited = 0;
	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	FILE *f = fopen(path, "re");
	if (f && fscanf(f, "%*u %llu", &waited) != 1)
		waited = 0;
	if (f)
		fclose(f);
	return (double)waited / 1e6;
}

/* Its wait status; what it waited for a CPU is there until then. */
static int reap(pid_t hook)
{
	siginfo_t info;
	int status;
	while (waitid(P_PID, (id_t)hook, &info, WEXITED | WNOWAIT) < 0)
		if (errno != EINTR)
			die("wait");
	starved += starved_so_far(hook);
	if (waitpid(hook, &status, 0) < 0)
		die("wait");
	return status;
}

/* Until nobody is left who has the filter: the hook's children may outlive it by a moment. */
static int attend(pid_t hook, struct watch *w)
{
	int pidfd = (int)syscall(SYS_pidfd_open, hook, 0), status = -1;
	int listener = take_listener(pidfd);
	struct pollfd p[] = {{.fd = listener, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};
	while (poll(p, 2, -1) > 0 || errno == EINTR) {
		if (p[0].revents & POLLIN && !answer(listener, w, status >= 0))
			break;
		if (p[1].revents & POLLIN) {
			status = reap(hook);
			break;
		}
		if (p[0].revents & POLLHUP)
			p[0].fd = -1;
	}
	close(listener); /* for who lives on everything fails from now on: ENOSYS */
	close(pidfd);
	return status;
}

/* --- one run -------------------------------------------------------------------------------------------- */

static void limit(int what, unsigned n)
{
	struct rlimit l = {n, n};
	setrlimit(what, &l);
}

static _Noreturn void become_hook(enum fault f, char **hook, int in, unsigned size)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	dup2(in, 0);
	dup2(null, 1);
	dup2(null, 2);
	if (f == FAULT_FILES)
		limit(RLIMIT_NOFILE, 4 + size % 40);
	if (f == FAULT_MEMORY)
		limit(RLIMIT_AS, (2u << 20) + size % (24u << 20));
	if (f == FAULT_SYSCALL || f == FAULT_DEATH)
		atomic_store(shared, filter_new());
	execv(hook[0], hook);
	_exit(127);
}

/* A child of it, or a child's child. */
static pid_t descendant(pid_t of)
{
	char path[64], text[256];
	for (int depth = 0; depth < 2; depth++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
		int fd = open(path, O_RDONLY | O_CLOEXEC), n = 0;
		ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		close(fd);
		text[got > 0 ? got : 0] = 0;
		pid_t pids[8];
		for (char *at = text, *end; n < 8; at = end) {
			long pid = strtol(at, &end, 10);
			if (end == at)
				break;
			pids[n++] = (pid_t)pid;
		}
		if (!n)
			return depth ? of : 0;
		of = pids[chance((unsigned)n)];
		if (chance(2))
			break;
	}
	return of;
}

static void strike(enum fault f, pid_t hook, pid_t init)
{
	unsigned us = chance(SPREAD_US);
	struct timespec moment = {0, us * 1000};
	nanosleep(&moment, NULL);
	pid_t victim = f == FAULT_INIT ? init : descendant(hook);
	snprintf(told, sizeof(told), "%s after %u us", kinds[f].name, us);
	if (victim > 0)
		kill(victim, f == FAULT_CHILD_STOP ? SIGSTOP : SIGKILL);
}

static int run_hook(enum fault f, char **hook, int in, pid_t init)
{
	static const int errors[] = {
		EPERM, EACCES, ENOMEM, EMFILE, ENFILE, ENOSYS, EINTR, EIO, EAGAIN, EINVAL, ENOSPC, ESRCH};
	struct watch w = {.kills = f == FAULT_DEATH, .at = 1 + chance(CALLS_MAX)};
	unsigned size = chance(1u << 30);
	w.error = errors[chance(sizeof(errors) / sizeof(errors[0]))];
	told[0] = 0;
	atomic_store(shared, -1);
	pid_t pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0)
		become_hook(f, hook, in, size);
	w.hook = pid;
	if (f == FAULT_SYSCALL || f == FAULT_DEATH)
		return attend(pid, &w);
	if (f == FAULT_FILES || f == FAULT_MEMORY)
		snprintf(told, sizeof(told), "%s: %u", kinds[f].name,
			f == FAULT_FILES ? 4 + size % 40 : (2u << 20) + size % (24u << 20));
	if (f == FAULT_CHILD_KILL || f == FAULT_CHILD_STOP || f == FAULT_INIT)
		strike(f, pid, init);
	return reap(pid);
}

int fault_run(enum fault f, char **hook, int in, pid_t init)
{
	const double before = starved_so_far(getpid());
	starved = 0;
	int status = run_hook(f, hook, in, init);
	starved += starved_so_far(getpid()) - before;
	return status;
}

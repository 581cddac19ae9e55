/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp_filters - writes the seccomp filters of oci/isolation/seccomp.h as C arrays, at build time, with libseccomp.
 *
 * Compiling a filter costs a tenth of a millisecond; a hook would do so twice, each a tenth of its time budget.
 * Calls that are not listed fail with EPERM.
 */
#include "oci/isolation/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALL(name) SCMP_SYS(name)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Every program of ours needs these to run at all and to end. */
static const int base_calls[] = {
	CALL(read),
	CALL(write),
	CALL(close),
	CALL(fstat),
	CALL(newfstatat),
	CALL(statx),
	CALL(lseek),
	CALL(munmap),
	CALL(mremap),
	CALL(madvise),
	CALL(brk),
	CALL(futex),
	CALL(clock_gettime),
	CALL(gettimeofday),
	CALL(getpid),
	CALL(gettid),
	CALL(getrandom),
	CALL(rt_sigreturn),
	CALL(rt_sigaction),
	CALL(rt_sigprocmask),
	CALL(sigaltstack),
	CALL(restart_syscall),
	CALL(sched_yield),
	CALL(exit),
	CALL(exit_group),
	CALL(poll),
	CALL(ppoll),
};
static const int reader_calls[] = {CALL(pread64)};
static const int opener_calls[] = {
	CALL(perf_event_open),
	CALL(sendmsg),
	CALL(recvmsg),
	/* to explain a refusal by the missing capability */
	CALL(capget),
};
static const int attacher_calls[] = {
	CALL(perf_event_open),
	CALL(sendmsg),
	CALL(recvmsg),
	CALL(capget),
	/* to list threads, more than once, and to copy their maps */
	CALL(memfd_create),
	CALL(getdents64),
	CALL(nanosleep),
	CALL(clock_nanosleep),
};
/*
 * Its children keep this list, with their own on top: so it also has the calls that they need (allow_forks,
 * allow_exporters). That is why it has openat(2) with every flag: the exporter writes. The supervisor itself only reads
 * its settings and the state of cgroups; a reader opens the files with which a target could make it hang
 * (profiler/elf/target_file.h).
 */
static const int supervisor_calls[] = {
	CALL(pread64),
	CALL(readv),
	CALL(writev),
	CALL(pwrite64),
	CALL(epoll_wait),
	CALL(epoll_pwait),
	CALL(epoll_ctl),
	CALL(epoll_create1),
	CALL(accept4),
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(sendto),
	CALL(recvfrom),
	CALL(getsockopt),
	CALL(nanosleep),
	CALL(clock_nanosleep),
	CALL(getuid),
	CALL(geteuid),
	CALL(getgid),
	CALL(getegid),
	CALL(dup),
	CALL(uname),
	CALL(getrusage),
	CALL(sched_getaffinity),
	/* the kill switch */
	CALL(inotify_init1),
	CALL(inotify_add_watch),
	/* questions to the symbolizer, profiles for the exporter */
	CALL(memfd_create),
	CALL(pipe2),
	/* the worker's life */
	CALL(wait4),
	CALL(pidfd_open),
	CALL(pidfd_send_signal),
	CALL(set_robust_list),
	CALL(rseq),
};
static const int worker_calls[] = {
	/* a connection from the next supervisor, when its own is gone */
	CALL(accept4),
	CALL(getsockopt),
	CALL(pidfd_open), /* itself */
	CALL(pread64),
	CALL(readv),
	CALL(writev),
	CALL(pwrite64),
	CALL(epoll_wait),
	CALL(epoll_pwait),
	CALL(epoll_ctl),
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(sendto),
	CALL(uname),
	CALL(memfd_create),
	CALL(ftruncate),
	CALL(pipe2),
};
/* Writes the spool; answers over HTTP through a library (libmicrohttpd) on a socket that listens already. */
static const int exporter_calls[] = {
	CALL(openat),
	CALL(mkdirat),
	CALL(unlinkat),
	CALL(renameat),
	CALL(renameat2),
	CALL(fsync),
	CALL(fchmod),
	CALL(fsetxattr), /* access control lists */
	CALL(ftruncate),
	CALL(flock),
	CALL(getdents64),
	CALL(pread64),
	CALL(nanosleep),
	CALL(clock_nanosleep),
	CALL(epoll_wait),
	CALL(epoll_pwait),
	CALL(epoll_ctl),
	CALL(epoll_create1),
	CALL(eventfd2),
	CALL(accept4),
	CALL(recvmsg),
	CALL(recvfrom),
	CALL(sendmsg),
	CALL(sendto),
	CALL(getsockopt),
	CALL(getsockname),
	CALL(shutdown),
	CALL(getppid),
	CALL(getrusage),
	CALL(set_robust_list),
	/* sends a page from its file; a child with a time limit and a role of its own makes it
	   (profiler/web/page_child.h) */
	CALL(sendfile),
	CALL(memfd_create),
	CALL(close_range),
	CALL(alarm),
	CALL(setitimer), /* the same, where there is no alarm(2) */
	CALL(rseq),
};
/* Makes a page of the spool. */
static const int page_calls[] = {
	CALL(getdents64),
	CALL(pread64),
	CALL(memfd_create),
	CALL(sendmsg),
};
/* Speaks with servers through a library (libcurl), which looks names up in threads; records the files that they have.
 */
static const int push_calls[] = {
	CALL(openat),
	CALL(mkdirat),
	CALL(unlinkat),
	CALL(renameat),
	CALL(renameat2),
	CALL(fsync),
	CALL(fdatasync),
	CALL(flock),
	CALL(access),
	CALL(faccessat),
	CALL(faccessat2),
	CALL(readlink),
	CALL(readlinkat),
	CALL(getdents64),
	CALL(pread64),
	CALL(nanosleep),
	CALL(clock_nanosleep),
	CALL(clock_getres),
	CALL(pipe2),
	CALL(eventfd2),
	CALL(connect),
	CALL(bind),
	CALL(getsockname),
	CALL(getpeername),
	CALL(getsockopt),
	CALL(setsockopt),
	CALL(recvmsg),
	CALL(recvfrom),
	CALL(sendmsg),
	CALL(sendmmsg),
	CALL(sendto),
	CALL(readv),
	CALL(writev),
	CALL(shutdown),
	CALL(uname),
	CALL(sysinfo),
	CALL(getuid),
	CALL(geteuid),
	CALL(getgid),
	CALL(getegid),
	CALL(sched_getaffinity), /* a thread that asks where its stack is */
	CALL(set_robust_list),
	CALL(rseq),
	CALL(memfd_create), /* for a job's answer */
	CALL(wait4),	    /* for the maker's end */
	CALL(pidfd_open),
};
/* Forks a job for each file; the job puts the page's role on top of this one. */
static const int maker_calls[] = {
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(close_range),
	CALL(pread64),
	CALL(alarm),
	CALL(setitimer), /* the same, where there is no alarm(2) */
	CALL(set_robust_list),
	CALL(rseq),
};
/* Waits for questions, forks a job for each (or a server, profiler/symbol/forkserver.h); the job puts its own role on
 * top of this one, when its files are open. */
static const int symbolizer_calls[] = {
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(openat2),
	CALL(wait4),
	CALL(pidfd_open),
	CALL(getppid),
	CALL(close_range),
	CALL(pread64),
	CALL(set_robust_list),
	CALL(rseq),
};
/* All calls of a job: no signal handlers, no paths. */
static const int symbolizer_job_calls[] = {
	CALL(read),
	CALL(pread64),
	CALL(write),
	CALL(close),
	CALL(lseek),
	CALL(munmap),
	CALL(mremap),
	CALL(madvise),
	CALL(brk),
	CALL(futex),
	CALL(clock_gettime),
	CALL(getpid),
	CALL(gettid),
	CALL(getrandom),
	CALL(sched_yield),
	CALL(sigaltstack), /* AddressSanitizer, before it ends; of no use without handlers */
	CALL(exit),
	CALL(exit_group),
};
/* Opens and reads files beneath trees that it is given. */
static const int file_reader_calls[] = {
	CALL(openat2),
	CALL(fstat),
	CALL(newfstatat),
	CALL(pread64),
	CALL(close),
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(munmap),
	CALL(madvise),
	CALL(brk),
	CALL(futex),
	CALL(clock_gettime), /* where the vDSO cannot tell the time */
	CALL(getpid),
	CALL(gettid),
	CALL(sched_yield),
	CALL(sigaltstack), /* AddressSanitizer, as above */
	CALL(exit),
	CALL(exit_group),
};
/* Opens files beneath one tree. openat(2) is for opening its own descriptors again. */
static const int file_opener_calls[] = {
	CALL(openat2),
	CALL(fstat),
	CALL(fstatfs),
	CALL(newfstatat),
	CALL(pread64),
	CALL(close),
	CALL(recvmsg),
	CALL(sendmsg),
	CALL(poll),
	CALL(ppoll),
	CALL(munmap),
	CALL(madvise),
	CALL(brk),
	CALL(futex),
	CALL(clock_gettime), /* where the vDSO cannot tell the time */
	CALL(getpid),
	CALL(gettid),
	CALL(sched_yield),
	CALL(sigaltstack), /* AddressSanitizer, as above */
	CALL(exit),
	CALL(exit_group),
};
static const int nri_calls[] = {CALL(sendmsg), CALL(recvmsg)};
/* pilliond's requests on perf descriptors, and one on a socket: how much is unread. Other ioctls fail. */
static const unsigned worker_ioctls[] = {
	PERF_EVENT_IOC_ENABLE,
	PERF_EVENT_IOC_REFRESH,
	PERF_EVENT_IOC_DISABLE,
	PERF_EVENT_IOC_PERIOD,
	PERF_EVENT_IOC_SET_OUTPUT,
	PERF_EVENT_IOC_ID,
	PERF_EVENT_IOC_RESET,
	SIOCOUTQ,
};

/* None that sends signals: F_SETOWN of a process with uid 0 reaches every process (fs/fcntl.c, sigio_perm). */
static const unsigned profiler_fcntls[] = {
	F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_ADD_SEALS, F_GET_SEALS};

static const struct role {
	const char *name;
	const int *calls;
	size_t n;
	bool opens_read_only;
	bool reads_limits; /* its own */
	bool ioctls;
	bool fcntls;
	bool pairs;    /* makes socket pairs: the other end is only in processes that it gives that to */
	bool bare;     /* only its own list, and memory */
	bool closes;   /* descriptors in a child that shares its table of them */
	bool forks;    /* and gives the child a role of its own */
	bool kills;    /* its children, but the filter allows any pid */
	bool exports;  /* tests whether an earlier writer is alive; a library sets options of TCP sockets */
	bool connects; /* to other machines; reads the network's addresses; looks names up in threads */
	/* A child keeps its parent's filter: a process that starts exporters needs their calls, and those to start one.
	 */
	bool starts_exporters;
} roles[] = {
	[SECCOMP_READER] = {"reader", reader_calls, COUNT(reader_calls), .opens_read_only = true},
	[SECCOMP_OPENER] = {"opener", opener_calls, COUNT(opener_calls), .reads_limits = true},
	[SECCOMP_ATTACHER] = {"attacher", attacher_calls, COUNT(attacher_calls), .opens_read_only = true,
		.reads_limits = true, .fcntls = true},
	[SECCOMP_SYMBOLIZER] = {"symbolizer", symbolizer_calls, COUNT(symbolizer_calls), .reads_limits = true,
		.fcntls = true, .forks = true, .kills = true},
	[SECCOMP_SYMBOLIZER_JOB] = {"symbolizer_job", symbolizer_job_calls, COUNT(symbolizer_job_calls), .bare = true},
	[SECCOMP_FILE_READER] = {"file_reader", file_reader_calls, COUNT(file_reader_calls), .bare = true},
	[SECCOMP_FILE_OPENER] = {"file_opener", file_opener_calls, COUNT(file_opener_calls), .opens_read_only = true,
		.bare = true},
	[SECCOMP_EXPORTER] = {"exporter", exporter_calls, COUNT(exporter_calls), .reads_limits = true, .fcntls = true,
		.pairs = true, .forks = true, .exports = true},
	[SECCOMP_PAGE] = {"page", page_calls, COUNT(page_calls), .opens_read_only = true, .fcntls = true},
	[SECCOMP_PUSH] = {"push", push_calls, COUNT(push_calls), .reads_limits = true, .fcntls = true, .pairs = true,
		.connects = true},
	[SECCOMP_MAKER] = {"maker", maker_calls, COUNT(maker_calls), .fcntls = true, .forks = true},
	[SECCOMP_SUPERVISOR] = {"supervisor", supervisor_calls, COUNT(supervisor_calls), .reads_limits = true,
		.ioctls = true, .fcntls = true, .pairs = true, .forks = true, .kills = true, .closes = true,
		.exports = true, .starts_exporters = true},
	[SECCOMP_WORKER] = {"worker", worker_calls, COUNT(worker_calls), .reads_limits = true, .ioctls = true,
		.fcntls = true, .pairs = true},
	[SECCOMP_NRI] = {"nri", nri_calls, COUNT(nri_calls)},
};

static int allow_calls(scmp_filter_ctx ctx, const int *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
		if (r < 0 && r != -EDOM && r != -EINVAL) /* not a call of this architecture: nothing to allow */
			return r;
	}
	return 0;
}

/* Memory is never both written and run: no PROT_EXEC in mmap and mprotect. */
static int allow_memory(scmp_filter_ctx ctx)
{
	int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r < 0 ? r
		     : seccomp_rule_add(
			       ctx, SCMP_ACT_ALLOW, CALL(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* Plain processes only: no threads, no namespaces. */
static int allow_forks(scmp_filter_ctx ctx)
{
	uint32_t fork_flags = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
	int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_EQ, fork_flags));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
	if (r == 0) /* a job's memory */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
			SCMP_A1(SCMP_CMP_EQ, RLIMIT_DATA));
	return r < 0 ? r
		     : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG));
}

/* kill(2) with signal 0 only. */
static int allow_exports(scmp_filter_ctx ctx)
{
	int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(kill), 1, SCMP_A1(SCMP_CMP_EQ, 0));
	return r < 0 ? r
		     : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(setsockopt), 1, SCMP_A1(SCMP_CMP_EQ, IPPROTO_TCP));
}

/*
 * Not AF_UNIX: this machine's socket files are none of its business. Threads only with the flags of pthread_create;
 * clone3(2) fails with ENOSYS, because a filter cannot see its flags.
 */
static int allow_connections(scmp_filter_ctx ctx)
{
	static const int families[] = {AF_INET, AF_INET6};
	static const unsigned long requests[] = {FIONBIO, FIONREAD};
	const unsigned thread_flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
				      CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
	int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_EQ, thread_flags));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), CALL(clone3), 0);
	for (size_t i = 0; r == 0 && i < COUNT(families); i++)
		r = seccomp_rule_add(
			ctx, SCMP_ACT_ALLOW, CALL(socket), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	if (r == 0) /* the network's addresses */
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
			SCMP_A2(SCMP_CMP_EQ, NETLINK_ROUTE));
	for (size_t i = 0; r == 0 && i < COUNT(requests); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, requests[i]));
	return r;
}

/* An exporter's calls, and those of child_process_fork_quiet. */
static int allow_exporters(scmp_filter_ctx ctx)
{
	static const int calls[] = {CALL(wait4), CALL(close_range), CALL(pidfd_open)};
	int r = allow_calls(ctx, exporter_calls, COUNT(exporter_calls));
	if (r == 0)
		r = allow_calls(ctx, calls, COUNT(calls));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_EQ, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP));
	return r < 0 ? r : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME));
}

static int add_rules(scmp_filter_ctx ctx, const struct role *role)
{
	int r = role->bare ? 0 : allow_calls(ctx, base_calls, COUNT(base_calls));
	if (r == 0)
		r = allow_memory(ctx);
	if (r == 0)
		r = allow_calls(ctx, role->calls, role->n);
	if (r == 0 && role->opens_read_only)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(openat), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, O_RDONLY));
	if (r == 0 && role->reads_limits)
		r = seccomp_rule_add(
			ctx, SCMP_ACT_ALLOW, CALL(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0), SCMP_A2(SCMP_CMP_EQ, 0));
	if (r == 0 && role->forks)
		r = allow_forks(ctx);
	if (r == 0 && role->kills)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(kill), 1, SCMP_A1(SCMP_CMP_EQ, SIGKILL));
	if (r == 0 && role->exports)
		r = allow_exports(ctx);
	if (r == 0 && role->connects)
		r = allow_connections(ctx);
	if (r == 0 && role->starts_exporters)
		r = allow_exporters(ctx);
	if (r == 0 && role->pairs)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(socketpair), 1, SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
	if (r == 0 && role->closes)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(clone), 1, SCMP_A0(SCMP_CMP_EQ, CLONE_FILES | SIGCHLD));
	if (r == 0 && role->closes)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(dup3), 0);
	for (size_t i = 0; r == 0 && role->fcntls && i < COUNT(profiler_fcntls); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(fcntl), 1, SCMP_A1(SCMP_CMP_EQ, profiler_fcntls[i]));
	for (size_t i = 0; r == 0 && role->ioctls && i < COUNT(worker_ioctls); i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, CALL(ioctl), 1, SCMP_A1(SCMP_CMP_EQ, worker_ioctls[i]));
	return r;
}

static int print_filter(const struct role *role, int fd)
{
	struct sock_filter f;
	printf("static const struct sock_filter %s_filter[] = {\n", role->name);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while (read(fd, &f, sizeof(f)) == sizeof(f))
		printf("\t{0x%x, %u, %u, 0x%x},\n", f.code, f.jt, f.jf, f.k);
	printf("};\n");
	return 0;
}

static int generate_filter(const struct role *role)
{
	int fd = memfd_create(role->name, MFD_CLOEXEC);
	scmp_filter_ctx ctx = fd < 0 ? NULL : seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!ctx)
		return -ENOMEM;
	int r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree: every call passes through it */
	/* by default only the calling thread dies */
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = add_rules(ctx, role);
	if (r == 0)
		r = seccomp_export_bpf(ctx, fd);
	if (r == 0)
		r = print_filter(role, fd);
	seccomp_release(ctx);
	close(fd);
	return r;
}

int main(void)
{
	printf("/* made by oci/isolation/gen/seccomp_filters.c */\n");
	for (size_t i = 0; i < COUNT(roles); i++) {
		int r = generate_filter(&roles[i]);
		if (r < 0) {
			fprintf(stderr, "seccomp-filters: role %s: %s\n", roles[i].name, strerror(-r));
			return 1;
		}
	}
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/isolation/seccomp.h"

#include "oci/base/fd.h"
#include "oci/isolation/capabilities.h"
#include "tests/unit/support/child.h"
#include "tests/unit/support/suite.h"

#include <check.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static int fds;

static void count_fds(void)
{
	fds = fd_count();
}

enum {
	READER = 1 << SECCOMP_READER,
	OPENER = 1 << SECCOMP_OPENER,
	SUPERVISOR = 1 << SECCOMP_SUPERVISOR,
	WORKER = 1 << SECCOMP_WORKER,
	ATTACHER = 1 << SECCOMP_ATTACHER,
	SYMBOLIZER = 1 << SECCOMP_SYMBOLIZER,
	JOB = 1 << SECCOMP_SYMBOLIZER_JOB,
	READS = 1 << SECCOMP_FILE_READER,
	OPENS = 1 << SECCOMP_FILE_OPENER,
	EXPORTER = 1 << SECCOMP_EXPORTER,
	PAGE = 1 << SECCOMP_PAGE,
	NRI = 1 << SECCOMP_NRI,
	PUSH = 1 << SECCOMP_PUSH,
	MAKER = 1 << SECCOMP_MAKER,
};
#define BOTH (SUPERVISOR | WORKER)
#define FILES (READS | OPENS)
#define ALL (READER | OPENER | BOTH | ATTACHER | SYMBOLIZER | JOB | FILES | EXPORTER | PAGE | NRI | PUSH | MAKER)

static char buf[64];
static struct iovec iov = {buf, sizeof(buf)};
static struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
static struct timespec ts;
static struct stat st;
static struct pollfd none;
static struct open_how how = {.flags = O_RDONLY};
static struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
	.size = sizeof(attr),
	.config = PERF_COUNT_SW_DUMMY,
	.exclude_kernel = 1,
	.exclude_hv = 1};

#define P(x) ((long)(intptr_t)(x))
#define HIGH (1L << 32) /* the kernel looks at 32 bits only; a filter that did as well would be passed by */

/* Call and arguments; `result` is what the roles in `allowed` see, -EPERM is for the others. 1: anything that is no
 * error. */
static const struct uprobe {
	const char *scenario;
	unsigned allowed;
	long result;
	long call[7];
} probes[] = {
	{"reading", ALL & ~FILES, 0, {SYS_read, 0, P(buf), 0}},
	{"writing", ALL & ~FILES, 0, {SYS_write, 2, P(buf), 0}},
	{"asking the time", ALL, 0, {SYS_clock_gettime, CLOCK_MONOTONIC, P(&ts)}},
	{"waiting", ALL & ~JOB & ~READS, 0, {SYS_poll, P(&none), 0, 0}},
	{"memory", ALL, 1, {SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
	{"memory that runs", 0, 0, {SYS_mmap, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
	{"memory that runs, asked for in 64 bits", 0, 0,
		{SYS_mmap, 0, 4096, HIGH | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
	{"memory made to run", 0, 0, {SYS_mprotect, P(buf), 4096, PROT_READ | PROT_EXEC}},
	{"memory made to run by its key", 0, 0, {SYS_pkey_mprotect, P(buf), 4096, PROT_READ | PROT_EXEC, -1}},
	{"reading at an offset", READER | BOTH | SYMBOLIZER | JOB | FILES | EXPORTER | PAGE | PUSH | MAKER, -EBADF,
		{SYS_pread64, -1, P(buf), 1, 0}},
	{"opening to read", READER | OPENS | SUPERVISOR | ATTACHER | EXPORTER | PAGE | PUSH, 1,
		{SYS_openat, AT_FDCWD, P("/dev/null"), O_RDONLY | O_CLOEXEC}},
	{"opening to write", SUPERVISOR | EXPORTER | PUSH, 1, {SYS_openat, AT_FDCWD, P("/dev/null"), O_WRONLY}},
	{"opening for both", SUPERVISOR | EXPORTER | PUSH, 1, {SYS_openat, AT_FDCWD, P("/dev/null"), O_RDWR}},
	{"truncating while opening to read", SUPERVISOR | EXPORTER | PUSH, 1,
		{SYS_openat, AT_FDCWD, P("/dev/null"), O_RDONLY | O_TRUNC}},
	{"making a file while opening to read", SUPERVISOR | EXPORTER | PUSH, -EEXIST,
		{SYS_openat, AT_FDCWD, P("/dev/null"), O_RDONLY | O_CREAT | O_EXCL, 0600}},
	{"listing a directory", SUPERVISOR | ATTACHER | EXPORTER | PAGE | PUSH, -EBADF,
		{SYS_getdents64, -1, P(buf), sizeof(buf)}},
	{"opening by the old call", 0, 0, {SYS_open, P("/dev/null"), O_RDONLY}},
	{"opening beneath", SYMBOLIZER | FILES, 1, {SYS_openat2, AT_FDCWD, P("/dev/null"), P(&how), sizeof(how)}},
	{"perf events", OPENER | ATTACHER, 1, {SYS_perf_event_open, P(&attr), 0, -1, -1, 0}},
	{"enabling a perf event", BOTH, -EBADF, {SYS_ioctl, -1, PERF_EVENT_IOC_ENABLE, 0}},
	{"so many samples of a perf event", BOTH, -EBADF, {SYS_ioctl, -1, PERF_EVENT_IOC_REFRESH, 1}},
	{"redirecting a perf event", BOTH, -EBADF, {SYS_ioctl, -1, PERF_EVENT_IOC_SET_OUTPUT, -1}},
	{"how much of what was sent is unread", BOTH, -EBADF, {SYS_ioctl, -1, SIOCOUTQ, P(buf)}},
	{"enabling a perf event, asked for in 64 bits", 0, 0, {SYS_ioctl, -1, HIGH | PERF_EVENT_IOC_ENABLE, 0}},
	{"a program on a perf event", 0, 0, {SYS_ioctl, -1, PERF_EVENT_IOC_SET_BPF, -1}},
	{"a filter on a perf event", 0, 0, {SYS_ioctl, -1, PERF_EVENT_IOC_SET_FILTER, 0}},
	{"typing into a terminal", 0, 0, {SYS_ioctl, 0, TIOCSTI, P(buf)}},
	{"receiving", OPENER | BOTH | ATTACHER | SYMBOLIZER | FILES | EXPORTER | NRI | PUSH | MAKER, -EBADF,
		{SYS_recvmsg, -1, P(&msg), 0}},
	{"sending", OPENER | BOTH | ATTACHER | SYMBOLIZER | FILES | EXPORTER | PAGE | NRI | PUSH | MAKER, -EBADF,
		{SYS_sendmsg, -1, P(&msg), 0}},
	{"sending to an address", BOTH | EXPORTER | PUSH, -EBADF, {SYS_sendto, -1, P(buf), 1, 0, 0, 0}},
	{"accepting", BOTH | EXPORTER, -EBADF, {SYS_accept4, -1, 0, 0, 0}},
	{"a new socket", 0, 0, {SYS_socket, AF_UNIX, SOCK_STREAM, 0}},
	{"a new socket to other machines", PUSH, 1, {SYS_socket, AF_INET, SOCK_STREAM, 0}},
	{"a socket that hears of the network", PUSH, 1, {SYS_socket, AF_NETLINK, SOCK_RAW, 0}},
	{"a socket that hears of other things", 0, 0, {SYS_socket, AF_NETLINK, SOCK_RAW, 9}},
	{"a new socket to all that passes", 0, 0, {SYS_socket, AF_PACKET, SOCK_RAW, 0}},
	{"a pair of sockets", BOTH | EXPORTER | PUSH, -EFAULT, {SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, 8}},
	{"a pair of other sockets", 0, 0, {SYS_socketpair, AF_NETLINK, SOCK_SEQPACKET, 0, 8}},
	{"connecting", PUSH, -EBADF, {SYS_connect, -1, 0, 0}},
	{"binding", PUSH, -EBADF, {SYS_bind, -1, 0, 0}},
	{"an epoll", SUPERVISOR | EXPORTER, 1, {SYS_epoll_create1, 0}},
	{"asking for the parent", SYMBOLIZER | SUPERVISOR | EXPORTER, 1, {SYS_getppid}},
	{"attributes of the process", 0, 0, {SYS_prctl, PR_GET_DUMPABLE}},
	{"a copy of a descriptor", BOTH | ATTACHER | SYMBOLIZER | EXPORTER | PAGE | PUSH | MAKER, 1,
		{SYS_fcntl, 0, F_DUPFD_CLOEXEC, 3}},
	{"signals from a descriptor", 0, 0, {SYS_fcntl, 0, F_SETOWN, 1}},
	{"which signal a descriptor sends", 0, 0, {SYS_fcntl, 0, F_SETSIG, 9}},
	{"a lease", 0, 0, {SYS_fcntl, 0, F_SETLEASE, F_RDLCK}},
	{"its limits", OPENER | BOTH | ATTACHER | SYMBOLIZER | EXPORTER | PUSH, 0,
		{SYS_prlimit64, 0, RLIMIT_NOFILE, 0, P(buf)}},
	{"setting a limit of memory", SUPERVISOR | SYMBOLIZER | EXPORTER | MAKER, -EFAULT,
		{SYS_prlimit64, 0, RLIMIT_DATA, 8, 0}},
	{"setting limits", 0, 0, {SYS_prlimit64, 0, RLIMIT_NOFILE, P(buf), 0}},
	{"another's limits", 0, 0, {SYS_prlimit64, 1, RLIMIT_NOFILE, 0, P(buf)}},
	{"killing", SUPERVISOR | SYMBOLIZER, -ESRCH, {SYS_kill, 0x3fffffff, SIGKILL}},
	{"which files there are", ALL & ~JOB, -ENOENT, {SYS_newfstatat, AT_FDCWD, P("/no/such"), P(&st), 0}},
	{"ignoring a signal", ALL & ~JOB & ~FILES, -EFAULT, {SYS_rt_sigaction, SIGUSR1, 8, 0, 8}},
	{"a signal", SUPERVISOR | EXPORTER, -ESRCH, {SYS_kill, 0x3fffffff, 0}},
	{"a signal to a thread", 0, 0, {SYS_tgkill, 0x3fffffff, 0x3fffffff, 0}},
	{"removing", SUPERVISOR | EXPORTER | PUSH, -ENOENT, {SYS_unlinkat, AT_FDCWD, P("/no/such"), 0}},
	{"renaming", SUPERVISOR | EXPORTER | PUSH, -ENOENT,
		{SYS_renameat2, AT_FDCWD, P("/no/such"), AT_FDCWD, P("/no/such2"), 0}},
	{"a lock", SUPERVISOR | EXPORTER | PUSH, -EBADF, {SYS_flock, -1, 2}},
	{"access control lists", SUPERVISOR | EXPORTER, -EBADF, {SYS_fsetxattr, -1, P("user.x"), P(buf), 1, 0}},
	{"access control lists by a path", 0, 0, {SYS_setxattr, P("/no/such"), P("user.x"), P(buf), 1, 0}},
	{"cutting a file", BOTH | EXPORTER, -EBADF, {SYS_ftruncate, -1, 0}},
	{"what a TCP socket does", SUPERVISOR | EXPORTER | PUSH, -EBADF,
		{SYS_setsockopt, -1, IPPROTO_TCP, 1, P(buf), 4}},
	{"what a socket does", PUSH, -EBADF, {SYS_setsockopt, -1, SOL_SOCKET, SO_PASSCRED, P(buf), 4}},
	{"seals of a file", BOTH | ATTACHER | SYMBOLIZER | EXPORTER | PAGE | PUSH | MAKER, -EBADF,
		{SYS_fcntl, -1, F_GET_SEALS}},
	{"a directory", SUPERVISOR | EXPORTER | PUSH, -ENOENT, {SYS_mkdirat, AT_FDCWD, P("/no/such"), 0700}},
	{"running a program", 0, 0, {SYS_execve, P("/no/such"), 0, 0}},
	{"running a program by descriptor", 0, 0, {SYS_execveat, -1, P(""), 0, 0, AT_EMPTY_PATH}},
	{"a new process", 0, 0, {SYS_clone, SIGCHLD, 0, 0, 0, 0}},
	{"a thread", 0, 0, {SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, 0, 0, 0, 0}},
	{"a new process in namespaces of its own", 0, 0, {SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0}},
	{"an alarm", SUPERVISOR | EXPORTER | MAKER, 0, {SYS_alarm, 0}},
	{"waiting for children", SYMBOLIZER | SUPERVISOR | PUSH, -ECHILD, {SYS_wait4, -1, 0, 0, 0}},
	{"a pipe", BOTH | PUSH, -EFAULT, {SYS_pipe2, 0, 0}},
	{"a new process by the old call", 0, 0, {SYS_vfork}},
	{"a new process by the new call", PUSH, -ENOSYS, {SYS_clone3, 0, 0}},
	{"tracing", 0, 0, {SYS_ptrace, 0, 0, 0, 0}},
	{"another's memory", 0, 0, {SYS_process_vm_readv, 1, 0, 0, 0, 0, 0}},
	{"another's descriptors", 0, 0, {SYS_pidfd_getfd, -1, 0, 0}},
	{"a namespace of its own", 0, 0, {SYS_unshare, 0}},
	{"another's namespace", 0, 0, {SYS_setns, -1, 0}},
	{"mounting", 0, 0, {SYS_mount, 0, P("/"), 0, 0, 0}},
	{"a mount tree", 0, 0, {SYS_open_tree, -1, P(""), 0}},
	{"another root", 0, 0, {SYS_chroot, P("/")}},
	{"another user", 0, 0, {SYS_setresuid, -1, -1, -1}},
	{"capabilities", 0, 0, {SYS_capset, 0, 0}},
	{"which capabilities there are", OPENER | ATTACHER, -EFAULT, {SYS_capget, 0, 0}},
	{"modes of files", 0, 0, {SYS_fchmodat, AT_FDCWD, P("/no/such"), 0}},
	{"owners of files", 0, 0, {SYS_fchownat, AT_FDCWD, P("/no/such"), -1, -1, 0}},
	{"links", 0, 0, {SYS_symlinkat, P("/no"), AT_FDCWD, P("/no/such")}},
	{"an anonymous file", ATTACHER | BOTH | EXPORTER | PAGE | PUSH, 1, {SYS_memfd_create, P("x"), 0}},
	{"BPF", 0, 0, {SYS_bpf, 0, 0, 0}},
	{"keys", 0, 0, {SYS_keyctl, 0, 0, 0, 0, 0}},
	{"io_uring", 0, 0, {SYS_io_uring_setup, 1, 0}},
	{"user faults", 0, 0, {SYS_userfaultfd, 0}},
	{"modules", 0, 0, {SYS_finit_module, -1, P(""), 0}},
};

static const struct {
	const char *name;
	enum seccomp_role role;
} roles[] = {{"reader", SECCOMP_READER}, {"opener", SECCOMP_OPENER}, {"supervisor", SECCOMP_SUPERVISOR},
	{"worker", SECCOMP_WORKER}, {"attacher", SECCOMP_ATTACHER}, {"symbolizer", SECCOMP_SYMBOLIZER},
	{"symbolizer_job", SECCOMP_SYMBOLIZER_JOB}, {"file_reader", SECCOMP_FILE_READER},
	{"file_opener", SECCOMP_FILE_OPENER}, {"exporter", SECCOMP_EXPORTER}, {"page", SECCOMP_PAGE},
	{"nri", SECCOMP_NRI}, {"push", SECCOMP_PUSH}, {"maker", SECCOMP_MAKER}};

static void in_role(const void *arg)
{
	const int row = *(const int *)arg;
	struct err e;
	bool bad = false;
	MUST(capabilities_limit(0, &e) == 0);
	MUST(seccomp_enter(roles[row].role, &e) == 0);
	for (size_t i = 0; i < LENGTH(probes); i++) {
		const struct uprobe *p = &probes[i];
		const long *c = p->call;
		long r = syscall(c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
		if (r < 0)
			r = -errno;
		bool allowed = p->allowed & 1u << roles[row].role;
		if (!allowed ? r == -EPERM : p->result == 1 ? r >= 0 : r == p->result)
			continue;
		dprintf(2, "%s, %s: %ld\n", roles[row].name, p->scenario, r);
		bad = true;
	}
	_exit(bad); /* at once: what a sanitizer does at an end, not every role may */
}

START_TEST(a_role_does_what_it_may_and_nothing_else)
{
	ck_assert_msg(in_child(in_role, &_i) == 0, "%s", roles[_i].name);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

#ifdef __x86_64__
/* The numbers of the 32-bit calls mean other calls: a filter that does not look at the architecture is open. */
static void call_as_32_bit(const void *arg)
{
	struct err e;
	long r = 20;		  /* getpid there, writev here */
	signal(SIGSEGV, SIG_DFL); /* a sanitizer's would say something and exit */
	if (arg) {
		MUST(capabilities_limit(0, &e) == 0);
		MUST(seccomp_enter(roles[*(const int *)arg].role, &e) == 0);
	}
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	if (!arg)
		_exit(0);
}

START_TEST(calls_of_another_architecture_end_the_process)
{
	/* some kernels have none of these calls (ia32_emulation=0, PVM): who makes one ends all the same */
	int without = in_child(call_as_32_bit, NULL), status = in_child(call_as_32_bit, &_i);
	int signal = without == 0 ? SIGSYS : SIGSEGV;
	ck_assert(without == 0 || (WIFSIGNALED(without) && WTERMSIG(without) == SIGSEGV));
	ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == signal, "%s: %x", roles[_i].name, status);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST
#endif

static void enter_with_new_privileges(const void *arg)
{
	struct err e = {0};
	if (geteuid() == 0)
		MUST(setresuid(65534, 65534, 65534) == 0);
	MUST(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
	MUST(seccomp_enter(SECCOMP_READER, &e) < 0);
	MUST(strstr(e.text, "cannot enter the seccomp role reader: ") == e.text);
	MUST(getppid() > 0 && errno != EPERM);
}

START_TEST(no_filter_without_no_new_privs)
{
	ck_assert_int_eq(in_child(enter_with_new_privileges, NULL), 0);
	ck_assert_int_eq(fd_count(), fds);
}
END_TEST

UNIT_SUITE(seccomp)
{
	Suite *s = suite_create("seccomp");
	TCase *t = tcase_create("seccomp");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, count_fds, NULL);
	tcase_add_loop_test(t, a_role_does_what_it_may_and_nothing_else, 0, LENGTH(roles));
#ifdef __x86_64__
	tcase_add_loop_test(t, calls_of_another_architecture_end_the_process, 0, LENGTH(roles));
#endif
	tcase_add_test(t, no_filter_without_no_new_privs);
	suite_add_tcase(s, t);
	return s;
}

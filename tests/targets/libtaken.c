/*
 * libtaken.so - a worker that was taken over: preloaded into pilliond, it makes the worker (by its name) do what it is
 * told, once, from inside its loop. TAKEN=FILE: shared; a test writes "go" to it and finds what came of it there, a
 * line "ATTEMPT RESULT" each, RESULT 0 or -errno. Lines behind "go" are files: of each the worker asks the reader that
 * it has (profiler/elf/target_file.h), beneath every directory that it holds, and "asked FILE RESULT BYTES" is the best
 * that came of it, RESULT -errno or 0, and then what the file begins with. A target whose thread is called "crashme"
 * ends the worker that counts it, a file with a symbol "crash_the_reader" the worker that reads its symbols.
 */
#include "profiler/elf/target_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE 4096
#define P(x) ((long)(x))

static char *shared;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TAKEN");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	shared = at == MAP_FAILED ? NULL : at;
	if (fd >= 0)
		close(fd);
}

static pid_t worker;

/* How it comes by its name tells us who it is. */
int prctl(int option, ...)
{
	va_list ap;
	va_start(ap, option);
	unsigned long a = va_arg(ap, unsigned long), b = va_arg(ap, unsigned long), c = va_arg(ap, unsigned long),
		      d = va_arg(ap, unsigned long);
	va_end(ap);
	if (option == PR_SET_NAME && !strcmp((const char *)a, "pilliond-worker"))
		worker = getpid();
	return (int)syscall(SYS_prctl, option, a, b, c, d);
}

/* --- a reader of files, as only the worker can ask it */

#define FDS_MAX 256

/* Its end of a pair that it made itself: of all its sockets that is the reader's alone. */
static int reader_socket(void)
{
	for (int fd = 0; fd < FDS_MAX; fd++) {
		struct ucred peer = {0};
		socklen_t size = sizeof(peer);
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == worker)
			return fd;
	}
	return -1;
}

static bool is_directory(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static int ask(int sock, int tree, const char *path, struct reader_answer *head, char *bytes, size_t size)
{
	struct reader_request q = {.kind = READER_OPEN};
	union {
		char space[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec out[] = {{&q, sizeof(q)}, {(char *)path, strlen(path)}},
		     in[] = {{head, sizeof(*head)}, {bytes, size}};
	struct msghdr m = {
		.msg_iov = out, .msg_iovlen = 2, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
	memcpy(CMSG_DATA(c), &tree, sizeof(tree));
	struct pollfd p = {.fd = sock, .events = POLLIN};
	if (sendmsg(sock, &m, 0) < 0)
		return -1;
	do { /* the first one may be what it says when it is ready: of no file */
		m = (struct msghdr){.msg_iov = in, .msg_iovlen = 2};
		if (poll(&p, 1, 2000) != 1 || recvmsg(sock, &m, 0) < (ssize_t)sizeof(*head))
			return -1;
	} while (head->result >= 0 && !head->id.ino);
	return 0;
}

static void say_bytes(FILE *to, const char *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < 16; i++)
		fprintf(to, bytes[i] > ' ' && bytes[i] < 127 ? "%c" : "\\%03o", (unsigned char)bytes[i]);
}

static void ask_for(FILE *to, int sock, const char *path)
{
	static char bytes[TARGET_FILES_BEGINNING_MAX];
	struct reader_answer best = {.result = -EBADF};
	for (int fd = 0; fd < FDS_MAX && best.result < 0; fd++) {
		struct reader_answer got;
		if (is_directory(fd) && ask(sock, fd, path, &got, bytes, sizeof(bytes)) == 0 && got.result != -ENOENT)
			best = got;
	}
	fprintf(to, "asked %s %d ", path, best.result < 0 ? best.result : 0);
	say_bytes(to, bytes, best.result < 0 ? 0 : best.bytes);
	fputc('\n', to);
}

static void ask_for_all(FILE *to, char *paths)
{
	char *save = NULL;
	int sock = reader_socket();
	for (char *path = strtok_r(paths, "\n", &save); path; path = strtok_r(NULL, "\n", &save))
		ask_for(to, sock, path);
}

static void attempts(void)
{
	static char asked[SIZE];
	static struct open_how how = {.flags = O_RDONLY};
	static char *argv[] = {"/bin/true", NULL};
	static const struct {
		const char *name;
		long call[7];
	} all[] = {
		{"open", {SYS_openat, AT_FDCWD, P("/etc/passwd"), O_RDONLY}},
		{"openat2", {SYS_openat2, AT_FDCWD, P("/etc/passwd"), P(&how), sizeof(how)}},
		{"create", {SYS_openat, AT_FDCWD, P("/tmp/pillion-was-here"), O_WRONLY | O_CREAT, 0600}},
		{"by-handle", {SYS_open_by_handle_at, AT_FDCWD, P(&how), O_RDONLY}},
		{"socket-unix", {SYS_socket, AF_UNIX, SOCK_STREAM, 0}},
		{"socket-inet", {SYS_socket, AF_INET, SOCK_STREAM, 0}},
		{"socket-netlink", {SYS_socket, AF_NETLINK, SOCK_RAW, 0}},
		{"connect", {SYS_connect, 3, 0, 0}},
		{"bind", {SYS_bind, 3, 0, 0}},
		{"ptrace", {SYS_ptrace, PTRACE_ATTACH, 1, 0, 0}},
		{"memory-of-others", {SYS_process_vm_readv, 1, 0, 0, 0, 0, 0}},
		{"fd-of-others", {SYS_pidfd_getfd, 3, 0, 0}},
		{"exec", {SYS_execve, P("/bin/true"), P(argv), 0}},
		{"fork", {SYS_clone, SIGCHLD, 0, 0, 0, 0}},
		{"thread", {SYS_clone, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, 0, 0, 0, 0}},
		{"kill", {SYS_kill, 1, SIGTERM}},
		{"perf", {SYS_perf_event_open, 0, 0, -1, -1, 0}},
		{"namespace", {SYS_unshare, CLONE_NEWUSER}},
		{"join", {SYS_setns, 3, 0}},
		{"mount", {SYS_mount, P("none"), P("/mnt"), P("tmpfs"), 0, 0}},
		{"code", {SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
		{"bpf", {SYS_bpf, 0, 0, 0}},
		{"io_uring", {SYS_io_uring_setup, 1, 0}},
		{"uid", {SYS_setresuid, 0, 0, 0}},
		{"dumpable", {SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0}},
	};
	memcpy(asked, shared + 3, SIZE - 4); /* behind "go" */
	FILE *to = fmemopen(shared, SIZE, "w");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const long *c = all[i].call;
		long r = syscall(c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
		fprintf(to, "%s %d\n", all[i].name, r < 0 ? -errno : 0);
	}
	ask_for_all(to, asked);
	fprintf(to, "done\n");
	fclose(to);
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
	if (worker == getpid() && shared && !strncmp(shared, "go\n", 3))
		attempts();
	/* so that it looks now and then */
	int wait = shared && (timeout < 0 || timeout > 100) ? 100 : timeout;
	return (int)syscall(SYS_epoll_pwait, epfd, events, max, wait, NULL, 8);
}

/* Names are copied by these. */
static int copied(const char *format, const char *to, int n)
{
	if (worker == getpid() && !strcmp(format, "%s") && n == 7 && !strcmp(to, "crashme"))
		abort();
	return n;
}

/* By this come the bytes of files: the first of them when it is opened, others when they are asked for. */
ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = syscall(SYS_recvmsg, fd, m, flags);
	bool first = n > 0 && (size_t)n <= m->msg_iov[0].iov_len && worker == getpid();
	if (first && memmem(m->msg_iov[0].iov_base, (size_t)n, "crash_the_reader", 16))
		abort();
	return n;
}

int snprintf(char *to, size_t size, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(to, size, format, ap);
	va_end(ap);
	return copied(format, to, n);
}

int __snprintf_chk(char *to, size_t size, int flag, size_t room, const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	int n = vsnprintf(to, size, format, ap);
	va_end(ap);
	return copied(format, to, n);
}

/*
 * libtaken.so - a worker that was taken over: preloaded into pilliond, it makes the worker (by its name) do what it is
 * told, once, from inside its loop. TAKEN=FILE: shared; a test writes "go" to it and finds what came of it there, a
 * line "ATTEMPT RESULT" each, RESULT 0 or -errno. A target whose thread is called "crashme" ends the worker that counts
 * it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
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

static void attempts(void)
{
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
	char *at = shared;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const long *c = all[i].call;
		long r = syscall(c[0], c[1], c[2], c[3], c[4], c[5], c[6]);
		at += snprintf(at, (size_t)(shared + SIZE - at), "%s %d\n", all[i].name, r < 0 ? -errno : 0);
	}
	snprintf(at, (size_t)(shared + SIZE - at), "done\n");
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

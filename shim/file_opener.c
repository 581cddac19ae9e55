/*
 * Who we are: the caller's child's child, with his credentials; root's becomes the service's user. The privilege that
 * is kept is CAP_DAC_READ_SEARCH, so that directories and files of mode 0700 can be opened to read. The role
 * "file_opener" takes everything away that does not open, look, pass on or close.
 */
#include "shim/file_opener.h"

#include "oci/base/fd.h"
#include "oci/base/process.h"
#include "oci/caps.h"
#include "oci/places.h"
#include "oci/seccomp.h"
#include "shim/protocol.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLIENTS_MAX 8 /* who is connected and has not asked yet; one more is turned away */
#define NOBODY 65534

struct question {
	struct file_opener_question head;
	char path[PATH_MAX]; /* with a NUL that we put there */
};

/* --- files ---------------------------------------------------------------------------------------------- */

/* perf maps are text: they are known by where they lie (tools/perf/util/map.c). */
static bool is_perf_map(const char *path)
{
	unsigned pid;
	int end = 0;
	return sscanf(path, "/tmp/perf-%u.map%n", &pid, &end) == 1 && end && !path[end];
}

/* ELF of either byte order, and all that a process had in its memory. */
static bool is_core_dump(const char *begin)
{
	const char *type = begin + offsetof(Elf64_Ehdr, e_type);
	return !memcmp(begin, ELFMAG, SELFMAG) && (type[0] == ET_CORE || type[1] == ET_CORE);
}

/* ELF, or jitdump of either byte order (jitdump-specification.txt). */
static bool has_known_beginning(int fd)
{
	static const char magics[][4] = {ELFMAG, "JiTD", "DTiJ"};
	char begin[offsetof(Elf64_Ehdr, e_machine)] = "";
	if (fd_pread_all(fd, begin, sizeof(begin), 0) < (ssize_t)sizeof(magics[0]) || is_core_dump(begin))
		return false;
	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (!memcmp(begin, magics[i], sizeof(magics[0])))
			return true;
	return false;
}

static bool is_regular(int fd)
{
	struct stat st;
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

bool file_is_for_profiler(int fd, const char *path)
{
	return is_regular(fd) && (is_perf_map(path) || has_known_beginning(fd));
}

/* O_NONBLOCK: a FIFO put where a library was has nobody at its other end. */
int file_open_for_profiler(int tree, const char *path, bool no_links)
{
	no_links |= is_perf_map(path); /* or any file could be had by that name */
	const int flags = no_links ? O_NOFOLLOW : 0;
	int fd = fd_open_beneath(tree, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags);
	if (fd < 0 || file_is_for_profiler(fd, path))
		return fd;
	fd_close(fd);
	return -EINVAL;
}

/* With more rights than a reader has: to open a device can do something already. */
static int open_regular(int tree, const struct question *q)
{
	fd_auto place = fd_open_beneath(tree, q->path, O_PATH | (q->head.no_links ? O_NOFOLLOW : 0));
	struct stat st;
	if (place < 0 || fstat(place, &st) < 0)
		return place < 0 ? place : -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISLNK(st.st_mode) ? -ELOOP : -EINVAL;
	return file_open_for_profiler(tree, q->path, q->head.no_links);
}

/* --- the process ---------------------------------------------------------------------------------------- */

/* One question; who does not ask is not waited for. */
static void answer(int tree, int client)
{
	static struct question q;
	size_t none;
	ssize_t got = fd_recv(client, &q, sizeof(q) - 1, NULL, 0, &none);
	if (got < (ssize_t)sizeof(q.head))
		return;
	((char *)&q)[got] = 0;
	fd_auto fd = open_regular(tree, &q);
	int32_t result = fd < 0 ? fd : 0;
	fd_send(client, &result, sizeof(result), &fd, fd >= 0);
}

static void accept_client(int sock, struct pollfd *clients)
{
	char any;
	int client = -1;
	size_t n = 0;
	if (fd_recv(sock, &any, sizeof(any), &client, 1, &n) < 0 || !n)
		return;
	for (size_t i = 0; i < CLIENTS_MAX; i++)
		if (clients[i].fd < 0) {
			clients[i] = (struct pollfd){.fd = client, .events = POLLIN};
			return;
		}
	fd_close(client);
}

/* -1: nobody wants anything. */
static int receive_tree(int sock)
{
	char any;
	int tree = -1;
	size_t n = 0;
	return fd_recv(sock, &any, sizeof(any), &tree, 1, &n) == 1 && n ? tree : -1;
}

static void serve(int tree, int sock)
{
	struct pollfd p[1 + CLIENTS_MAX] = {{.fd = sock, .events = POLLIN}};
	for (size_t i = 1; i <= CLIENTS_MAX; i++)
		p[i].fd = -1;
	while (!(p[0].revents & (POLLHUP | POLLERR))) {
		if (poll(p, 1 + CLIENTS_MAX, -1) < 0 && errno != EINTR)
			return;
		for (size_t i = 1; i <= CLIENTS_MAX; i++)
			if (p[i].fd >= 0 && p[i].revents) {
				answer(tree, p[i].fd);
				p[i].fd = fd_close(p[i].fd);
			}
		if (p[0].revents & POLLIN)
			accept_client(sock, p + 1);
	}
}

/* Of root his right to read alone, as the service's user; of anybody else what he is. */
static int keep_right_to_read(struct err *e)
{
	uid_t uid = NOBODY;
	gid_t gid = NOBODY;
	const uint64_t caps = CAP_BIT(CAP_DAC_READ_SEARCH);
	if (geteuid() != 0 || places_in_userns())
		return caps_limit(caps, e);
	process_user("pillion", &uid, &gid);
	return caps_become(uid, gid, caps, e);
}

static _Noreturn void run(int sock)
{
	const struct rlimit no_core = {0, 0};
	struct err e = {0};
	fd_close_all_but(&sock, 1);
	fd_null_stdio(7);
	prctl(PR_SET_NAME, "pillion-private");
	prctl(PR_SET_PDEATHSIG, 0);
	setrlimit(RLIMIT_CORE, &no_core);
	int r = chdir("/") < 0 ? -errno : keep_right_to_read(&e);
	prctl(PR_SET_DUMPABLE, 0); /* a change of user has set it */
	if (r < 0 || seccomp_enter(SECCOMP_FILE_OPENER, &e) < 0)
		_exit(1);
	int tree = receive_tree(sock);
	if (tree >= 0)
		serve(tree, sock);
	_exit(0);
}

int file_opener_start(int64_t deadline, struct err *e)
{
	int pair[2];
	char fate[80];
	if (process_inherits_orphans() || process_children_are_elsewhere())
		return err_say(e, -EINVAL, "a process of ours would be the program's child");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "cannot make a socket pair");
	pid_t pid = process_fork_quiet();
	if (pid == 0) {
		fd_close(pair[0]);
		setsid();
		pid = fork(); /* whose parent ends: it is nobody's child */
		if (pid == 0)
			run(pair[1]);
		_exit(pid < 0);
	}
	int status = pid < 0 ? -errno : process_wait(pid, deadline);
	fd_close(pair[1]);
	if (status == 0 && fcntl(pair[0], F_SETFL, O_NONBLOCK) == 0)
		return pair[0];
	fd_close(pair[0]);
	if (status < 0)
		return err_set(e, status, "no process for it");
	return err_say(e, -EIO, "its process %s", process_fate(status, fate, sizeof(fate)));
}

int file_opener_for(struct target_desc *d, int64_t deadline)
{
	struct err e = {0};
	char note[sizeof(e.text) + 80];
	int opener = file_opener_start(deadline, &e);
	if (opener >= 0)
		return opener;
	snprintf(note, sizeof(note), "files that the profiler may not open have no names: %s", e.text);
	target_note(d, note);
	return -1;
}

int file_opener_set_tree(int opener, int tree)
{
	return fd_send(opener, "", 1, &tree, 1);
}

/* --- who asks ------------------------------------------------------------------------------------------- */

int file_opener_connect(int opener)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	int r = fd_send(opener, "", 1, &pair[1], 1);
	fd_close(pair[1]);
	return r < 0 ? fd_close(pair[0]), r : pair[0];
}

int file_opener_ask(int sock, const char *path, bool no_links)
{
	static struct question q;
	size_t len = strlen(path), n = 0;
	int32_t result = 0;
	int fd = -1;
	if (len >= sizeof(q.path))
		return -ENAMETOOLONG;
	q.head.no_links = no_links;
	memcpy(q.path, path, len);
	int r = fd_send(sock, &q, sizeof(q.head) + len, NULL, 0);
	ssize_t got = r < 0 ? r : fd_recv(sock, &result, sizeof(result), &fd, 1, &n);
	if (got == sizeof(result) && result == 0 && n)
		return fd;
	if (n)
		fd_close(fd);
	return got < 0 ? (int)got : got == sizeof(result) && result < 0 && result > -4096 ? result : -EPIPE;
}

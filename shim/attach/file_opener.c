/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file opener is the caller's child's child, with the caller's credentials; root's becomes the service's user. The
 * privilege that is kept is CAP_DAC_READ_SEARCH, so that directories and files of mode 0700 can be opened to read. The
 * role "file_opener" leaves the system calls that look at files, open, pass and close them.
 */
#include "shim/attach/file_opener.h"

#include "oci/base/clock.h"
#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/config/user_dirs.h"
#include "oci/isolation/capabilities.h"
#include "oci/isolation/cgroup.h"
#include "oci/isolation/seccomp.h"
#include "shim/attach/event_open.h"
#include "shim/protocol/messages.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NOBODY 65534
#define BUDGET_SHARE 4 /* of the time that is left, a start may take one part in so many */

static const struct cgroup_limits limits = {.memory = 64 << 20, .cpu_percent = 100, .pids = 16};

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

/* ELF core file of either byte order: it has all the memory of a process. */
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

/* A perf map may have one name only: a second one would be a way to any file, as contents are not checked. */
bool file_is_for_profiler(int fd, const char *path)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	return is_perf_map(path) ? st.st_nlink == 1 : has_known_beginning(fd);
}

/* O_NONBLOCK: a FIFO put where a library was has no writer. */
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

/*
 * File systems that ask or tell the kernel something: merely opening a file there can do that, and the bytes read there
 * are no stored contents. linux/magic.h has not all of them.
 */
static const uint32_t pseudo[] = {PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, TRACEFS_MAGIC,
	DEBUGFS_MAGIC, SECURITYFS_MAGIC, BPF_FS_MAGIC, DEVPTS_SUPER_MAGIC, PSTOREFS_MAGIC, EFIVARFS_MAGIC,
	SELINUX_MAGIC, SMACK_MAGIC, NSFS_MAGIC, BINFMTFS_MAGIC, RDTGROUP_SUPER_MAGIC, XENFS_SUPER_MAGIC,
	USBDEVICE_SUPER_MAGIC, ANON_INODE_FS_MAGIC, BINDERFS_SUPER_MAGIC, 0x62656570 /* configfs */,
	0x5a3c69f0 /* apparmorfs */, 0x65735543 /* fusectl */, 0x19800202 /* mqueue */, 0x67596969 /* rpc_pipefs */,
	0x6e667364 /* nfsd */, 0xa647361 /* functionfs */, 0xaee71ee7 /* gadgetfs */, 0x76a9f425 /* dlmfs */};

static bool is_pseudo(int fd)
{
	struct statfs fs;
	if (fstatfs(fd, &fs) < 0)
		return true;
	for (size_t i = 0; i < sizeof(pseudo) / sizeof(pseudo[0]); i++)
		if ((uint32_t)fs.f_type == pseudo[i])
			return true;
	return false;
}

/* Checks by an O_PATH descriptor that a file may be opened. 0 or -errno. */
static int check_file(int place, struct stat *ret)
{
	if (fstat(place, ret) < 0)
		return -errno;
	if (!S_ISREG(ret->st_mode))
		return S_ISLNK(ret->st_mode) ? -ELOOP : -EINVAL;
	return is_pseudo(place) ? -EPERM : 0;
}

/* Opens the file that was checked, by its descriptor: its name may denote another file by now. */
static int open_again(int descriptors, int place)
{
	char name[16];
	snprintf(name, sizeof(name), "%d", place);
	return fd_open(descriptors, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

/*
 * The file opener has more rights than a file reader, and merely opening a device, or a file of the kernel's, can do
 * something. It knows a file by its contents, so it refuses perf maps: they are known by name only, and a user with a
 * mount namespace can bind any file to that name, also one that the user may not read.
 */
static int open_regular(int tree, int descriptors, const struct question *q)
{
	struct stat found, st;
	if (is_perf_map(q->path))
		return -EACCES;
	fd_auto place = fd_open_beneath(tree, q->path, O_PATH | (q->head.no_links ? O_NOFOLLOW : 0));
	int r = place < 0 ? place : check_file(place, &found);
	if (r < 0)
		return r;
	int fd = open_again(descriptors, place);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) == 0 && st.st_dev == found.st_dev && st.st_ino == found.st_ino && has_known_beginning(fd))
		return fd;
	fd_close(fd);
	return -EINVAL;
}

/* --- the process ---------------------------------------------------------------------------------------- */

/* One question. The file opener waits for no client that does not ask, or does not take the answer. */
static void answer_question(int tree, int descriptors, int client)
{
	static struct question q;
	size_t none;
	ssize_t got = fd_recv_now(client, &q, sizeof(q) - 1, NULL, 0, &none);
	if (got < (ssize_t)sizeof(q.head))
		return;
	((char *)&q)[got] = 0;
	fd_auto fd = open_regular(tree, descriptors, &q);
	int32_t result = fd < 0 ? fd : 0;
	int r = fd_send_now(client, &result, sizeof(result), &fd, fd >= 0);
	if (r < 0 && fd >= 0) /* too many descriptors are on their way: unix(7), ETOOMANYREFS */
		fd_send_now(client, &(int32_t){r}, sizeof(result), NULL, 0);
}

/* False: the profiler has closed its end, so no client will come any more. */
static bool accept_client(int sock, struct pollfd *clients)
{
	char any;
	int client = -1;
	size_t n = 0;
	ssize_t got = fd_recv_now(sock, &any, sizeof(any), &client, 1, &n);
	for (size_t i = 0; n && i < FILE_OPENER_CLIENTS_MAX; i++)
		if (clients[i].fd < 0) {
			clients[i] = (struct pollfd){.fd = client, .events = POLLIN};
			n = 0;
		}
	if (n)
		fd_close(client);
	return got != 0;
}

/* -1: the other end was closed before. */
static int receive_tree(int sock)
{
	char any;
	int tree = -1;
	size_t n = 0;
	return fd_recv(sock, &any, sizeof(any), &tree, 1, &n) == 1 && n ? tree : -1;
}

static void serve_clients(int tree, int descriptors, int sock)
{
	struct pollfd p[1 + FILE_OPENER_CLIENTS_MAX] = {{.fd = sock, .events = POLLIN}};
	for (size_t i = 1; i <= FILE_OPENER_CLIENTS_MAX; i++)
		p[i].fd = -1;
	while (!(p[0].revents & (POLLHUP | POLLERR))) {
		if (poll(p, 1 + FILE_OPENER_CLIENTS_MAX, -1) < 0 && errno != EINTR)
			return;
		for (size_t i = 1; i <= FILE_OPENER_CLIENTS_MAX; i++)
			if (p[i].fd >= 0 && p[i].revents) {
				answer_question(tree, descriptors, p[i].fd);
				p[i].fd = fd_close(p[i].fd);
			}
		if (p[0].revents & POLLIN && !accept_client(sock, p + 1))
			return;
	}
}

/* Root keeps the right to read alone, as the service's user; any other caller keeps its user and no capability. */
static int keep_right_to_read(struct err *e)
{
	uid_t uid = NOBODY;
	gid_t gid = NOBODY;
	const uint64_t caps = CAP_BIT(CAP_DAC_READ_SEARCH);
	if (geteuid() != 0)
		return capabilities_limit(0, e);
	if (user_dirs_in_userns())
		return capabilities_limit(caps, e);
	passwd_user("pillion", &uid, &gid);
	return capabilities_become(uid, gid, caps, e);
}

/* Opens /proc/self/fd, by which the process opens its own files again (open_again). Nothing but procfs will do. */
static int open_descriptors(void)
{
	struct statfs fs;
	int fd = fd_open(AT_FDCWD, "/proc/self/fd", O_PATH | O_DIRECTORY, 0);
	if (fd < 0 || (fstatfs(fd, &fs) == 0 && (uint32_t)fs.f_type == PROC_SUPER_MAGIC))
		return fd;
	fd_close(fd);
	return -ENOSYS;
}

/* Keeps its memory and CPU time out of the limits of the program. The caller does not wait for it. */
static void enter_cgroup(const char *id, uint64_t start_time)
{
	struct err unused;
	char name[160];
	snprintf(name, sizeof(name), "files-%.100s@%llu", id, (unsigned long long)start_time);
	cgroup_sweep("files-"); /* of file openers that have ended: none can remove its own */
	cgroup_enter_own(name, &limits, false, &unused);
}

static _Noreturn void run_file_opener(const char *id, uint64_t start_time, int sock)
{
	struct err e = {0};
	enter_cgroup(id, start_time);
	prctl(PR_SET_NAME, "pillion-private");
	event_open_raise_files(); /* descriptors that it passes count with all those of user pillion */
	int r = keep_right_to_read(&e);
	prctl(PR_SET_DUMPABLE, 0); /* a change of user has set it */
	const int descriptors = open_descriptors();
	if (r < 0 || descriptors < 0 || seccomp_enter(SECCOMP_FILE_OPENER, &e) < 0)
		_exit(1);
	int tree = receive_tree(sock);
	if (tree >= 0)
		serve_clients(tree, descriptors, sock);
	_exit(0);
}

/*
 * The caller's child, and the file opener's parent. The program begins when this process has ended: by then the
 * program's descriptors and directory are released, and the program's niceness does not slow the file opener.
 */
static _Noreturn void start_orphan(const char *id, uint64_t start_time, int sock)
{
	if (fd_close_all_but(&sock, 1) < 0 || fd_null_stdio(7) < 0)
		_exit(1);
	setsid();
	child_process_reset(false);
	pid_t pid = fork(); /* an orphan, once this process has ended */
	if (pid == 0)
		run_file_opener(id, start_time, sock);
	_exit(pid < 0);
}

/* 0, or -errno with a sentence. */
static int check_place(struct err *e)
{
	if (child_process_inherits_orphans())
		return err_say(e, -EINVAL, "the process that opens them would become the program's child");
	if (child_process_children_are_elsewhere())
		return err_say(e, -EINVAL, "children of this process would be born into another pid namespace");
	fd_auto descriptors = open_descriptors();
	return descriptors < 0 ? err_set(e, descriptors, "without /proc they cannot be opened safely") : 0;
}

int file_opener_start(const char *id, uint64_t start_time, int64_t deadline, struct err *e)
{
	int pair[2];
	char fate[80];
	int r = check_place(e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, -errno, "cannot make a socket pair");
	pid_t pid = child_process_fork_quiet();
	if (pid == 0)
		start_orphan(id, start_time, pair[1]);
	int status = pid < 0 ? -errno : child_process_wait(pid, deadline);
	fd_close(pair[1]);
	if (status == 0)
		return pair[0];
	fd_close(pair[0]);
	if (status == -ETIMEDOUT)
		return err_say(e, status, "the process that opens them did not begin in time");
	if (status < 0)
		return err_set(e, status, "there is no process that opens them");
	return err_say(e, -EIO, "the process that opens them %s", child_process_fate(status, fate, sizeof(fate)));
}

void file_opener_clean(const char *id, int64_t deadline)
{
	char prefix[160];
	snprintf(prefix, sizeof(prefix), "files-%.100s@", id);
	cgroup_sweep_until(prefix, deadline);
	cgroup_sweep("files-");
}

static void note_none(struct target_desc *d, const char *why)
{
	char note[sizeof(((struct err *)0)->text) + 80];
	snprintf(note, sizeof(note), FILE_OPENER_NONE "%s", why);
	target_note(d, note);
}

int file_opener_for(struct target_desc *d, int64_t deadline)
{
	struct err e = {0};
	const int64_t now = clock_now();
	int opener = file_opener_start(d->id, d->start_time, now + (deadline - now) / BUDGET_SHARE, &e);
	if (opener < 0)
		note_none(d, e.text);
	return opener < 0 ? -1 : opener;
}

int file_opener_set_tree(int opener, int tree)
{
	return fd_send_now(opener, "", 1, &tree, 1);
}

int file_opener_give_tree(int opener, int tree, struct target_desc *d)
{
	int r = opener < 0 || tree < 0 ? -EBADF : file_opener_set_tree(opener, tree);
	if (r == 0)
		return opener;
	if (opener >= 0 && tree >= 0)
		note_none(d, "the process that opens them has ended");
	return fd_close(opener);
}

/* --- clients ------------------------------------------------------------------------------------------ */

int file_opener_connect(int opener)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	int r = fd_send_now(opener, "", 1, &pair[1], 1);
	fd_close(pair[1]);
	return r < 0 ? fd_close(pair[0]), r : pair[0];
}

static ssize_t receive_answer(int sock, int64_t deadline, int32_t *ret, int *ret_fd, size_t *ret_n)
{
	if (deadline == INT64_MAX)
		return fd_recv(sock, ret, sizeof(*ret), ret_fd, 1, ret_n);
	int r = fd_wait(sock, POLLIN, deadline);
	return r == 1 ? fd_recv_now(sock, ret, sizeof(*ret), ret_fd, 1, ret_n) : r < 0 ? r : -ETIMEDOUT;
}

int file_opener_ask(int sock, const char *path, bool no_links, int64_t deadline)
{
	static struct question q;
	size_t len = strlen(path), n = 0;
	int32_t result = 0;
	int fd = -1;
	if (len >= sizeof(q.path))
		return -ENAMETOOLONG;
	q.head.no_links = no_links;
	memcpy(q.path, path, len);
	int r = fd_send_now(sock, &q, sizeof(q.head) + len, NULL, 0);
	ssize_t got = r < 0 ? r : receive_answer(sock, deadline, &result, &fd, &n);
	if (got == sizeof(result) && result == 0 && n)
		return fd;
	if (n)
		fd_close(fd);
	return got < 0 ? (int)got : got == sizeof(result) && result < 0 && result > -4096 ? result : -EPIPE;
}

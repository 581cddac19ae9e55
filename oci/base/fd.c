/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/base/fd.h"

#include "oci/base/clock.h"
#include "oci/base/clock_driven.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_TRIES 100 /* of one path */

int fd_close(int fd)
{
	if (fd >= 0) {
		int saved = errno;
		close(fd);
		errno = saved;
	}
	return -1;
}

void fd_close_each(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		fd_close(fds[i]);
}

void fd_closep(int *fd)
{
	*fd = fd_close(*fd);
}

int fd_open(int dirfd, const char *path, int flags, mode_t mode)
{
	int fd = openat(dirfd, path, flags | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

/*
 * openat2(2), EAGAIN: if the path has a "..", the kernel cannot tell that it stayed below `root` while any process
 * of the machine renames or mounts anything; a few microseconds later it can. Beside a process that does nothing but
 * rename, one walk in 40 fails.
 */
static int open_beneath(int root, const char *path, int flags, uint64_t resolve)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd = -1;
	for (int tries = 0; tries < MAX_TRIES; tries++) {
		fd = syscall(SYS_openat2, root, path, &how, sizeof(how));
		if (fd >= 0 || errno != EAGAIN)
			break;
	}
	return fd < 0 ? -errno : (int)fd;
}

int fd_open_beneath(int root, const char *path, int flags)
{
	return open_beneath(root, path, flags, 0);
}

int fd_open_on_root(int root, const char *path, int flags)
{
	return open_beneath(root, path, flags, RESOLVE_NO_XDEV);
}

int fd_open_no_links(int root, const char *path, int flags)
{
	return open_beneath(root, path, flags, RESOLVE_NO_SYMLINKS);
}

int fd_open_dir(int dirfd, const char *path)
{
	return fd_open(dirfd, path, O_RDONLY | O_DIRECTORY, 0);
}

ssize_t fd_read_all(int fd, void *buf, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = read(fd, (char *)buf + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t fd_pread_all(int fd, void *buf, size_t size, off_t off)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = pread(fd, (char *)buf + done, size - done, off + (off_t)done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_write_all(int fd, const void *buf, size_t size)
{
	size_t done = 0;
	while (done < size) {
		ssize_t n = write(fd, (const char *)buf + done, size - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

int fd_slurp(int fd, size_t cap, char **ret, size_t *ret_len)
{
	size_t have = 0, room = 16384;
	char *buf = malloc(room + 1);
	if (!buf)
		return -ENOMEM;
	for (;;) {
		ssize_t n = fd_read_all(fd, buf + have, room - have);
		if (n < 0) {
			free(buf);
			return (int)n;
		}
		have += (size_t)n;
		if (have < room)
			break;
		if (have > cap) {
			free(buf);
			return -EFBIG;
		}
		room = room * 4 > cap + 1 ? cap + 1 : room * 4;
		char *bigger = realloc(buf, room + 1);
		if (!bigger) {
			free(buf);
			return -ENOMEM;
		}
		buf = bigger;
	}
	if (have > cap) {
		free(buf);
		return -EFBIG;
	}
	buf[have] = 0;
	*ret = buf;
	*ret_len = have;
	return 0;
}

int fd_read_text(int dirfd, const char *path, char *buf, size_t size)
{
	fd_auto fd = fd_open(dirfd, path, O_RDONLY, 0);
	if (fd < 0)
		return fd;
	ssize_t n = fd_read_all(fd, buf, size - 1);
	if (n < 0)
		return (int)n;
	while (n > 0 && buf[n - 1] == '\n')
		n--;
	buf[n] = 0;
	return 0;
}

int fd_write_text(int dirfd, const char *path, const char *text)
{
	fd_auto fd = fd_open(dirfd, path, O_WRONLY, 0);
	if (fd < 0)
		return fd;
	return fd_write_all(fd, text, strlen(text));
}

static int send_with_flags(int sock, int flags, const void *buf, size_t size, const int *fds, size_t n)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n > FD_PASS_MAX)
		return -E2BIG;
	if (n) {
		memset(&control, 0, CMSG_SPACE(sizeof(int) * n));
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
	}
	ssize_t sent;
	do /* not by libc: musl's refuses more than 1024 bytes of control data, which are 252 descriptors */
		sent = syscall(SYS_sendmsg, sock, &msg, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == size ? 0 : -EMSGSIZE;
}

int fd_send(int sock, const void *buf, size_t size, const int *fds, size_t n)
{
	return send_with_flags(sock, 0, buf, size, fds, n);
}

int fd_send_now(int sock, const void *buf, size_t size, const int *fds, size_t n)
{
	return send_with_flags(sock, MSG_DONTWAIT, buf, size, fds, n);
}

static size_t take_fds(struct msghdr *msg, int *fds, size_t max)
{
	size_t have = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (have < max)
				fds[have++] = fd;
			else
				fd_close(fd);
		}
	}
	return have;
}

static ssize_t receive_message(int sock, int flags, void *buf, size_t size, int *fds, size_t max, size_t *ret_n)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * FD_PASS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = size};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		/* max 0: the kernel drops descriptors; if we closed them, we could wait for a file system */
		.msg_control = max ? control.space : NULL,
		.msg_controllen = max ? sizeof(control.space) : 0};

	*ret_n = 0;
	ssize_t got;
	do /* ECONNRESET, once: the peer left data unread; its own data comes next (net/unix/af_unix.c) */
		got = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | flags);
	while (got < 0 && (errno == EINTR || errno == ECONNRESET));
	if (got < 0)
		return -errno;
	size_t n = take_fds(&msg, fds, max);
	int bad = msg.msg_flags & MSG_TRUNC ? -EMSGSIZE : msg.msg_flags & MSG_CTRUNC ? (max ? -EMFILE : -EPROTO) : 0;
	if (bad) {
		fd_close_each(fds, n);
		return bad;
	}
	*ret_n = n;
	return got;
}

ssize_t fd_recv(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n)
{
	return receive_message(sock, 0, buf, size, fds, max, ret_n);
}

ssize_t fd_recv_now(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n)
{
	return receive_message(sock, MSG_DONTWAIT, buf, size, fds, max, ret_n);
}

ssize_t fd_peek(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n)
{
	return receive_message(sock, MSG_PEEK, buf, size, fds, max, ret_n);
}

int fd_peek_from_first(int sock)
{
	const int first = 0;
	return setsockopt(sock, SOL_SOCKET, SO_PEEK_OFF, &first, sizeof(first)) < 0 ? -errno : 0;
}

int fd_wait(int fd, short events, int64_t deadline)
{
	struct pollfd p = {.fd = fd, .events = events};
	for (;;) {
		int left = deadline_left_ms(deadline), r = poll(&p, 1, clock_block_ms(left));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0)
			return 1;
		if (r == 0)
			clock_blocked(left);
		if (deadline_left_ms(deadline) == 0)
			return 0;
	}
}

size_t fd_read_until(int fd, void *buf, size_t size, int64_t deadline)
{
	size_t n = 0;
	while (n < size && fd_wait(fd, POLLIN, deadline) == 1) {
		const ssize_t got = read(fd, (char *)buf + n, size - n);
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	return n;
}

bool fd_is_hung_up(int sock)
{
	struct pollfd p = {.fd = sock};
	return poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

bool fd_is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

bool fd_is(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

int fd_make_sealed(const char *name, const void *buf, size_t size)
{
	const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_all(fd, buf, size);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
		r = -errno;
	if (r == 0)
		return fd;
	fd_close(fd);
	return r;
}

bool fd_is_sealed(int fd, int seals)
{
	const int has = fcntl(fd, F_GET_SEALS); /* -1 has every bit: no memory file */
	return has >= 0 && (has & seals) == seals;
}

static int close_range_compat(unsigned first, unsigned last)
{
	if (first > last)
		return 0;
	if (syscall(SYS_close_range, first, last, 0) == 0)
		return 0;
	if (errno != ENOSYS && errno != EPERM) /* kernels before 5.9, and filters that do not know it */
		return -errno;
	DIR *d = opendir("/proc/self/fd");
	if (!d)
		return -errno;
	for (struct dirent *de; (de = readdir(d));) {
		int fd = atoi(de->d_name);
		if (de->d_name[0] != '.' && fd != dirfd(d) && (unsigned)fd >= first && (unsigned)fd <= last)
			fd_close(fd);
	}
	closedir(d);
	return 0;
}

int fd_close_all_but(const int *keep, size_t n)
{
	unsigned from = 3;
	for (;;) {
		/* the smallest kept fd that is not below `from` */
		unsigned next = ~0U;
		for (size_t i = 0; i < n; i++)
			if (keep[i] >= 0 && (unsigned)keep[i] >= from && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		int r = close_range_compat(from, next == ~0U ? ~0U : next - 1);
		if (r < 0 || next == ~0U)
			return r;
		from = next + 1;
	}
}

void fd_hold_stdio(void)
{
	int fd;
	do
		fd = fd_open(AT_FDCWD, "/", O_PATH, 0); /* nothing can be read from it or written to it */
	while (fd >= 0 && fd < 3);
	fd_close(fd);
}

int fd_null_stdio(unsigned which)
{
	int null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
	if (null < 0)
		return null;
	for (int fd = 0; fd < 3; fd++) {
		if (null == fd) {
			/* this number itself was free: keep `null` here, inheritable as stdio is, and open another */
			fcntl(null, F_SETFD, 0);
			null = fd_open(AT_FDCWD, "/dev/null", O_RDWR, 0);
			if (null < 0)
				return null;
		} else if ((which & 1U << fd) || !fd_is(fd)) {
			if (dup2(null, fd) < 0) {
				int r = -errno;
				fd_close(null);
				return r;
			}
		}
	}
	fd_close(null);
	return 0;
}

int fd_count(void)
{
	DIR *d = opendir("/proc/self/fd");
	if (!d)
		return -errno;
	int n = -1; /* the directory's own */
	for (struct dirent *de; (de = readdir(d));)
		n += de->d_name[0] != '.';
	closedir(d);
	return n;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/libpillion/core/owned_fd.h"

#include "shim/libpillion/core/syscall.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define OWNED_FD_AT 1016 /* descriptors from here on: not where a program expects its own */

bool owned_fd_is(const struct owned_fd *h)
{
	struct stat st;
	return h->fd >= 0 && sys_call(fstat, h->fd, &st) == 0 && st.st_ino == h->ino && st.st_dev == h->dev;
}

int owned_fd_take(struct owned_fd *h, int fd)
{
	struct rlimit most = {0};
	struct stat st;
	sys_call(prlimit64, 0, RLIMIT_NOFILE, 0, &most);
	const long least = most.rlim_cur < OWNED_FD_AT + 8 ? (long)most.rlim_cur - 8 : OWNED_FD_AT;
	long high = least > fd ? sys_call(fcntl, fd, F_DUPFD_CLOEXEC, least) : -EMFILE;
	if (high >= 0)
		sys_call(close, fd);
	h->fd = high >= 0 ? (int)high : fd;
	if (sys_call(fstat, h->fd, &st) < 0) {
		sys_call(close, h->fd);
		h->fd = -1;
		return -EBADF;
	}
	h->dev = st.st_dev;
	h->ino = st.st_ino;
	return 0;
}

void owned_fd_let_go(struct owned_fd *h)
{
	if (owned_fd_is(h))
		sys_call(close, h->fd);
	h->fd = -1;
}

/* Beyond RLIMIT_FSIZE the kernel does not only refuse, it sends a signal. */
static bool file_may_be(uint64_t size)
{
	struct rlimit most;
	return sys_call(prlimit64, 0, RLIMIT_FSIZE, 0, &most) == 0 && most.rlim_cur >= size;
}

int owned_fd_memory(const char *name, size_t size, struct owned_fd *ret, void **ret_at)
{
	if (!file_may_be(size))
		return -EFBIG;
	const long fd = sys_call(memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return (int)fd;
	int r = owned_fd_take(ret, (int)fd);
	if (r == 0)
		r = (int)sys_call(ftruncate, ret->fd, size);
	if (r == 0)
		r = (int)sys_call(fcntl, ret->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (r < 0)
		return r;
	const long at = sys_call(mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED, ret->fd, 0);
	if (at < 0 && at > -4096)
		return (int)at;
	sys_call(madvise, at, size, MADV_DONTFORK);
	*ret_at = (void *)at;
	return 0;
}

int owned_fd_pass(const struct owned_fd *h, int sock, const void *message, size_t size)
{
	struct iovec io = {(void *)(uintptr_t)message, size};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.room)};
	memcpy(CMSG_DATA(&control.head), &h->fd, sizeof(int));
	const long n = sys_call(sendmsg, sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n == (long)size ? 0 : n < 0 ? (int)n : -EIO;
}

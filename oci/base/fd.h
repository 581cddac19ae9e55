/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd - file descriptors with one owner, close-on-exec at birth, -1 when empty; whole reads and writes;
 * passing descriptors over a Unix socket (unix(7), SCM_RIGHTS).
 *
 * This is the only file that opens, receives and closes. Errors are negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FD_PASS_MAX 253 /* SCM_MAX_FD, include/net/scm.h */

/* Close once (never retried: the number may be somebody else's by then). Returns -1: `fd = fd_close(fd)`. */
int fd_close(int fd);
void fd_closep(int *fd); /* for __attribute__((cleanup)) */
#define fd_auto __attribute__((cleanup(fd_closep))) int

int fd_open(int dirfd, const char *path, int flags, mode_t mode); /* fd or -errno */
/* openat2(2) with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: `path` never leaves `root`. */
int fd_open_beneath(int root, const char *path, int flags);
int fd_open_on_root(int root, const char *path, int flags);  /* the same, and on the mount of `root` only */
int fd_open_no_links(int root, const char *path, int flags); /* the same; -ELOOP where any part is a symbolic link */
int fd_open_dir(int dirfd, const char *path);

/* Until EOF or `size` bytes; bytes read or -errno. */
ssize_t fd_read_all(int fd, void *buf, size_t size);
ssize_t fd_pread_all(int fd, void *buf, size_t size, off_t off);
int fd_write_all(int fd, const void *buf, size_t size);
/* Until EOF, `size` bytes, an error or the deadline: how many came. */
size_t fd_read_until(int fd, void *buf, size_t size, int64_t deadline);
/* Whole file, NUL added behind it, malloc'ed for the caller. -EFBIG beyond `cap` bytes. */
int fd_slurp(int fd, size_t cap, char **ret, size_t *ret_len);
/* Small text file (/proc, /sys, cgroupfs) into a caller's buffer, NUL-terminated, trailing newline cut. */
int fd_read_text(int dirfd, const char *path, char *buf, size_t size);
int fd_write_text(int dirfd, const char *path, const char *text);

/* One datagram with up to FD_PASS_MAX descriptors. 0 or -errno (-EAGAIN when `sock` is non-blocking and full). */
int fd_send(int sock, const void *buf, size_t size, const int *fds, size_t n);
/* The same, and -EAGAIN in any case: another process that holds the socket may have made it one that blocks. */
int fd_send_now(int sock, const void *buf, size_t size, const int *fds, size_t n);
/*
 * One datagram, also what a peer said before it hung up with something unread. Returns its size, 0 at EOF, or -errno:
 * -EMSGSIZE when it was longer than `size`, -EMFILE when descriptors were dropped by the kernel. `*ret_n` of `fds`
 * belong to the caller, also none on error.
 */
ssize_t fd_recv(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n);
/* The same; -EAGAIN: there is none. */
ssize_t fd_recv_now(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n);
/*
 * As fd_recv, of a Unix socket of packets, and all of it stays in the queue: the next call is for the next datagram.
 * fd_peek_from_first, which every reader calls first: from the first one on (SO_PEEK_OFF, which all who hold the socket
 * share).
 */
ssize_t fd_peek(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n);
int fd_peek_from_first(int sock);
/* Wait for events on one fd until the deadline: 1 ready, 0 deadline passed, -errno. */
int fd_wait(int fd, short events, int64_t deadline);

bool fd_is_hung_up(int sock); /* nobody has its other end */
/* An errno of accept(2) with which whoever connects stays in the queue: there was no descriptor or memory for him. */
bool fd_is_short(int error);

bool fd_is(int fd);				 /* open in this process */
int fd_close_all_but(const int *keep, size_t n); /* everything >= 3 except `keep` (any order) */
/* 0, 1 and 2 become /dev/null where `which` (bit mask) says so, and where they are closed. */
int fd_null_stdio(unsigned which);
/*
 * Where 0, 1 or 2 is closed, hold the number until exec(2): so that no descriptor of ours gets it, and nothing that
 * is meant for a person ends up in a socket.
 */
void fd_hold_stdio(void);
int fd_count(void); /* open descriptors of this process */

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd - file descriptors with one owner, close-on-exec from the start, -1 when empty; whole reads and writes;
 * passing descriptors over a Unix socket (unix(7), SCM_RIGHTS).
 *
 * No other file opens, receives or closes; unix_socket.h makes and connects sockets. Errors are negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FD_PASS_MAX 253 /* SCM_MAX_FD, include/net/scm.h */

/* Closes once (never retried: the number may be in use again by then). Returns -1: `fd = fd_close(fd)`. */
int fd_close(int fd);
void fd_close_each(const int *fds, size_t n);
void fd_closep(int *fd); /* for __attribute__((cleanup)) */
#define fd_auto __attribute__((cleanup(fd_closep))) int

int fd_open(int dirfd, const char *path, int flags, mode_t mode); /* fd or -errno */
/* openat2(2) with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: `path` never leaves `root`. */
int fd_open_beneath(int root, const char *path, int flags);
int fd_open_on_root(int root, const char *path, int flags);  /* the same, and on the mount of `root` only */
int fd_open_no_links(int root, const char *path, int flags); /* the same; -ELOOP if any part is a symbolic link */
int fd_open_dir(int dirfd, const char *path);

/* Reads until EOF or `size` bytes; returns the bytes read or -errno. */
ssize_t fd_read_all(int fd, void *buf, size_t size);
ssize_t fd_pread_all(int fd, void *buf, size_t size, off_t off);
int fd_write_all(int fd, const void *buf, size_t size);
/* Reads until EOF, `size` bytes, an error or the deadline; returns the bytes read. */
size_t fd_read_until(int fd, void *buf, size_t size, int64_t deadline);
/* Reads a whole file, malloc'ed for the caller, with a NUL after it. -EFBIG: more than `cap` bytes. */
int fd_slurp(int fd, size_t cap, char **ret, size_t *ret_len);
/* Reads a small text file (/proc, /sys, cgroupfs) into a caller's buffer, NUL-terminated, trailing newlines cut. */
int fd_read_text(int dirfd, const char *path, char *buf, size_t size);
int fd_write_text(int dirfd, const char *path, const char *text);

/* Puts the bytes into a memfd_create(2) file that no process can change any more. The file or -errno. */
int fd_make_sealed(const char *name, const void *buf, size_t size);

/* Sends one datagram with up to FD_PASS_MAX descriptors. 0 or -errno (-EAGAIN: `sock` is non-blocking and full). */
int fd_send(int sock, const void *buf, size_t size, const int *fds, size_t n);
/* The same, but never blocks (-EAGAIN): another process that holds the socket may have made it blocking. */
int fd_send_now(int sock, const void *buf, size_t size, const int *fds, size_t n);
/*
 * Receives one datagram, also one that a peer sent before it hung up with unread data. Returns its size, 0 at EOF, or
 * -errno: -EMSGSIZE: longer than `size`, -EMFILE: the kernel dropped descriptors, -EPROTO: the same with `max` 0. The
 * first `*ret_n` of `fds` belong to the caller, also with a size of 0 (an empty datagram); none on error.
 */
ssize_t fd_recv(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n);
/* The same; -EAGAIN: there is none. */
ssize_t fd_recv_now(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n);
/*
 * As fd_recv, for a Unix socket of packets, but the datagram stays in the queue: the next call returns the next one.
 * fd_peek_from_first starts again at the first one. Every reader calls it first, because all processes that hold the
 * socket share its SO_PEEK_OFF.
 */
ssize_t fd_peek(int sock, void *buf, size_t size, int *fds, size_t max, size_t *ret_n);
int fd_peek_from_first(int sock);
/* Waits for events on one fd until the deadline: 1 ready, 0 deadline passed, -errno. */
int fd_wait(int fd, short events, int64_t deadline);

bool fd_is_hung_up(int sock); /* no process has its other end open */
/* Does this errno of accept(2) leave the connection in the queue: no descriptor or no memory for it? */
bool fd_is_short(int error);

bool fd_is(int fd);				 /* is it open in this process? */
bool fd_is_sealed(int fd, int seals);		 /* a memfd_create(2) file with all these (F_GET_SEALS) */
int fd_close_all_but(const int *keep, size_t n); /* closes all >= 3 except `keep` (any order) */
/* Makes 0, 1 and 2 /dev/null if `which` (a bit mask) says so or they are closed. */
int fd_null_stdio(unsigned which);
/*
 * If 0, 1 or 2 is closed, holds the number until exec(2), so that no descriptor of ours gets it and no text for a
 * person ends up in a socket.
 */
void fd_hold_stdio(void);
int fd_count(void); /* open descriptors of this process */

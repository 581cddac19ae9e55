/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_fd - libpillion's descriptors in an application's process, with numbers as high as possible. The application
 * may close them, or have files of its own by those numbers: each is checked before each use, and left alone if it is
 * not ours.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct owned_fd {
	int fd; /* -1: none */
	uint64_t dev, ino;
};

int owned_fd_take(struct owned_fd *h, int fd); /* takes over fd, also on failure; 0 or -errno */
bool owned_fd_is(const struct owned_fd *h);    /* whether it is open, and ours */
void owned_fd_let_go(struct owned_fd *h);
/*
 * Makes memory to be passed on: a memfd that can neither shrink nor grow, mapped here and in no forked child. 0 or
 * -errno; the caller lets go of *ret, also on failure.
 */
int owned_fd_memory(const char *name, size_t size, struct owned_fd *ret, void **ret_at);
/*
 * Sends the descriptor with a message to the peer of `sock` (SOCK_SEQPACKET); does not wait. 0 or -errno; -EIO: cut
 * short.
 */
int owned_fd_pass(const struct owned_fd *h, int sock, const void *message, size_t size);

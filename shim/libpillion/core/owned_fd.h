/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owned_fd - descriptors of ours in somebody else's process, as high as they go. An application may close them, or have
 * files of its own by those numbers: before each use they are looked at, and what is not ours is not touched.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct owned_fd {
	int fd; /* -1: none */
	uint64_t dev, ino;
};

int owned_fd_take(struct owned_fd *h, int fd); /* taken also on failure; 0 or -errno */
bool owned_fd_is(const struct owned_fd *h);    /* it is there, and ours */
void owned_fd_let_go(struct owned_fd *h);
/*
 * Memory to be passed on: a memfd that can neither shrink nor grow, mapped here and in no forked child. 0 or -errno;
 * what it holds by then is the caller's to let go of.
 */
int owned_fd_memory(const char *name, size_t size, struct owned_fd *ret, void **ret_at);
/* With a message, to who is at the other end of `sock` (SOCK_SEQPACKET); it does not wait. 0 or -errno; -EIO: cut
 * short. */
int owned_fd_pass(const struct owned_fd *h, int sock, const void *message, size_t size);

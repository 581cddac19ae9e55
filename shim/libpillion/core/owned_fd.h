/*
 * owned_fd - descriptors of ours in somebody else's process, as high as they go. An application may close them, or have
 * files of its own by those numbers: before each use they are looked at, and what is not ours is not touched.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct held {
	int fd; /* -1: none */
	uint64_t dev, ino;
};

int held_take(struct held *h, int fd); /* taken also on failure; 0 or -errno */
bool held_is(const struct held *h);    /* it is there, and ours */
void held_let_go(struct held *h);
/*
 * Memory to be passed on: a memfd that can neither shrink nor grow, mapped here and in no forked child. 0 or -errno;
 * what it holds by then is the caller's to let go of.
 */
int held_memory(const char *name, size_t size, struct held *ret, void **ret_at);
/* With a message, to who is at the other end of `sock` (SOCK_SEQPACKET); it does not wait. 0 or -errno; -EIO: cut
 * short. */
int held_pass(const struct held *h, int sock, const void *message, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push_encode_child - makes the requests of one file of the spool (push_encode.h) in a process of its own: the profile
 * was written by a worker that read targets' data, and the pushing process has tokens and a network.
 *
 * The *maker* is forked before libcurl is loaded: it wipes the tokens, has no connection, and forks a job for each
 * file, which gets that file and a memfd for its answer. The job has the seccomp role of a page (SECCOMP_PAGE),
 * PUSH_ENCODE_CHILD_MEMORY and PUSH_ENCODE_CHILD_S; its answer is checked, not trusted. The caller waits for it.
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_encode.h"
#include "profiler/push/push_endpoint.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PUSH_ENCODE_CHILD_MEMORY (320ul << 20)
#define PUSH_ENCODE_CHILD_S 10
#define PUSH_ENCODE_CHILD_REQUESTS_MAX 4096
#define PUSH_ENCODE_CHILD_BYTES_MAX (256u << 20)

struct encoder_process {
	int sock; /* -1: there is no maker */
	pid_t pid;
};

/* Forks the maker; call it before libcurl is loaded. `all`: the maker wipes the secrets of these endpoints. */
int encoder_start(struct push_endpoint *all, size_t n, struct encoder_process *ret, struct err *e);
void encoder_stop(struct encoder_process *m);

struct push_batch {
	struct push_request *requests; /* texts and bodies are in `map` */
	size_t n;
	void *map;
	size_t len;
};

struct push_question {
	enum push_form form;
	struct push_limits limits;
	struct push_source of;
	struct push_progress sent; /* of its beginning; sent before, in smaller or larger parts */
};

/*
 * Has the requests of a file made. fd: the file, borrowed. -EBADMSG: it is no profile, cannot be sent, or is larger
 * than a job may be, which will stay so; -ETIME: its job took too long; -EPIPE: the job died; -EINTR: *stop (`stop` may
 * be NULL); -ECONNRESET: the maker has ended.
 */
int push_encode_child_run(const struct encoder_process *m, int fd, const struct push_question *q,
	const volatile int *stop, struct push_batch *ret, struct err *e);
/* Reads a job's answer from its sealed memfd. -EBADMSG: it is none. */
int push_encode_child_read(int fd, struct push_batch *ret);
void push_encode_child_done(struct push_batch *b);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push - profiles to an endpoint, by a process that does nothing else: it takes what waits in a spool (push_queue.h),
 * has its requests made (push_encode_child.h) and sends them (http_client.h), or copies it into a directory.
 *
 * Nobody waits for it, and it holds nothing: what the endpoint has not had stays in the spool. While that fails, one
 * file is tried again and again, later each time (PUSH_PAUSE_MAX_S at most; what the server asks for by Retry-After
 * otherwise), and the others wait behind it. Only what a server will never take (400, 422, a file that is no profile)
 * is given up, with a line in the log. A file is sent at least once: who dies between its answer and our note of it
 * sends it twice.
 *
 * <spool>/.push/NAME.json says how it is going, for metrics (push_status.h) and people: "to"; "sent", "sent_bytes",
 * "refused", "lost" and "failures" since the process began; "waiting"; "oldest", "failing_since" and "written", seconds
 * since the epoch, 0: none; "why".
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_endpoint.h"

#include <stdbool.h>
#include <stdint.h>

#define PUSH_PAUSE_MAX_S 60
#define PUSH_PARALLEL 8 /* targets whose files are under way at once */
#define PUSH_BYTES_MAX (64u << 20)
#define PUSH_TRIES 5 /* of who waits for it, and of a file that its process dies of */

/*
 * What must be there before the process loses its rights and enters its role. All are borrowed; of `p` events and
 * limits count as well; node "": the host's name; *stop ends what waits.
 */
struct push;
struct encoder_process;
int push_open(const struct push_endpoint *p, const struct encoder_process *m, const char *node,
	const volatile int *stop, struct push **ret, struct err *e);
struct push *push_close(struct push *h);
/* The role SECCOMP_PUSH, for good. */
int push_confine(const struct push *h, struct err *e);

/*
 * The spool's files as they come, until *stop: what is under way then has five seconds. `backlog`: with those that are
 * there when this endpoint is new. 0, or what it cannot go on with.
 */
int push_follow(struct push *h, int spool, bool backlog, struct err *e);
/*
 * One file, now: tries PUSH_TRIES times, if the server says that it may pass, a minute apart at most. `path`, and
 * where the spool is, tell its target and name. 0, -EAGAIN: the receiver did not take it; -EBADMSG: it is refused, in
 * part at least; -EINTR; with a sentence.
 */
int push_file(struct push *h, int dir, const char *file, const char *path, struct err *e);

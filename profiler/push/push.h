/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push - sends profiles to an endpoint, in a process that does nothing else: it takes files that wait in a spool
 * (push_queue.h), has their requests made (push_encode_child.h) and sends them (http_client.h), or copies the files
 * into a directory.
 *
 * No process waits for it, and it keeps no profiles: those not yet sent stay in the spool. While sending fails, it
 * tries one file again and again, at growing intervals (PUSH_PAUSE_MAX_S at most, or longer if a server's Retry-After
 * asks for it), and the other files wait. It gives up only a file that a server will never take (400, 422, a file that
 * is no profile), with a line in the log. A file is sent at least once: a process that dies after the server's answer
 * and before noting it sends the file twice.
 *
 * <spool>/.push/NAME.json has the state for metrics (push_status.h) and people: "to"; "sent", "sent_bytes", "refused",
 * "lost" and "failures" since the process began; "waiting"; "oldest", "failing_since" and "written", seconds since the
 * epoch, 0: none; "why".
 */
#pragma once

#include "oci/base/err.h"
#include "profiler/push/push_endpoint.h"

#include <stdbool.h>
#include <stdint.h>

#define PUSH_PAUSE_MAX_S 60
#define PUSH_PARALLEL 8 /* targets with a file under way at once */
#define PUSH_BYTES_MAX (64u << 20)
#define PUSH_TRIES 5 /* of push_file(), and of a file on which its job dies */

/*
 * Opens resources that must be there before the process drops its rights and enters its role. `p`, `m` and `stop` are
 * borrowed; `p`'s events and limits apply; node "": the host's name; *stop ends every wait.
 */
struct push;
struct encoder_process;
int push_open(const struct push_endpoint *p, const struct encoder_process *m, const char *node,
	const volatile int *stop, struct push **ret, struct err *e);
struct push *push_close(struct push *h);
/* Enters the role SECCOMP_PUSH, for good. */
int push_confine(const struct push *h, struct err *e);

/*
 * Sends the spool's files as they come, until *stop: transfers under way then get five seconds. `backlog`: if this
 * endpoint is new, also send files that are there already. 0, or the error that ends it.
 */
int push_follow(struct push *h, int spool, bool backlog, struct err *e);
/*
 * Sends one file now: tries PUSH_TRIES times while the server's status may pass by itself, a minute apart at most. The
 * target and its name come from `path` and the place of the spool. 0, -EAGAIN: the receiver did not take it; -EBADMSG:
 * it is refused, in part at least; -EINTR; with a sentence.
 */
int push_file(struct push *h, int dir, const char *file, const char *path, struct err *e);

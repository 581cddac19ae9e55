/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sd_notify - talks to the service manager above us, where there is one. It hands over the listening socket and the
 * descriptors that it kept for us (sd_listen_fds(3)), and gets our messages (sd_notify(3)). Both are configured by
 * variables of the environment, which are read once while we are still privileged, and unset.
 *
 * Without a manager all of this does nothing. The socket to it is connected at the start, so messages leave under
 * seccomp. They are best effort: a manager that does not read holds us up for SD_NOTIFY_PATIENCE_MS at most, and not at
 * all for the watchdog's message, which is repeated anyway.
 */
#pragma once

#include "oci/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define SD_NOTIFY_PATIENCE_MS 1000
#define SD_NOTIFY_KEPT "pillion." /* the prefix of the names under which it keeps descriptors for us */
#define SD_NOTIFY_NAME_MAX 64
#define SD_NOTIFY_FDS_MAX 65536 /* that it may hand over at most */

struct stored_fd {
	char name[SD_NOTIFY_NAME_MAX];
	int fd; /* -1: taken */
};

struct inherited_fds {
	int listener; /* -1: none */
	struct stored_fd *kept;
	size_t n_kept;
};

struct sd_notify {
	int sock;		  /* -1: there is no manager */
	int64_t watchdog_ns, due; /* between signs of life: half the manager's timeout; 0 = no watchdog */
};

/*
 * Reads the descriptors that were handed over. listener: the SEQPACKET listener, non-blocking; of several the one with
 * the name "control" (FileDescriptorName=); other sockets that were not kept for us are closed. All are close-on-exec.
 * -EINVAL: it is another kind of descriptor.
 */
int sd_notify_handed(struct inherited_fds *ret, struct err *e);
void sd_notify_handed_done(struct inherited_fds *h); /* closes the rest; the listener is the caller's */
int sd_notify_open(struct sd_notify *m, struct err *e);
/* Sends lines of sd_notify(3): "READY=1\nSTATUS=...". */
void sd_notify_say(const struct sd_notify *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Has the manager keep a copy of `fd` for the next process, as long as the unit is not stopped (FDSTORE=1, FDPOLL=0:
 * also when its other end is closed). -ENOTCONN: there is no manager; -EAGAIN: not now. A success does not say that the
 * manager keeps it (FileDescriptorStoreMax=).
 */
int sd_notify_keep(const struct sd_notify *m, const char *name, int fd);
int sd_notify_drop(const struct sd_notify *m, const char *name); /* drops all of that name; errors as above */
/* Sends a sign of life and `targets` as the status, when due. Milliseconds until the next, -1 = none. */
int sd_notify_round(struct sd_notify *m, unsigned targets);
void sd_notify_close(struct sd_notify *m);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sd_notify - the service manager above us, where there is one: what it hands over (sd_listen_fds(3)), the listening
 * socket and descriptors that it kept for us; and what it wants to hear (sd_notify(3)). Both are variables of the
 * environment, read once while we are still privileged, and taken out of it.
 *
 * Without a manager all of this does nothing. The socket to it is connected at the start, so messages leave under
 * seccomp. They are best effort: a manager that does not read holds us up for SD_NOTIFY_PATIENCE_MS at most, and not at
 * all with a watchdog's, which is repeated anyway.
 */
#pragma once

#include "oci/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define SD_NOTIFY_PATIENCE_MS 1000
#define SD_NOTIFY_KEPT "pillion." /* what it keeps for us is called so, and something behind it */
#define SD_NOTIFY_NAME_MAX 64
#define SD_NOTIFY_FDS_MAX 65536 /* that it may hand over */

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
	int sock;		  /* -1: nobody wants to hear */
	int64_t watchdog_ns, due; /* from one sign of life to the next, half of what it waits for; 0 = it does not */
};

/*
 * listener: the SEQPACKET listener that was handed over, non-blocking. Of several the one that is called "control"
 * (FileDescriptorName=); others that it does not keep for us are closed. All are close-on-exec. -EINVAL: it is
 * something else.
 */
int sd_notify_handed(struct inherited_fds *ret, struct err *e);
void sd_notify_handed_done(struct inherited_fds *h); /* closes what nobody has taken; the listener is whose it is */
int sd_notify_open(struct sd_notify *m, struct err *e);
/* Lines of sd_notify(3): "READY=1\nSTATUS=...". */
void sd_notify_say(const struct sd_notify *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * A copy of `fd` for whoever comes behind us, as long as the unit is not stopped (FDSTORE=1, FDPOLL=0: also when its
 * other end is closed). -ENOTCONN: there is no manager; -EAGAIN: not now. Whether it keeps it at all is its own
 * business (FileDescriptorStoreMax=).
 */
int sd_notify_keep(const struct sd_notify *m, const char *name, int fd);
int sd_notify_drop(const struct sd_notify *m, const char *name); /* all of that name; as above */
/* A sign of life and `targets` as the status, when due; milliseconds until the next, -1 = none. */
int sd_notify_round(struct sd_notify *m, unsigned targets);
void sd_notify_close(struct sd_notify *m);

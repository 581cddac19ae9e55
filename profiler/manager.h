/*
 * manager - the service manager above us, where there is one: the listening socket that it hands over
 * (sd_listen_fds(3)), and what it wants to hear (sd_notify(3)). Both are variables of the environment, read once while
 * we are still privileged, and taken out of it.
 *
 * Without a manager all of this does nothing. The socket to it is connected at the start, so messages leave under
 * seccomp. They are best effort: a manager that does not read holds us up for MANAGER_PATIENCE_MS at most, and not at
 * all with a watchdog's, which is repeated anyway.
 */
#pragma once

#include "oci/base/err.h"

#include <stdint.h>

#define MANAGER_PATIENCE_MS 1000

struct manager {
	int sock;		  /* -1: nobody wants to hear */
	int64_t watchdog_ns, due; /* from one sign of life to the next, half of what it waits for; 0 = it does not */
};

/*
 * *ret: the SEQPACKET listener that was handed over, close-on-exec and non-blocking, or -1. Of several the one that is
 * called "control" (FileDescriptorName=); the others are closed. -EINVAL: it is something else.
 */
int manager_listener(int *ret, struct err *e);
int manager_open(struct manager *m, struct err *e);
/* Lines of sd_notify(3): "READY=1\nSTATUS=...". */
void manager_say(const struct manager *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A sign of life and `targets` as the status, when due; milliseconds until the next, -1 = none. */
int manager_round(struct manager *m, unsigned targets);
void manager_close(struct manager *m);

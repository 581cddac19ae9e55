/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_lookup - which container a name is: asked of the engines that are installed, with their own commands, because
 * each keeps its names in a place and form of its own.
 */
#pragma once

#include "oci/base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct engine_container {
	pid_t pid; /* of its init */
	char id[256], name[256];
	char bundle[4096]; /* where an engine tells, else "" */
};

/*
 * The first engine that knows it, in the order podman, docker, nerdctl, crictl, runc, crun; all are asked at a time,
 * and who hangs is passed over when another one knows it. 0; -ENOENT: nobody does, and `e` says who was asked;
 * -ETIMEDOUT: nor does who has answered; -ESRCH: it does not run.
 */
int engine_lookup_find(const char *what, int64_t deadline, struct engine_container *ret, struct err *e);

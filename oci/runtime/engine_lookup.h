/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine_lookup - finds a container by its name. Asks the installed engines with their own commands, because each keeps
 * its names in a place and form of its own.
 */
#pragma once

#include "oci/base/err.h"

#include <stdint.h>
#include <sys/types.h>

struct engine_container {
	pid_t pid; /* of its init */
	char id[256], name[256];
	char bundle[4096]; /* if the engine tells it, else "" */
};

/*
 * Returns the answer of the first engine that knows the container, in the order podman, docker, nerdctl, crictl, runc,
 * crun. All are asked at the same time; an engine that hangs is passed over if another one knows it. 0; -ENOENT: no
 * engine knows it, and `e` lists those asked; -ETIMEDOUT: some engine has not answered, the others do not know it;
 * -ESRCH: the container does not run.
 */
int engine_lookup_find(const char *what, int64_t deadline, struct engine_container *ret, struct err *e);

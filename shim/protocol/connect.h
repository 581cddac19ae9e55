/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect - a profiler for one target: the service that listens; a session of our own where no service listens, or
 * where the output is explicit. `pillion run` and `pillion attach` call it, as any user.
 */
#pragma once

#include "oci/config/options.h"

#include <sys/types.h>

struct reached {
	int sock; /* greeted */
	bool in_service;
	char note[240]; /* how the profiler falls short, or "" */
};

/* id, start_time: the target's; hello: flags of the greeting. 0, or -errno with a sentence. */
int connect_profiler(const struct settings *s, const char *id, uint64_t start_time, uint32_t hello, int64_t deadline,
	struct reached *ret, struct err *e);
/* A session's spool: settings.paths.output, else ./pillion-<pid>, made absolute. 0 or -errno. */
int connect_output(struct settings *s, pid_t pid, struct err *e);

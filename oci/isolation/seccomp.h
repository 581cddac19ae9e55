/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp - one allow-list per role (seccomp(2)), compiled at build time by oci/isolation/gen/seccomp_filters.c. Other
 * calls fail with EPERM: a role that makes an unexpected call degrades and says so instead of dying in the middle.
 */
#pragma once

#include "oci/base/err.h"

enum seccomp_role {
	SECCOMP_READER,		/* parses state and config: reads, opens read-only, writes its answer */
	SECCOMP_OPENER,		/* opens perf events and passes them on */
	SECCOMP_ATTACHER,	/* the same, and reads /proc */
	SECCOMP_SYMBOLIZER,	/* forks jobs that read debug information, readers of files, and other symbolizers */
	SECCOMP_SYMBOLIZER_JOB, /* reads files that are open already, writes its answer */
	SECCOMP_FILE_READER,	/* opens files of targets and reads them */
	SECCOMP_FILE_OPENER,	/* opens files of a target for a profiler that may not, and passes them on */
	SECCOMP_EXPORTER,	/* writes the spool, answers on a socket that listens already, forks makers of pages */
	SECCOMP_PAGE,		/* reads the spool and makes a page of it */
	SECCOMP_PUSH,		/* sends files of the spool to other machines */
	SECCOMP_MAKER,		/* forks jobs that make push requests from files of the spool */
	SECCOMP_SUPERVISOR,	/* pilliond after all opens that need privilege; its children keep this filter */
	SECCOMP_WORKER,		/* reads the rings; no paths, no processes */
	SECCOMP_NRI, /* speaks with a container engine: two sockets; paths only to check whether a file exists */
};

/* Needs no_new_privs (capabilities_limit). Cannot be undone. */
int seccomp_enter(enum seccomp_role role, struct err *e);

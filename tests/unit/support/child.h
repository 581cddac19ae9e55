/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child - a piece of a test in a process of its own, for what cannot be undone there: limits, users, filters,
 * namespaces. In it MUST() takes the place of the library's assertions, whose report belongs to the parent.
 */
#pragma once

#include "oci/base/clock.h"
#include "oci/base/process/child_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MUST(x)                                                                                                        \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			dprintf(2, "%s:%d: in a child: %s (%s)\n", __FILE__, __LINE__, #x, strerror(errno));           \
			_exit(1);                                                                                      \
		}                                                                                                      \
	} while (0)

/* Wait status of a child that runs fn and ends; 0 = every MUST held. */
static inline int in_child(void (*fn)(const void *arg), const void *arg)
{
	pid_t pid = fork();
	if (pid == 0) {
		fn(arg);
		_exit(0);
	}
	return pid < 0 ? -errno : child_process_wait(pid, deadline_in(20 * NSEC_PER_SEC));
}

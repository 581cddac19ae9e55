/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle - where the bundle of a running container is: its config.json has the settings of its creation.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Reads a process's container id from its cgroup's name, less the prefix and suffix of engines. 0, or -ENOENT. */
int bundle_id(pid_t pid, char *buf, size_t size);
/* Finds the bundle by the command line of the init's monitor (conmon), else in the engines' directories. 0, or -ENOENT.
 */
int bundle_find(pid_t init, const char *id, char *buf, size_t size);
/* Reads the name of the init's parent: conmon, containerd-shim-kata-v2, ...; "" if it cannot be read. */
const char *bundle_monitor(pid_t init, char *buf, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle - where the bundle of a container that runs is: its config.json says what it was created with.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/*
 * The id of the container that a process is in, by its cgroup's name: without what engines put around it. 0, or
 * -ENOENT.
 */
int bundle_id(pid_t pid, char *buf, size_t size);
/* By whoever watches over the init (conmon), else in the directories of the engines. 0, or -ENOENT. */
int bundle_find(pid_t init, const char *id, char *buf, size_t size);
/* What its parent is called: conmon, containerd-shim-kata-v2, ...; "" when that is not to be had. */
const char *bundle_monitor(pid_t init, char *buf, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespaces - joining a container's mount and pid namespace, and what is wanted from there (namespaces(7)).
 *
 * Two reasons only to join: the mount namespace, to take a detached copy of the container's mount tree; the
 * pid namespace, so that perf records carry the container's own pids (the kernel reports them as seen from
 * the opener's pid namespace, kernel/events/core.c perf_event_pid).
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum ns_kind { NS_MNT, NS_PID };

/* Descriptor of a process' namespace. 0 in *ret_same when it differs from ours. */
int ns_open(pid_t pid, enum ns_kind kind, bool *ret_same, struct err *e);
/* The pid that `pid` of ours has in a pid namespace. 0 or -errno. */
int ns_pid_in(int pid_ns, pid_t pid, pid_t *ret);
int ns_join(int fd, enum ns_kind kind, struct err *e);

/*
 * A detached, recursive, read-only copy of the mount tree at `path` (open_tree(2) with OPEN_TREE_CLONE,
 * mount_setattr(2)); call after joining the mount namespace. It outlives the container and pins the file
 * systems in it until it is closed.
 *
 * With every volume, and what of them is a secret: before a container's program has begun nobody knows which of them
 * programs and libraries will be run from, and what is left out cannot be put in later, nor taken out of a copy (no
 * mount of a detached tree can be moved or unmounted alone, but by newer kernels). A Pod's secrets are no more noexec
 * than its programs. So what is read through it is decided by what a file is (profiler/elf/target_file.h,
 * target_files_open_here).
 */
int ns_tree(const char *path, struct err *e);
int ns_tree_at(int root, struct err *e); /* of a directory that is open (O_PATH) */

/*
 * fork() whose child is born into the pid namespace joined before, with the highest free pid there, so that
 * the numbering the application sees does not move (clone3(2) set_tid; any pid where that is refused). The child is our
 * parent's, not ours: who forks may end at once. `told`: its pid is there before it runs, also when we die now.
 */
pid_t ns_fork_high(pid_t *told);

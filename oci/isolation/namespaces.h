/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namespaces - joins a container's mount and pid namespace (namespaces(7)).
 *
 * There are only two reasons to join: the mount namespace, to take a detached copy of the container's mount tree; the
 * pid namespace, so that perf records carry the container's own pids (the kernel reports them as seen from
 * the opener's pid namespace, kernel/events/core.c perf_event_pid).
 */
#pragma once

#include "oci/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum ns_kind { NS_MNT, NS_PID };

/* Opens a process's namespace. Returns a descriptor or -errno. *ret_same: is it ours too? */
int ns_open(pid_t pid, enum ns_kind kind, bool *ret_same, struct err *e);
/* Translates `pid` of our pid namespace to its pid in `pid_ns`. 0 or -errno. */
int ns_pid_in(int pid_ns, pid_t pid, pid_t *ret);
int ns_join(int fd, enum ns_kind kind, struct err *e);

/*
 * Makes a detached, recursive, read-only copy of the mount tree at `path` (open_tree(2) with OPEN_TREE_CLONE,
 * mount_setattr(2)); call after joining the mount namespace. The copy outlives the container and pins the file
 * systems in it until it is closed.
 *
 * It has every volume, also secrets. Before a container's program has begun we cannot know which volumes programs and
 * libraries will run from. A volume that is left out cannot be added later, and none can be taken out of a copy (only
 * newer kernels can move or unmount a single mount of a detached tree). A Pod's secrets are no more noexec than its
 * programs. So the type of each file decides whether it is read through the copy (profiler/elf/target_file.h,
 * target_files_open_here).
 */
int ns_tree(const char *path, struct err *e);
int ns_tree_at(int root, struct err *e); /* of a directory that is open (O_PATH) */

/*
 * Forks a child into the pid namespace joined before, with the highest free pid there, so that the pids that the
 * application sees do not shift (clone3(2) set_tid; any pid if that is refused). The child is our parent's, not ours:
 * the caller may end at once. `told` gets the child's pid before the child runs, even if the caller dies meanwhile.
 */
pid_t ns_fork_high(pid_t *told);

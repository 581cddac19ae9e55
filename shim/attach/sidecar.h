/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidecar - a Pod's own profiler: an unprivileged pilliond in a container of the same Pod, which gets the events of the
 * Pod's other containers from the node's hook. Off, unless the administrator's policy says `sidecars = yes`.
 *
 * A volume of the Pod's (emptyDir) is mounted at SIDECAR_DIR in both containers; the profiler listens there, at its
 * default place. The hook knows the volume by the mounts of the container that starts (config.json), and reaches the
 * socket on the host: by openat2(2) without any symbolic link, then by the descriptor, so no name that a tenant can
 * replace is followed, and nothing is joined. Then it makes sure that the listener (SO_PEERCRED, by its pidfd) is in
 * the container's own Pod: in a cgroup below the parent of the container's cgroup, and that parent has the name of a
 * Pod. A volume that Pods share (hostPath) does not lead from one to the other; where containers of many owners lie
 * side by side (/docker/<id>), there is no Pod, and no sidecar.
 *
 * A tenant gets no more of its own processes than ptrace(2) and perf would give it anyway: events of user code alone,
 * that follow the container's init and its children (strategy `process`), a pidfd (which signals no process that
 * kill(2) could not: it is of another pid namespace), its names and labels. Never passed, whatever the policy says:
 * kernel code, tracepoints, probes, raw counters; the container's files; its cgroup's directory, which leads up to all
 * others; pids of the host. Rings are the sidecar's own, within its user's locked memory. The listener may be any
 * process of the Pod: it can spoil the Pod's profiles and hold up starts of the Pod's containers for a budget each, no
 * others.
 *
 * Function names: the sidecar has no files of the container's. Those that it finds beneath its setting `target_root`
 * (the same image as a volume, or a copy) are read; else stacks follow frame pointers, and functions are module, offset
 * and build-id for `pillion symbolize`.
 */
#pragma once

#include "oci/isolation/cgroup.h"

#define SIDECAR_DIR "/run/pillion"
#define SIDECAR_SOCKET "control.sock"

/*
 * Connects to the profiler of a container's Pod. volume: its absolute path on the host; of: the container's cgroup.
 * Returns a socket, or -errno with a sentence.
 */
int sidecar_reach(const char *volume, const struct cgroup_target *of, struct err *e);
/* Finds the parent of a container's cgroup, if its name is that of a Pod: 0, or -ENOENT. */
int sidecar_pod(const char *cgroup, char *ret, size_t size);

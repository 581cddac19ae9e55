/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sidecar - a Pod's own profiler: an unprivileged pilliond in a container of the same Pod, which gets the events of the
 * Pod's other containers from the node's hook. Off, unless the administrator's policy says `sidecars = yes`.
 *
 * A volume of the Pod's (emptyDir) is mounted at SIDECAR_DIR in both containers; the profiler listens there, at its
 * default place. The hook knows the volume by the mounts of the container that starts (config.json), and reaches the
 * socket on the host: by openat2(2) without any symbolic link, then by the descriptor, so no name that a tenant can
 * replace is followed, and nothing is joined. Then it makes sure that who listens (SO_PEERCRED, by a pidfd of it) is in
 * the container's own Pod: in a cgroup below the one that holds the container's, whose name is a Pod's. A volume that
 * Pods share (hostPath) does not lead from one to the other; where containers of many owners lie side by side
 * (/docker/<id>), there is no Pod, and no sidecar.
 *
 * What is passed is what a tenant can have of its own processes anyway, as ptrace(2) and perf would give it to their
 * owner: events of user code alone, that follow the container's init and its children (strategy `process`), a pidfd
 * (which signals nobody that kill(2) could not: it is of another pid namespace), its names and labels. Not: kernel
 * code, tracepoints, probes, raw counters, whatever the policy says; the container's files; its cgroup's directory,
 * which leads up to everybody's; pids of the host. Rings are the sidecar's own, within its user's locked memory. Who
 * listens may be any process of the Pod's: it can spoil the Pod's profiles and hold up starts of the Pod's containers
 * for a budget each, no others.
 *
 * Function names: the sidecar has no files of the container's. What is there of them beneath its setting `target_root`
 * (the same image as a volume, or a copy) is read; else stacks follow frame pointers, and functions are module, offset
 * and build-id for `pillion symbolize`.
 */
#pragma once

#include "oci/isolation/cgroup.h"

#define SIDECAR_DIR "/run/pillion"
#define SIDECAR_SOCKET "control.sock"

/*
 * volume: on the host, absolute; of: the container's cgroup. A connection to its Pod's profiler, or -errno with a
 * sentence.
 */
int sidecar_reach(const char *volume, const struct cgroup_target *of, struct err *e);
/* The directory above a container's cgroup, if that is a Pod's by its name: 0, or -ENOENT. */
int sidecar_pod(const char *cgroup, char *ret, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
#include "oci/runtime/bundle.h"

#include "oci/base/fd.h"
#include "oci/base/process/child_process.h"
#include "oci/isolation/cgroup.h"
#include "oci/runtime/container.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const places[] = {
	"/run/containerd/io.containerd.runtime.v2.task/*/%s",
	"/run/docker/containerd/daemon/io.containerd.runtime.v2.task/*/%s",
	"/run/k3s/containerd/io.containerd.runtime.v2.task/*/%s",
	"/run/containers/storage/overlay-containers/%s/userdata",
	"/var/lib/containers/storage/overlay-containers/%s/userdata",
};

int bundle_id(pid_t pid, char *buf, size_t size)
{
	static const char *const around[] = {"libpod-", "docker-", "cri-containerd-", "crio-", "nerdctl-"};
	char path[1024];
	int r = cgroup_path(pid, "pids", path, sizeof(path));
	if (r < 0)
		r = cgroup_path(pid, NULL, path, sizeof(path));
	char *slash = r < 0 ? NULL : strrchr(path, '/');
	if (slash && slash > path && !strcmp(slash, "/container")) { /* crun's, below the engine's */
		*slash = 0;
		slash = strrchr(path, '/');
	}
	const char *id = slash ? slash + 1 : "";
	for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++)
		id += !strncmp(id, around[i], strlen(around[i])) ? strlen(around[i]) : 0;
	size_t len = strlen(id);
	len -= len > 6 && !strcmp(id + len - 6, ".scope") ? 6 : 0;
	if (!len || len >= size)
		return -ENOENT;
	snprintf(buf, size, "%.*s", (int)len, id);
	return container_id_valid(buf) ? 0 : -ENOENT;
}

static ssize_t read_args(pid_t pid, char *buf, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	fd_auto fd = fd_open(AT_FDCWD, path, O_RDONLY, 0);
	ssize_t n = fd < 0 ? fd : fd_read_all(fd, buf, size - 1);
	if (n >= 0)
		buf[n] = 0;
	return n;
}

const char *bundle_monitor(pid_t init, char *buf, size_t size)
{
	char args[4096];
	pid_t parent = proc_status_parent(init);
	buf[0] = 0;
	if (parent > 1 && read_args(parent, args, sizeof(args)) > 0) {
		const char *slash = strrchr(args, '/');
		snprintf(buf, size, "%s", slash ? slash + 1 : args);
	}
	return buf;
}

/* conmon's "-b BUNDLE" */
static bool from_conmon(pid_t init, char *buf, size_t size)
{
	static char args[65536];
	char name[64];
	if (strcmp(bundle_monitor(init, name, sizeof(name)), "conmon") != 0)
		return false;
	const ssize_t n = read_args(proc_status_parent(init), args, sizeof(args));
	for (char *at = args; n > 0 && at < args + n; at += strlen(at) + 1) {
		if (strcmp(at, "-b") != 0 && strcmp(at, "--bundle") != 0)
			continue;
		snprintf(buf, size, "%s", at + strlen(at) + 1);
		return buf[0] == '/';
	}
	return false;
}

int bundle_find(pid_t init, const char *id, char *buf, size_t size)
{
	char pattern[512];
	bool found = from_conmon(init, buf, size);
	for (size_t i = 0; !found && container_id_valid(id) && i < sizeof(places) / sizeof(places[0]); i++) {
		glob_t g = {0};
		snprintf(pattern, sizeof(pattern), places[i], id); // NOLINT(clang-diagnostic-format-nonliteral)
		found = glob(pattern, GLOB_NOSORT, NULL, &g) == 0 && strlen(g.gl_pathv[0]) < size;
		if (found)
			snprintf(buf, size, "%s", g.gl_pathv[0]);
		globfree(&g);
	}
	return found ? 0 : -ENOENT;
}
